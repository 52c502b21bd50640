"""The predictor of Ray Data, called with batches of each format, without a cluster."""

import numpy as np
import pytest

pytest.importorskip("ray.data")
import pandas as pd
import pyarrow as pa

import incarnate.ray
import rows

COUNT = 20


def batch(kind: str, invalid: tuple[int, ...] = ()):
    table = rows.table(np.arange(COUNT), invalid)
    if kind == "pyarrow":
        return table
    x = np.stack(table["x"].to_numpy())
    columns = {"id": table["id"].to_numpy(), "x": x, "weight": table["weight"].to_numpy()}
    return columns if kind == "numpy" else pd.DataFrame({**columns, "x": list(x)})


def column(result, name: str) -> np.ndarray:
    """Returns a column of a batch of any format."""
    if isinstance(result, pa.Table):
        found = result[name].combine_chunks()
        return found.to_numpy() if hasattr(found, "storage") else found.to_numpy(zero_copy_only=False)
    if isinstance(result, pd.DataFrame):
        values = result[name].to_numpy()
        # Strings and nulls stay objects; tensors become one array.
        return values if name == "error" else np.stack(values)
    return result[name]


@pytest.mark.parametrize("kind", ["pyarrow", "numpy", "pandas"])
def test_results_are_columns(kind):
    given = batch(kind)
    result = incarnate.ray.Predictor(rows.MODEL, function="rows")(given)
    assert type(result) is type(given)
    rows.check(column(result, "id"), column(result, "scores"), column(result, "best"), COUNT)


@pytest.mark.parametrize("kind", ["pyarrow", "numpy", "pandas"])
def test_errors_are_a_column(kind):
    predictor = incarnate.ray.Predictor(rows.MODEL, function="rows", error_column="error")
    errors = column(predictor(batch(kind, (3, 17))), "error")
    assert [row for row, error in enumerate(errors) if not pd.isna(error)] == [3, 17]
    assert errors[3].startswith("row 3 of the batch: ") and "a weight is negative" in errors[17]
    # A batch without errors has a column of the same type.
    result = predictor(batch("pyarrow"))
    assert result.schema.field("error").type == pa.string() and result["error"].null_count == COUNT
    with pytest.raises(incarnate.ray.RowError, match="row 3 of the batch"):
        incarnate.ray.Predictor(rows.MODEL, function="rows")(batch(kind, (3, 17)))


def test_columns_are_named():
    inputs, outputs = {"input0": "x", "input1": "weight"}, ["first", "second"]
    predictor = incarnate.ray.Predictor(rows.MODEL, function="eight_rows", inputs=inputs, outputs=outputs)
    result = predictor(batch("pyarrow"))
    assert result.column_names == ["id", "x", "weight", "first", "second"]
    rows.check(column(result, "id"), column(result, "first"), column(result, "second"), COUNT)
    with pytest.raises(ValueError, match="has columns .*id.* already"):
        incarnate.ray.Predictor(rows.MODEL, function="rows", outputs=["id", "best"])(batch("pyarrow"))
    with pytest.raises(ValueError, match="2 results"):
        incarnate.ray.Predictor(rows.MODEL, function="rows", outputs="one")


def test_results_become_arrow_without_a_copy():
    count = 4096
    predictor = incarnate.ray.Predictor(rows.MODEL, function="rows")
    kept = []
    call = predictor._function.function

    class Kept:
        signature = call.signature

        def __call__(self, *arguments):
            kept.append(call(*arguments))
            return kept[-1]

    predictor._function.function = Kept()
    result = predictor(rows.table(np.arange(count)))
    scores, best = kept[0]
    assert result["scores"].chunk(0).storage.values.buffers()[1].address == scores.ctypes.data
    assert result["best"].chunk(0).buffers()[1].address == best.ctypes.data
