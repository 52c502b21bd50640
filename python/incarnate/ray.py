"""Models in Ray Data: `ds.map_batches(incarnate.ray.Predictor, fn_constructor_args=["net.vmfb"], ...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import ray  # type: ignore[import-not-found, import-untyped, unused-ignore]

import incarnate
from incarnate._batches import Array, BatchedFunction, RowError, match_columns

__all__ = ["Predictor", "RowError", "assigned_workers"]


def assigned_workers() -> int | None:
    """Returns the whole CPUs that Ray assigned to this actor or task, at least 1, and `None` outside of Ray."""
    if not ray.is_initialized():
        return None
    return max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))


class Predictor:
    """Adds a model's results to batches of Ray Data, as columns.

        ds.map_batches(
            incarnate.ray.Predictor,
            fn_constructor_args=["net.vmfb"],
            batch_format="pyarrow",
            batch_size=1024,
            concurrency=8,
        )

    Ray creates one for each actor of the pool, which loads the model once. The actors of a machine map the same file, and so
    share its pages. The file must be on every machine, under the same path.

    Arguments:
        path: the model, as `incarnate.load` takes it
        function: the name of a function, for models with several
        inputs: the columns of the inputs: a name, names in order, or a mapping from the names of inputs. By default each
            input's column has the input's name; the only input takes the only column
        outputs: the names of the new columns, by default the names of the results
        error_column: the name of a new column: what went wrong with the row, null where nothing did. Results of such rows
            are NaN, or 0 where they are no floating-point numbers. By default the first row that fails is raised, as
            `RowError`
        batched: whether the first extent of inputs and results is that of the batch; else each row is a call
        workers: the threads of a call, by default the CPUs that Ray assigned to the actor (`num_cpus=`)
        options: the other arguments of `incarnate.load`

    Batches are of the formats `pyarrow`, `numpy` and `pandas`; their own columns stay. Any `batch_size` works: a model that
    was compiled for a number of rows takes that number a call, and the last call is padded.

    Without a copy the model reads columns that are one contiguous array of its element type: with the format `pyarrow` all
    columns of numbers, of lists of one length and of tensors, with `numpy` columns of numbers and of tensors, in batches that
    Ray did not assemble from several blocks. Results that came from one call become columns without a copy.
    """

    def __init__(
        self,
        path: Any,
        *,
        function: str | None = None,
        inputs: str | Sequence[str] | Mapping[str, str] | None = None,
        outputs: str | Sequence[str] | None = None,
        error_column: str | None = None,
        batched: bool = True,
        workers: int | None = None,
        **options: Any,
    ):
        self.model = incarnate.load(path, workers=assigned_workers() if workers is None else workers, **options)
        callee = self.model if function is None else self.model.functions[function]
        self._function = BatchedFunction(callee, batched=batched)
        self._inputs = inputs
        self._error_column = error_column
        names = [slot.name for slot in self._function.outputs]
        if outputs is not None:
            given = [outputs] if isinstance(outputs, str) else list(outputs)
            if len(given) != len(names):
                raise ValueError(f"outputs= has {len(given)} names, the function returns {len(names)} results: {names}")
            names = given
        self._outputs = names

    def __call__(self, batch: Any) -> Any:
        """Returns the batch with the results."""
        columns = list(batch.column_names if hasattr(batch, "column_names") else batch)
        chosen = match_columns(self._function.inputs, columns, self._inputs)
        arrays, errors = self._function([batch[name] for name in chosen], collect=self._error_column is not None)
        new: dict[str, Any] = dict(zip(self._outputs, map(_representable, arrays)))
        if self._error_column is not None:
            messages: list[str | None] = [None] * len(arrays[0])
            for row, error in errors.items():
                messages[row] = str(error)
            new[self._error_column] = np.array(messages, dtype=object)
        taken = [name for name in new if name in columns]
        if taken:
            raise ValueError(f"the batch has columns {taken} already; pass outputs= or another error_column=")
        return _extended(batch, new)


def _representable(array: Array) -> Array:
    """Returns the array, in `float32` where its element type is none of Arrow's, such as `bfloat16`."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _extended(batch: Any, new: Mapping[str, Array]) -> Any:
    """Returns the batch with new columns."""
    if isinstance(batch, Mapping):
        return {**batch, **new}
    if hasattr(batch, "append_column"):
        for name, array in new.items():
            batch = batch.append_column(name, _arrow_column(array))
        return batch
    return batch.assign(**{name: array if array.ndim == 1 else _pandas_column(array) for name, array in new.items()})


def _arrow_column(array: Array) -> Any:
    """Returns a column of numbers or strings, or one of tensors in the format that Ray is configured for."""
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from ray.data.extensions import ArrowTensorArray  # type: ignore[import-not-found, import-untyped, unused-ignore]

    if array.dtype == object:
        return pyarrow.array(array, pyarrow.string())
    return pyarrow.array(array) if array.ndim == 1 else ArrowTensorArray.from_numpy(array)


def _pandas_column(array: Array) -> Any:
    from ray.data.extensions import TensorArray  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return TensorArray(array)
