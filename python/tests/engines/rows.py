"""The data set of these tests, and what the model in models/rows.mlir computes from it.

    python rows.py FOLDER COUNT [FILES]

writes COUNT rows to Parquet files. Row n is a function of n, so that a test knows what each result must be.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MODEL = Path(__file__).parent / "models" / "rows.vmfb"
MATRIX = np.array([[1, 2, 3], [4, 5, -6], [7, -8, 9], [-0.5, 0.25, 1]], np.float32)


def columns(ids: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the inputs of rows. All numbers are small multiples of 1/8, whose products and sums are exact."""
    x = (ids[:, np.newaxis] * np.array([7, 11, 13, 17]) % 61 - 30) / 8
    weight = (ids * 19 % 23 + 1) / 8
    return {"x": x.astype(np.float32), "weight": weight.astype(np.float32)}


def scores(ids: np.ndarray) -> np.ndarray:
    """Returns the first result of rows."""
    inputs = columns(ids)
    return (inputs["x"] @ MATRIX) * inputs["weight"][:, np.newaxis]


def table(ids: np.ndarray, invalid: tuple[int, ...] = ()) -> pa.Table:
    """Returns rows as Arrow; the weight of `invalid` rows is negative, which the model rejects."""
    inputs = columns(ids)
    weight = np.where(np.isin(ids, invalid), np.float32(-1), inputs["weight"])
    x = pa.FixedSizeListArray.from_arrays(pa.array(inputs["x"].ravel()), 4)
    return pa.table({"id": pa.array(ids), "x": x, "weight": pa.array(weight)})


def write(folder: Path, count: int, files: int = 10, invalid: tuple[int, ...] = ()) -> Path:
    """Writes rows to Parquet files and returns their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, ids in enumerate(np.array_split(np.arange(count), files)):
        pq.write_table(table(ids, invalid), folder / f"{number:03}.parquet")
    return folder


def check(ids: np.ndarray, found: np.ndarray, best: np.ndarray, count: int) -> None:
    """Checks that every row is there once, with its results."""
    order = np.argsort(ids, kind="stable")
    np.testing.assert_array_equal(ids[order], np.arange(count))
    expected = scores(np.arange(count))
    np.testing.assert_array_equal(found[order], expected)
    np.testing.assert_array_equal(best[order], expected.argmax(axis=1))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    write(Path(sys.argv[1]), *map(int, sys.argv[2:]))
