"""Calls of a model with the rows of a batch, without an engine."""

import pickle

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

import incarnate
import rows
from incarnate._batches import BatchedFunction, RowError, as_array, match_columns

FLOAT = np.dtype(np.float32)


@pytest.fixture(scope="module")
def model():
    return incarnate.load(rows.MODEL, device="local-sync")


class Counted:
    """A function that keeps the numbers of rows of its calls."""

    def __init__(self, function):
        self.function, self.signature, self.calls = function, function.signature, []

    def __call__(self, *arguments):
        self.calls.append(len(arguments[0]))
        return self.function(*arguments)


def inputs(count, invalid=()):
    columns = rows.columns(np.arange(count))
    columns["weight"][list(invalid)] = -1
    return [columns["x"], columns["weight"]]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 21])
@pytest.mark.parametrize("function", ["rows", "eight_rows", "row"])
def test_any_number_of_rows(model, function, count):
    batched = BatchedFunction(model.functions[function], batched=function != "row")
    (scores, best), errors = batched(inputs(count), collect=False)
    assert not errors and scores.shape == (count, 3) and best.shape == (count,)
    assert scores.dtype == np.float32 and best.dtype == np.int32
    np.testing.assert_array_equal(scores, rows.scores(np.arange(count)))
    np.testing.assert_array_equal(best, rows.scores(np.arange(count)).argmax(axis=1) if count else best)


def test_calls_have_the_compiled_number_of_rows(model):
    counted = Counted(model.functions["eight_rows"])
    BatchedFunction(counted)(inputs(21), collect=False)
    assert counted.calls == [8, 8, 8]
    counted = Counted(model.functions["rows"])
    BatchedFunction(counted)(inputs(21), collect=False)
    assert counted.calls == [21]


@pytest.mark.parametrize("function", ["rows", "eight_rows", "row"])
@pytest.mark.parametrize("invalid", [(0,), (20,), (3, 4), (0, 8, 20), tuple(range(21))])
def test_rows_that_fail_leave_the_others(model, function, invalid):
    batched = BatchedFunction(model.functions[function], batched=function != "row")
    (scores, best), errors = batched(inputs(21, invalid), collect=True)
    assert tuple(sorted(errors)) == invalid
    valid = np.setdiff1d(np.arange(21), invalid)
    np.testing.assert_array_equal(scores[valid], rows.scores(valid))
    assert np.isnan(scores[list(invalid)]).all() and (best[list(invalid)] == 0).all()
    for row, error in errors.items():
        assert error.row == row and error.code == "FAILED_PRECONDITION" and str(error).startswith(f"row {row} of")
    with pytest.raises(RowError) as caught:
        batched(inputs(21, invalid), collect=False)
    assert caught.value.row == invalid[0]
    assert isinstance(caught.value.__cause__, incarnate.Error)


def test_a_row_that_fails_takes_logarithmically_many_calls(model):
    counted = Counted(model.functions["rows"])
    _, errors = BatchedFunction(counted)(inputs(1024, (700,)), collect=True)
    assert list(errors) == [700]
    assert len(counted.calls) == 2 * 10 + 1


def test_errors_of_rows_pickle(model):
    _, errors = BatchedFunction(model.functions["rows"])(inputs(4, (2,)), collect=True)
    copy = pickle.loads(pickle.dumps(errors[2]))
    assert (copy.row, copy.code, str(copy)) == (2, errors[2].code, str(errors[2]))


def test_errors_that_are_not_of_rows_are_raised(model):
    calls = []

    class Failing:
        signature = model.functions["rows"].signature

        def __call__(self, *arguments):
            calls.append(len(arguments[0]))
            error = incarnate.Error("it takes too long")
            error.code = "DEADLINE_EXCEEDED"
            raise error

    with pytest.raises(incarnate.Error, match="too long"):
        BatchedFunction(Failing())(inputs(16), collect=True)
    assert calls == [16]


def test_functions_without_a_batch_are_refused(model):
    with pytest.raises(ValueError, match="batched=False"):
        BatchedFunction(model.functions["row"])


def lists(values, kind=None):
    return pa.array(values, kind or pa.list_(pa.float32()))


def test_arrow_columns_are_read_without_a_copy():
    values = np.arange(80, dtype=np.float32).reshape(20, 4)
    flat = pa.array(values.ravel())
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
    columns = {
        "fixed": pa.FixedSizeListArray.from_arrays(flat, 4),
        "lists": pa.ListArray.from_arrays(pa.array(range(0, 81, 4), pa.int32()), flat),
        "large": pa.LargeListArray.from_arrays(pa.array(range(0, 81, 4), pa.int64()), flat),
        "tensor": tensors,
    }
    for name, column in columns.items():
        start = (tensors if name == "tensor" else flat).buffers()[-1].address
        for part in (column, pa.chunked_array([column])):
            array, invalid = as_array(part, (4,), FLOAT)
            assert array.ctypes.data == start and not invalid, name
            np.testing.assert_array_equal(array, values)
        array, _ = as_array(column.slice(5, 6), (4,), FLOAT)
        assert array.ctypes.data == start + 5 * 4 * 4, name
        np.testing.assert_array_equal(array, values[5:11])
        # Rows of more dimensions may be flat.
        array, _ = as_array(column, (2, 2), FLOAT)
        assert array.shape == (20, 2, 2) and array.ctypes.data == start


def test_ray_tensors_are_read_without_a_copy():
    extensions = pytest.importorskip("ray.data.extensions")
    values = np.arange(120, dtype=np.float32).reshape(10, 3, 4)
    column = extensions.ArrowTensorArray.from_numpy(values)
    array, invalid = as_array(column, (3, 4), FLOAT)
    assert np.shares_memory(array, values) and not invalid
    np.testing.assert_array_equal(array, values)
    ragged = extensions.ArrowTensorArray.from_numpy([values[0], values[1, :2]])
    array, invalid = as_array(ragged, (3, 4), FLOAT)
    np.testing.assert_array_equal(array[0], values[0])
    assert list(invalid) == [1] and "shape (2, 4)" in invalid[1]


def test_chunks_are_joined():
    values = np.arange(80, dtype=np.float32).reshape(20, 4)
    column = lists(values.tolist())
    array, invalid = as_array(pa.chunked_array([column.slice(0, 7), column.slice(7)]), (4,), FLOAT)
    np.testing.assert_array_equal(array, values)
    assert not invalid


@pytest.mark.parametrize(
    ("row", "message"),
    [(None, "null"), ([1.0, 2.0], "shape (2,)"), ([1.0, None, 2.0, 3.0], "null"), ([], "shape (0,)")],
)
def test_rows_without_a_value_are_named(row, message):
    good = [1.0, 2.0, 3.0, 4.0]
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float32(), 4)):
        if kind != pa.list_(pa.float32()) and row is not None and len(row) != 4:
            continue
        array, invalid = as_array(lists([good, row, good], kind), (4,), FLOAT)
        assert list(invalid) == [1] and message in invalid[1]
        np.testing.assert_array_equal(array, [good, [0] * 4, good])


def test_nested_lists_are_rows_of_more_dimensions():
    nested = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]], [[1.0], [2.0, 3.0]]]
    array, invalid = as_array(pa.array(nested[:2]), (2, 2), FLOAT)
    np.testing.assert_array_equal(array, nested[:2])
    array, invalid = as_array(pa.array(nested), (2, 2), FLOAT)
    np.testing.assert_array_equal(array[:2], nested[:2])
    assert list(invalid) == [2] and "different lengths" in invalid[2]


def test_elements_are_cast_where_no_value_changes():
    assert as_array(np.array([1.5], np.float64), (), FLOAT)[0].dtype == np.float32
    assert as_array(np.array([200], np.uint8), (), FLOAT)[0] == 200
    array, invalid = as_array(np.array([1, 2**40, -3]), (), np.dtype(np.int32))
    assert array[0] == 1 and array[2] == -3 and list(invalid) == [1]
    assert list(as_array(np.array([2**64 - 1, 5], np.uint64), (), np.dtype(np.int64))[1]) == [0]
    assert list(as_array(np.array([-1, 5]), (), np.dtype(np.uint8))[1]) == [0]
    with pytest.raises(ValueError, match="float64.*int32"):
        as_array(np.array([1.5]), (), np.dtype(np.int32))
    with pytest.raises(ValueError, match="shape"):
        as_array(np.zeros((3, 5), np.float32), (4,), FLOAT)


def test_columns_are_matched_with_inputs(model):
    slots = model.functions["rows"].signature.inputs
    assert match_columns(slots, ["weight", "id", "x"], None) == ["x", "weight"]
    assert match_columns(slots, ["a", "b"], ["b", "a"]) == ["b", "a"]
    assert match_columns(slots, ["a", "weight"], {"x": "a"}) == ["a", "weight"]
    assert match_columns(slots[:1], ["only"], None) == ["only"]
    for columns, given in ((["x"], None), (["a", "b"], ["a"]), (["x", "weight"], {"y": "x"}), (["x", "weight"], ["x", "z"])):
        with pytest.raises(ValueError):
            match_columns(slots, columns, given)
