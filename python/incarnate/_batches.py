"""Calls of a model with the rows of an engine's batch: any number of rows, some of which may fail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from incarnate import Error

Array = np.ndarray[Any, Any]
Shape = tuple[int | None, ...]

# The status codes that the values of a row can cause. Another code is about the process or the module, so that it is the
# same for every row: it is raised.
_CODES_OF_ROWS = frozenset(["INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "RESOURCE_EXHAUSTED"])


class RowError(Error):
    """A row of a batch failed. `row` is its index in the batch, counted from 0; `code`, `message` and `locations` are those of
    the error that the row caused."""

    row: int

    @classmethod
    def create(cls, row: int, cause: Error | str) -> RowError:
        """Returns the error for a row that caused an error, or that cannot be an argument."""
        error = cls(f"row {row} of the batch: {cause}")
        error.row = row
        error.code = getattr(cause, "code", "INVALID_ARGUMENT")
        error.message = getattr(cause, "message", str(cause))
        error.locations = getattr(cause, "locations", ())
        return error


def match_columns(slots: Sequence[Any], columns: Sequence[str], inputs: Any) -> list[str]:
    """Returns the column of each input: as `inputs` says (a name, names in the order of the inputs, or a mapping of the
    inputs' names), else the one of its name, else the only one."""
    names = [slot.name for slot in slots]
    if isinstance(inputs, str):
        inputs = [inputs]
    if isinstance(inputs, Mapping):
        chosen = [inputs.get(name, name) for name in names]
        unknown = [name for name in inputs if name not in names]
        if unknown:
            raise ValueError(f"inputs= names {unknown}; the function takes {names}")
    elif inputs is not None:
        chosen = list(inputs)
        if len(chosen) != len(names):
            raise ValueError(f"inputs= has {len(chosen)} columns; the function takes {len(names)} inputs: {names}")
    elif len(names) == 1 and len(columns) == 1:
        return list(columns)
    else:
        chosen = names
    missing = [column for column in chosen if column not in columns]
    if missing:
        raise ValueError(
            f"the batch has no column {missing}: the function takes {names}, the batch has {list(columns)}; pass inputs="
        )
    return chosen


class BatchedFunction:
    """A function of a model that takes columns of any number of rows.

    The first extent of all inputs and results is that of the batch. Where it is dynamic, the rows go into one call. Where the
    model was compiled for a number of rows, they are divided into calls of that number; the last one is padded with copies of
    its last row, because zeros may be invalid where rows are valid. With `batched=False` the function takes one row, without
    an extent for the batch.

    A call that fails is repeated with each half of its rows, until single rows are left: n rows of which k fail take at most
    2 k log2(n) + 1 more calls. Rows must not depend on each other.
    """

    def __init__(self, function: Any, *, batched: bool = True):
        self.function = function
        self.batched = batched
        self.inputs = function.signature.inputs
        self.outputs = function.signature.outputs
        self.rows = self._compiled_rows() if batched else 1

    def _compiled_rows(self) -> int | None:
        """Returns the number of rows that the function was compiled for, `None` where it is dynamic."""
        extents = set()
        for slot in self.inputs:
            if not slot.shape:
                raise ValueError(f"input {slot.name} has no extent for a batch; pass batched=False")
            extents.add(slot.shape[0])
        extents.discard(None)
        if not self.inputs or len(extents) > 1:
            shapes = {slot.name: slot.shape for slot in self.inputs}
            raise ValueError(f"the inputs have no common extent for a batch: {shapes}; pass batched=False")
        return extents.pop() if extents else None

    def row_shape(self, slot: Any) -> Shape:
        """Returns the shape of one row of an input or of a result."""
        return tuple(slot.shape[1:] if self.batched else slot.shape)

    def __call__(self, columns: Sequence[Any], *, collect: bool) -> tuple[list[Array], dict[int, RowError]]:
        """Returns the results of all rows, and the errors of rows that failed. The results of those are NaN, or 0
        where the element type is none of NumPy's floating-point types. Without `collect` the first row that fails is raised."""
        arrays, failures = [], _Failures(collect)
        for slot, column in zip(self.inputs, columns, strict=True):
            array, invalid = as_array(column, self.row_shape(slot), slot.dtype)
            arrays.append(array)
            failures.add(invalid)
        rows = len(arrays[0])
        results = _Results(rows)
        if failures.errors:
            valid = np.array([row for row in range(rows) if row not in failures.errors], dtype=np.intp)
            arrays = [array[valid] for array in arrays]
        else:
            valid = np.arange(rows)
        step = self.rows or max(len(valid), 1)
        for start in range(0, len(valid), step):
            self._attempt(arrays, valid, start, min(start + step, len(valid)), results, failures)
        return results.finish(self), failures.errors

    def _attempt(
        self, arrays: list[Array], valid: Array, start: int, stop: int, results: _Results, failures: _Failures
    ) -> None:
        """Calls the function with the rows `start..stop`, and with fewer where that fails."""
        try:
            values = self._call([array[start:stop] for array in arrays], stop - start)
        except Error as error:
            if getattr(error, "code", None) not in _CODES_OF_ROWS:
                raise
            if stop - start == 1:
                failures.add({int(valid[start]): error})
                return
        else:
            results.store(valid[start:stop], values)
            return
        middle = (start + stop) // 2
        self._attempt(arrays, valid, start, middle, results, failures)
        self._attempt(arrays, valid, middle, stop, results, failures)

    def _call(self, arrays: list[Array], rows: int) -> list[Array]:
        if not self.batched:
            arrays = [array[0, ...] for array in arrays]
        elif self.rows is not None and rows < self.rows:
            arrays = [_padded(array, self.rows) for array in arrays]
        values = self.function(*arrays)
        values = list(values) if isinstance(values, tuple) else [values]
        if not self.batched:
            return [np.asarray(value)[np.newaxis] for value in values]
        expected = rows if self.rows is None else self.rows
        for slot, value in zip(self.outputs, values, strict=True):
            if not np.ndim(value) or len(value) != expected:
                shape = np.shape(value)
                raise ValueError(f"result {slot.name} has shape {shape} for {expected} rows: it has no extent for the batch")
        return [value[:rows] for value in values]


def _padded(array: Array, rows: int) -> Array:
    """Returns the array with its last row repeated."""
    padded = np.empty((rows, *array.shape[1:]), array.dtype)
    padded[: len(array)] = array
    padded[len(array) :] = array[-1]
    return padded


class _Failures:
    """The errors of rows."""

    def __init__(self, collect: bool):
        self.collect = collect
        self.errors: dict[int, RowError] = {}

    def add(self, causes: Mapping[int, Error | str]) -> None:
        for row in sorted(causes):
            error = RowError.create(row, causes[row])
            if not self.collect:
                cause = causes[row]
                raise error from (cause if isinstance(cause, Error) else None)
            self.errors.setdefault(row, error)


class _Results:
    """The results of the rows that were computed."""

    def __init__(self, rows: int):
        self.rows = rows
        self.arrays: list[Array] | None = None
        self.stored = 0

    def store(self, positions: Array, values: list[Array]) -> None:
        if len(positions) == self.rows:
            self.arrays = values  # All rows in one call: without a copy.
        else:
            if self.arrays is None:
                self.arrays = [_undefined((self.rows, *value.shape[1:]), value.dtype) for value in values]
            for array, value in zip(self.arrays, values):
                if array.shape[1:] != value.shape[1:]:
                    raise ValueError(f"rows of one batch have results of the shapes {array.shape[1:]} and {value.shape[1:]}")
                array[positions] = value
        self.stored += len(positions)

    def finish(self, function: BatchedFunction) -> list[Array]:
        if self.arrays is None:
            shapes = [[extent or 0 for extent in function.row_shape(slot)] for slot in function.outputs]
            return [_undefined((self.rows, *shape), slot.dtype) for shape, slot in zip(shapes, function.outputs)]
        return self.arrays


def _undefined(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Returns an array of NaN, or of zeros where the element type is none of NumPy's floating-point types."""
    array = np.zeros(shape, dtype)
    if dtype.kind in "fc":
        array[...] = np.nan
    return array


def as_array(column: Any, shape: Shape, dtype: np.dtype[Any]) -> tuple[Array, dict[int, str]]:
    """Returns the rows of a column as one array of a row shape and an element type, and what is wrong with rows that have no
    such value; those are zeros in the array.

    A column is a NumPy array, whose elements may be arrays, a pandas Series, or an Arrow array of numbers, of lists, or of
    tensors. Rows may be flat where the shape has more dimensions. Without a copy: NumPy arrays; Arrow arrays of one chunk,
    without nulls, but of Booleans; where the element type is the input's.
    """
    array = _arrow_array(column) if hasattr(column, "type") and hasattr(column, "null_count") else np.asarray(column)
    invalid: dict[int, str] = {}
    if array.dtype == object:
        array, invalid = _stacked(array, shape, dtype)
    elif not _fits(array.shape[1:], shape):
        if len(array):
            raise ValueError(f"rows have shape {array.shape[1:]}, the function takes {shape}")
        array = np.zeros((0, *(extent or 0 for extent in shape)), dtype)
    elif len(array.shape) - 1 != len(shape):
        array = array.reshape(len(array), *shape)
    array, overflows = _cast(array, dtype)
    for row in overflows:
        invalid.setdefault(int(row), f"a value is out of the range of {dtype}")
    return array, invalid


def _fits(shape: tuple[int, ...], expected: Shape) -> bool:
    """Returns whether a row is of a shape, or flat and of as many elements."""
    if len(shape) == len(expected):
        return all(extent in (None, own) for own, extent in zip(shape, expected))
    return len(shape) == 1 and None not in expected and shape[0] == math.prod(extent or 0 for extent in expected)


def _cast(array: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Returns the array in an element type, and the rows with integers that it cannot represent."""
    none = np.empty(0, np.intp)
    if array.dtype == dtype:
        return array, none
    if not (np.can_cast(array.dtype, dtype, "same_kind") or (array.dtype.kind in "iu" and dtype.kind in "iu")):
        raise ValueError(f"a column has elements of {array.dtype}, the function takes {dtype}; cast it first")
    cast = array.astype(dtype)
    if dtype.kind not in "iu" or np.can_cast(array.dtype, dtype, "safe"):
        return cast, none
    # The sign tells 2**64 - 1 from -1, which compare equal after a conversion to one type.
    different = (cast.astype(array.dtype) != array) | ((cast < 0) != (array < 0))
    return cast, np.flatnonzero(different.reshape(len(array), -1).any(axis=1))


def _stacked(array: Array, shape: Shape, dtype: np.dtype[Any]) -> tuple[Array, dict[int, str]]:
    """Returns rows that are objects as one array, and what is wrong with the others."""
    rows: list[Array | None] = []
    invalid: dict[int, str] = {}
    for index, value in enumerate(array):
        row = None
        try:
            row = None if value is None else np.asarray(value)
        except ValueError:
            invalid[index] = "its lists have different lengths"
        if value is None:
            invalid[index] = "its value is null"
        elif row is not None and row.dtype == object:
            invalid[index], row = "it contains a value that is null or no number", None
        elif row is not None and not _fits(row.shape, shape):
            invalid[index], row = f"it has shape {row.shape}, the function takes {shape}", None
        if row is not None:
            row = row.reshape([extent or 0 for extent in shape]) if row.ndim != len(shape) else row
            # Of dynamic extents the first row decides.
            shape = row.shape
        rows.append(row)
    valid = [row for row in rows if row is not None]
    kind = np.result_type(*{row.dtype for row in valid}) if valid else dtype
    result = np.zeros((len(rows), *(extent or 0 for extent in shape)), kind)
    for index, row in enumerate(rows):
        if row is not None:
            result[index] = row
    return result, invalid


def _arrow_array(column: Any) -> Array:
    """Returns an Arrow array as one of NumPy: of objects where a value is null or rows differ in shape."""
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    if not chunks:
        return np.empty(0, object)
    arrays = [array for chunk in chunks if (array := _regular(chunk)) is not None]
    if len(arrays) == len(chunks) and len({array.shape[1:] for array in arrays}) == 1:
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    objects = np.empty(len(column), object)
    for index, value in enumerate(row for chunk in chunks for row in _values(chunk)):
        objects[index] = value
    return objects


def _values(chunk: Any) -> list[Any]:
    """Returns each row as a Python value: `None` where it is null."""
    if hasattr(chunk, "storage") and chunk.storage.type.num_fields == 2:
        # A tensor of its own shape: the data, and the shape.
        rows = [(None, None) if row is None else row.values() for row in chunk.storage.to_pylist()]
        return [None if data is None else np.asarray(data).reshape(shape) for data, shape in rows]
    values: list[Any] = (chunk.storage if hasattr(chunk, "storage") else chunk).to_pylist()
    return values


def _regular(chunk: Any) -> Array | None:
    """Returns an Arrow array without nulls, all of whose rows have one shape, as an array of NumPy, in general without a
    copy."""
    shape, rows = None, len(chunk)
    if hasattr(chunk, "storage"):
        kind = chunk.type
        order = list(getattr(kind, "permutation", None) or [])
        if order != sorted(order):
            raise ValueError(f"a tensor column has its dimensions in the order {order}; transpose it first")
        shape = getattr(kind, "shape", None)
        chunk = chunk.storage
    extents = []
    while hasattr(chunk.type, "value_type") and hasattr(chunk, "values"):
        if chunk.null_count:
            return None
        extent = getattr(chunk.type, "list_size", None)
        if extent is None:
            offsets = chunk.offsets.to_numpy()
            lengths = np.diff(offsets)
            if len(lengths) and (lengths != lengths[0]).any():
                return None
            extent, start = (int(lengths[0]) if len(lengths) else 0), int(offsets[0]) if len(offsets) else 0
        else:
            start = chunk.offset * extent
        extents.append(extent)
        chunk = chunk.values.slice(start, len(chunk) * extent)
    if chunk.null_count or chunk.type.num_fields:
        return None
    values: Array = chunk.to_numpy(zero_copy_only=False)
    if values.dtype == object:
        return None
    return values.reshape(rows, *(extents if shape is None else shape))
