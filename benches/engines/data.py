#!/usr/bin/env python3
"""Writes the data sets of the measurements: Parquet files of rows with a fixed seed.

    ./data.py FOLDER [ROWS_OF_MLP ROWS_OF_CONVOLUTION]

100,000 rows for the MLP (25 MB) and 2,048 for the convolution net (25 MB), if not given.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from models import SHAPES

ROWS = {"mlp": 100_000, "convolution": 2_048}
# Files of a data set, and so the blocks that an engine reads at least.
FILES = 8


def write(folder: Path, name: str, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random, size = np.random.default_rng(22), int(np.prod(SHAPES[name]))
    for number, ids in enumerate(np.array_split(np.arange(rows), FILES)):
        values = random.standard_normal(len(ids) * size, dtype=np.float32)
        x = pa.FixedSizeListArray.from_arrays(pa.array(values), size)
        pq.write_table(pa.table({"id": pa.array(ids), "x": x}), folder / f"{number:03}.parquet")


def main() -> None:
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    given = dict(zip(ROWS, map(int, sys.argv[2:])))
    for name, rows in (ROWS | given).items():
        write(Path(sys.argv[1]) / f"data-{name}", name, rows)


if __name__ == "__main__":
    main()
