"""Parameters as arrays."""

import json
import math
from os import PathLike
from typing import Any, Sequence, Union

import numpy as np

from ._binding import ParameterIndex, ParameterIndexEntry
from .dtypes import map_dtype_to_dtype_info, map_name_to_dtype_info

__all__ = [
    "SplatValue",
    "parameter_index_add_numpy_ndarray",
    "parameter_index_entry_as_numpy_flat_ndarray",
    "parameter_index_entry_as_numpy_ndarray",
    "save_archive_file",
]

# What metadata of a tensor begins with, before a colon and JSON. Archives of IREE Turbine have another word.
_METADATA_VERSION = "TENSORv0"
_READABLE_VERSIONS = (_METADATA_VERSION, "PYTORCH")


class SplatValue:
    """A value that is repeated: an array of one element, and how often or in which shape."""

    def __init__(self, pattern: Any, count: Union[Sequence[int], int]) -> None:
        elements = np.asarray(pattern).size
        if elements != 1:
            raise ValueError(f"a SplatValue repeats one element, and {elements} are given")
        self.pattern = pattern
        self.total_length = (count if isinstance(count, int) else math.prod(count)) * pattern.itemsize

    def __repr__(self) -> str:
        return f"SplatValue({self.pattern} of {self.total_length})"


def save_archive_file(entries: dict[str, Union[Any, SplatValue]], file_path: Union[str, PathLike[str]]) -> None:
    """Writes an archive (`.irpa`) of parameters: arrays and other buffers, and `SplatValue`s."""
    index = ParameterIndex()
    for key, value in entries.items():
        if isinstance(value, SplatValue):
            index.add_splat(key, value.pattern, value.total_length)
        else:
            index.add_buffer(key, value)
    index.create_archive_file(str(file_path))


def parameter_index_add_numpy_ndarray(index: ParameterIndex, name: str, array: np.ndarray[Any, Any]) -> None:
    """Adds an array as a parameter, in place if it is contiguous, with its type and shape as metadata."""
    contiguous = np.asarray(array, order="C")
    index.add_buffer(name, contiguous, metadata=_metadata(contiguous))


def parameter_index_entry_as_numpy_flat_ndarray(index_entry: ParameterIndexEntry) -> np.ndarray[Any, Any]:
    """Returns the bytes of a parameter, or of the pattern that it repeats."""
    if index_entry.is_file:
        return np.frombuffer(index_entry.file_view, dtype=np.uint8)
    return np.frombuffer(index_entry.splat_pattern, dtype=np.uint8)


def parameter_index_entry_as_numpy_ndarray(index_entry: ParameterIndexEntry) -> np.ndarray[Any, Any]:
    """Returns a parameter as an array of the type and shape in its metadata; ValueError if there are none."""
    version, _, described = index_entry.metadata.decode(errors="replace").partition(":")
    if version not in _READABLE_VERSIONS:
        raise ValueError(f"the metadata of parameter '{index_entry.key}' describes no tensor: it begins with '{version[:32]}'")
    try:
        description = json.loads(described)
        if description["type"] != "Tensor":
            raise ValueError(f"it describes a '{description['type']}'")
        dtype = map_name_to_dtype_info(description["dtype"]).dtype
        shape = [int(extent) for extent in description["shape"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the metadata of parameter '{index_entry.key}' is malformed: {error}") from error
    elements = parameter_index_entry_as_numpy_flat_ndarray(index_entry).view(dtype)
    if index_entry.is_splat:
        return np.broadcast_to(elements, shape)
    return elements.reshape(shape)


def _metadata(array: np.ndarray[Any, Any]) -> str:
    info = map_dtype_to_dtype_info(array.dtype)
    described = {
        "type": "Tensor",
        "dtype": info.name,
        "shape": list(array.shape),
        "dtype_desc": {
            "class_name": type(array.dtype).__name__,
            "is_complex": bool(info.is_complex),
            "is_floating_point": bool(info.is_floating_point),
            "is_signed": bool(info.is_signed),
            "itemsize": array.dtype.itemsize,
        },
    }
    return f"{_METADATA_VERSION}:{json.dumps(described)}"
