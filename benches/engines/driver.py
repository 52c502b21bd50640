#!/usr/bin/env python3
"""Measures what a block costs the parts of Ray Data of which a cluster has one: the driver and the control service (GCS).

    ./driver.py [FEW MANY]

Runs an actor pool that returns its blocks as they are, over FEW and MANY blocks (50 and 450 if not given), and prints the
processor's milliseconds for each block, from the difference of the two runs.
"""

import os
import sys
from pathlib import Path

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Workers at the priority of this process, which Ray lowers otherwise.
os.environ["RAY_worker_niceness"] = "0"

import ray

TICK = os.sysconf("SC_CLK_TCK")


def cpu(process: int | str) -> float:
    """Returns the milliseconds of the processor that a process has used, with all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / TICK


def control_service() -> str:
    """Returns the process of the GCS that this process started."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        if status[0].endswith("(gcs_server") and int(status[1].split()[1]) == os.getpid():
            return folder.name
    raise SystemExit("no gcs_server was started by this process")


class Identity:
    def __call__(self, batch):
        return batch


def run(blocks: int) -> None:
    data = ray.data.range(blocks * 100, override_num_blocks=blocks)
    pool = ray.data.ActorPoolStrategy(size=1)
    mapped = data.map_batches(Identity, batch_format="pyarrow", batch_size=None, compute=pool, num_cpus=1)
    assert sum(len(batch["id"]) for batch in mapped.iter_batches(batch_size=None)) == blocks * 100


def main() -> None:
    few, many = map(int, sys.argv[1:] or (50, 450))
    ray.init("local", num_cpus=2, object_store_memory=200 << 20, include_dashboard=False, _node_ip_address="127.0.0.2")
    ray.data.DataContext.get_current().enable_progress_bars = False
    service, used = control_service(), {}
    run(few)  # Starts workers.
    for blocks in (few, many):
        before = cpu("self"), cpu(service)
        run(blocks)
        used[blocks] = cpu("self") - before[0], cpu(service) - before[1]
    ray.shutdown()
    driver, gcs = ((used[many][part] - used[few][part]) / (many - few) for part in (0, 1))
    print(f"driver {driver:.2f} ms, GCS {gcs:.2f} ms for each block (load {os.getloadavg()[0]:.1f})")


if __name__ == "__main__":
    main()
