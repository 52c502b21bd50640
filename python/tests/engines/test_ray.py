"""Ray Data on a cluster of two nodes, both on this machine."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

ray = pytest.importorskip("ray")
import pyarrow as pa
import pyarrow.parquet as pq
from ray.cluster_utils import Cluster

import incarnate.ray
import rows

COUNT = 100_000


@pytest.fixture(scope="module")
def cluster(patient):
    """Two raylets. Ray replaces 127.0.0.1 by the machine's address, but no other loopback address."""
    # Three processors for actors, one for tasks that read and write.
    node = {"num_cpus": 2, "object_store_memory": 250 << 20}
    head = {**node, "node_ip_address": "127.0.0.2", "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(**node, node_ip_address="127.0.0.3")
    cluster.wait_for_nodes()
    ray.init(address=cluster.address)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return rows.write(tmp_path_factory.mktemp("data"), COUNT)


class Located(incarnate.ray.Predictor):
    """Adds the node of each row. Computes nothing until both nodes have loaded the model."""

    def __init__(self, path, *, folder, **options):
        super().__init__(path, **options)
        self.folder, self.node = Path(folder), ray.get_runtime_context().get_node_id()
        (self.folder / self.node).touch()

    def __call__(self, batch):
        for _ in range(3000):
            if len(list(self.folder.iterdir())) == 2:
                return super().__call__(batch).append_column("node", pa.array([self.node] * len(batch)))
            time.sleep(0.1)
        raise TimeoutError("no actor of the other node has loaded the model")


class KilledOnce(incarnate.ray.Predictor):
    """Kills its own process, once, in the batch that has a certain row."""

    def __init__(self, path, *, row, marker, **options):
        super().__init__(path, **options)
        self.row, self.marker = row, marker

    def __call__(self, batch):
        result = super().__call__(batch)
        if self.row in batch["id"].to_numpy():
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return result
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def mapped(data, predictor, concurrency=2, batch_size=1024, batch_format="pyarrow", path=rows.MODEL, **arguments):
    # The reader joins small files; blocks of their own reach all actors.
    return ray.data.read_parquet(str(data)).repartition(20).map_batches(
        predictor,
        fn_constructor_args=[str(path)],
        fn_constructor_kwargs={"function": "rows", **arguments},
        batch_format=batch_format,
        batch_size=batch_size,
        compute=ray.data.ActorPoolStrategy(size=concurrency, max_tasks_in_flight_per_actor=1),
        num_cpus=1,
    )


def collected(dataset) -> dict[str, np.ndarray]:
    batches = list(dataset.iter_batches(batch_size=None, batch_format="numpy"))
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


@pytest.mark.parametrize(("batch_format", "batch_size"), [("pyarrow", 1000), ("numpy", 1024), ("pandas", 1000)])
def test_every_row_is_computed_once(cluster, data, batch_format, batch_size):
    found = collected(mapped(data, incarnate.ray.Predictor, batch_format=batch_format, batch_size=batch_size))
    rows.check(found["id"], found["scores"], found["best"], COUNT)


def test_both_nodes_compute(cluster, data, tmp_path):
    # Two of three actors fit on a node, and take two of the blocks at most until the third is there.
    found = collected(mapped(data, Located, concurrency=3, folder=str(tmp_path)))
    rows.check(found["id"], found["scores"], found["best"], COUNT)
    assert set(found["node"]) == {node["NodeID"] for node in ray.nodes()}


def test_a_killed_actor_loses_and_duplicates_no_row(cluster, data, tmp_path):
    marker = tmp_path / "killed"
    dataset = mapped(data, KilledOnce, row=COUNT // 2, marker=str(marker))
    dataset.write_parquet(str(tmp_path / "results"))
    assert marker.exists(), "no actor was killed"
    found = pq.read_table(tmp_path / "results")
    assert found.num_rows == COUNT
    found = {name: np.stack(found[name].to_numpy()) for name in ("id", "best")} | {"scores": stored(found["scores"])}
    rows.check(found["id"], found["scores"], found["best"], COUNT)


def stored(column) -> np.ndarray:
    """Returns a tensor column of a Parquet file."""
    return np.stack([np.asarray(value).reshape(3) for value in column.to_pylist()])


@pytest.mark.parametrize(
    ("batch_format", "function"), [("pyarrow", "rows"), ("numpy", "eight_rows"), ("pandas", "rows")]
)
def test_rows_that_fail_are_reported(cluster, tmp_path, batch_format, function):
    invalid = (0, 1234, 1999)
    data = rows.write(tmp_path / "data", 2000, files=1, invalid=invalid)
    arguments = {"function": function, "error_column": "error", "batch_format": batch_format}
    if function == "eight_rows":
        arguments |= {"inputs": ["x", "weight"], "outputs": ["scores", "best"]}
    found = collected(mapped(data, incarnate.ray.Predictor, concurrency=1, batch_size=1000, **arguments))
    order = np.argsort(found["id"])
    found = {name: column[order] for name, column in found.items()}
    np.testing.assert_array_equal(found["id"], np.arange(2000))
    failed = [row for row, error in enumerate(found["error"]) if error is not None]
    assert tuple(failed) == invalid
    for row in invalid:
        assert found["error"][row].startswith(f"row {row % 1000} of the batch: ")
        assert "FAILED_PRECONDITION" in found["error"][row] and "a weight is negative" in found["error"][row]
        assert np.isnan(found["scores"][row]).all()
    valid = np.setdiff1d(np.arange(2000), invalid)
    np.testing.assert_array_equal(found["scores"][valid], rows.scores(valid))


def test_a_row_that_fails_is_raised(cluster, tmp_path):
    data = rows.write(tmp_path / "data", 2000, files=1, invalid=(1234,))
    with pytest.raises(Exception, match="row 234 of the batch: .*a weight is negative"):
        collected(mapped(data, incarnate.ray.Predictor, concurrency=1, batch_size=1000))


def test_workers_are_the_processors_of_the_actor(cluster):
    @ray.remote(num_cpus=2)
    def assigned():
        return incarnate.ray.assigned_workers()

    @ray.remote(num_cpus=0.5)
    def less_than_one():
        return incarnate.ray.assigned_workers()

    assert ray.get([assigned.remote(), less_than_one.remote()]) == [2, 1]
