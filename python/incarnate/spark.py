"""Models in Spark: `df.select(incarnate.spark.predict_batch_udf("net.vmfb")("x"))`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from pyspark.ml.functions import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    predict_batch_udf as _predict_batch_udf,
)
from pyspark.sql import SparkSession  # type: ignore[import-not-found, import-untyped, unused-ignore]
from pyspark.sql import types as sql  # type: ignore[import-not-found, import-untyped, unused-ignore]

import incarnate
from incarnate._batches import Array, BatchedFunction, RowError

__all__ = ["RowError", "predict_batch_udf"]

# The rows of a call that Spark suggests nothing for: as many as amortise the call and fit a cache.
_ROWS = 1024

# Spark's types, and the element types that their columns take; unsigned and Boolean ones are widened, which Spark's function
# does not take.
_TYPES = {
    "int8": (sql.ByteType, np.int8),
    "int16": (sql.ShortType, np.int16),
    "int32": (sql.IntegerType, np.int32),
    "int64": (sql.LongType, np.int64),
    "bool": (sql.ByteType, np.int8),
    "uint8": (sql.ShortType, np.int16),
    "uint16": (sql.IntegerType, np.int32),
    "uint32": (sql.LongType, np.int64),
    "float64": (sql.DoubleType, np.float64),
    "float32": (sql.FloatType, np.float32),
    "float16": (sql.FloatType, np.float32),
    "bfloat16": (sql.FloatType, np.float32),
}


def predict_batch_udf(
    path: Any,
    *,
    function: str | None = None,
    error_column: str | None = None,
    batched: bool = True,
    batch_size: int | None = None,
    workers: int | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """Returns a user-defined function for columns: `pyspark.ml.functions.predict_batch_udf` of a model, with the types and
    shapes of its signature. It takes a column for each input, in order.

    The result is a number or an array where the function has one result, else a structure with a field for each. Arrays of
    more than one dimension are flat, as Spark's function has them.

    Every Python worker process loads the model once; those of a machine map the same file, and so share its pages. The file
    must be on every machine, under the same path and with the same contents, or a task fails. The bytes of a module instead
    of a path are sent to each worker.

    Arguments:
        path: the model, as `incarnate.load` takes it
        function: the name of a function, for models with several
        error_column: the name of a further field: what went wrong with the row, null where nothing did. Results of such rows
            are NaN, or 0 where they are no floating-point numbers. By default a row that fails fails the task, as `RowError`.
            Where the function has a single input, Spark itself stacks its arrays: null or another length fails the task
        batched: whether the first extent of inputs and results is that of the batch; else each row is a call
        batch_size: the rows that Spark puts into a batch, by default about 1024: a multiple of the number that the model was
            compiled for
        workers: the threads of a call, by default `spark.task.cpus`
        options: the other arguments of `incarnate.load`
    """
    model = incarnate.load(path, workers=_task_cpus() if workers is None else workers, **options)
    make_predict_fn = _MakePredict(model, function, error_column, batched)
    called = make_predict_fn.function()
    udf: Callable[..., Any] = _predict_batch_udf(
        make_predict_fn,
        return_type=make_predict_fn.return_type(called),
        batch_size=batch_size or (called.rows or 1) * max(1, _ROWS // (called.rows or 1)),
        input_tensor_shapes=_input_shapes(called),
    )
    return udf


def _task_cpus() -> int:
    """Returns the processors of a task."""
    session = SparkSession.getActiveSession()
    return int(session.conf.get("spark.task.cpus", "1") or 1) if session is not None else 1


def _input_shapes(function: BatchedFunction) -> list[list[int] | None] | None:
    """Returns the shapes of rows, as Spark's function takes them."""
    shapes = [function.row_shape(slot) for slot in function.inputs]
    if len(shapes) > 1:
        # Not given to Spark, which would stack the arrays, so that a row of another length loses its batch.
        return [None for _ in shapes]
    if None in shapes[0]:
        raise ValueError(f"input {function.inputs[0].name} has rows of shape {shapes[0]}: Spark takes no dynamic extents")
    return [[extent or 0 for extent in shapes[0]]] if shapes[0] else None


class _MakePredict:
    """What Spark calls in each worker process: returns the function for batches. It pickles as the model does."""

    def __init__(self, model: Any, function: str | None, error_column: str | None, batched: bool):
        self.model = model
        self.name = function
        self.error_column = error_column
        self.batched = batched

    def function(self) -> BatchedFunction:
        callee = self.model if self.name is None else self.model.functions[self.name]
        return BatchedFunction(callee, batched=self.batched)

    def return_type(self, function: BatchedFunction) -> Any:
        """Returns the type of the column."""
        fields = []
        for slot in function.outputs:
            if str(slot.dtype) not in _TYPES:
                raise ValueError(f"result {slot.name} has elements of {slot.dtype}, for which Spark has no type")
            kind = _TYPES[str(slot.dtype)][0]()
            fields.append(sql.StructField(slot.name, sql.ArrayType(kind) if function.row_shape(slot) else kind))
        if self.error_column is None and len(fields) == 1:
            return fields[0].dataType
        if self.error_column is not None:
            fields.append(sql.StructField(self.error_column, sql.StringType()))
        return sql.StructType(fields)

    def __call__(self) -> Callable[..., Any]:
        function = self.function()
        kinds = [_TYPES[str(slot.dtype)][1] for slot in function.outputs]

        def predict(*columns: Array) -> Any:
            arrays, errors = function(columns, collect=self.error_column is not None)
            # Spark takes arrays of one dimension.
            arrays = [array.reshape(len(array), -1) if array.ndim > 2 else array for array in arrays]
            arrays = [array.astype(kind, copy=False) for array, kind in zip(arrays, kinds)]
            if self.error_column is None and len(arrays) == 1:
                return arrays[0]
            result = dict(zip((slot.name for slot in function.outputs), arrays))
            if self.error_column is not None:
                messages = np.full(len(arrays[0]), None, dtype=object)
                for row, error in errors.items():
                    messages[row] = str(error)
                result[self.error_column] = messages
            return result

        # Spark counts the parameters.
        kind = inspect.Parameter.POSITIONAL_ONLY
        parameters = [inspect.Parameter(f"input{number}", kind) for number in range(len(function.inputs))]
        setattr(predict, "__signature__", inspect.Signature(parameters))
        return predict
