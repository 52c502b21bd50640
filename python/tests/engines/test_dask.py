"""Dask, to whose processes a model goes by pickling alone."""

import os

import numpy as np
import pandas as pd
import pytest

dask = pytest.importorskip("dask")
dataframe = pytest.importorskip("dask.dataframe")

import incarnate
import rows

COUNT = 100_000


def predict(frame: pd.DataFrame, model) -> pd.DataFrame:
    scores, best = model.rows(np.stack(frame["x"].to_numpy()), frame["weight"].to_numpy())
    scores = pd.DataFrame(np.asarray(scores), columns=["score0", "score1", "score2"], index=frame.index)
    return scores.assign(id=frame["id"], best=best, process=os.getpid())


def test_partitions_are_mapped_by_pickling(tmp_path):
    data = rows.write(tmp_path / "data", COUNT)
    model = incarnate.load(rows.MODEL, workers=1)
    meta = {"score0": "f4", "score1": "f4", "score2": "f4", "id": "i8", "best": "i4", "process": "i8"}
    # One partition for each of the ten files.
    frame = dataframe.read_parquet(data, columns=["id", "x", "weight"], split_row_groups=True)
    mapped = frame.map_partitions(predict, model, meta=meta)
    with dask.config.set({"multiprocessing.context": "spawn"}):
        found = mapped.compute(scheduler="processes", num_workers=2)
    rows.check(found["id"].to_numpy(), found[["score0", "score1", "score2"]].to_numpy(), found["best"].to_numpy(), COUNT)
    assert os.getpid() not in set(found["process"])
