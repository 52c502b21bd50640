"""Types of elements: those of NumPy, of modules, and of functions' reflection."""

import dataclasses
from typing import Any

import numpy as np

from ._binding import HalElementType

__all__ = [
    "DTYPE_TO_ABI_TYPE",
    "DTypeInfo",
    "map_abi_type_to_array_type",
    "map_abi_type_to_dtype_info",
    "map_dtype_to_dtype_info",
    "map_dtype_to_hal_element_type",
    "map_hal_element_type_to_dtype",
    "map_name_to_dtype_info",
]


@dataclasses.dataclass(frozen=True)
class DTypeInfo:
    """A type of elements in all notations."""

    dtype: np.dtype[Any]
    name: str
    abi_type: str
    hal_type: HalElementType

    def _is(self, kind: Any) -> bool:
        return bool(np.issubdtype(self.dtype, kind))

    @property
    def is_complex(self) -> bool:
        return self._is(np.complexfloating)

    @property
    def is_floating_point(self) -> bool:
        return self._is(np.floating)

    @property
    def is_integer(self) -> bool:
        return self._is(np.integer)

    @property
    def is_signed(self) -> bool:
        return self._is(np.signedinteger)


# Types of NumPy: name, type in reflection, element type. Signed integers precede the unsigned ones, as reflection does not tell them
# apart and means the former.
_NUMPY_TYPES = [
    DTypeInfo(np.dtype(name), name, abi_type, HalElementType[element_type])
    for name, abi_type, element_type in [
        ("float16", "f16", "FLOAT_16"),
        ("float32", "f32", "FLOAT_32"),
        ("float64", "f64", "FLOAT_64"),
        ("int8", "i8", "SINT_8"),
        ("int16", "i16", "SINT_16"),
        ("int32", "i32", "SINT_32"),
        ("int64", "i64", "SINT_64"),
        ("uint8", "i8", "UINT_8"),
        ("uint16", "i16", "UINT_16"),
        ("uint32", "i32", "UINT_32"),
        ("uint64", "i64", "UINT_64"),
        ("bool", "i1", "BOOL_8"),
        ("complex64", "complex<f32>", "COMPLEX_64"),
        ("complex128", "complex<f64>", "COMPLEX_128"),
    ]
]

# Types of the package ml_dtypes, with which NumPy knows them.
_ML_DTYPES = [
    ("bfloat16", "bf16", "BFLOAT_16"),
    ("float8_e4m3fn", "f8E4M3FN", "FLOAT_8_E4M3_FN"),
    ("float8_e4m3fnuz", "f8E4M3FNUZ", "FLOAT_8_E4M3_FNUZ"),
    ("float8_e5m2", "f8E5M2", "FLOAT_8_E5M2"),
    ("float8_e5m2fnuz", "f8E5M2FNUZ", "FLOAT_8_E5M2_FNUZ"),
    ("float8_e8m0fnu", "f8E8M0FNU", "FLOAT_8_E8M0_FNU"),
]

try:
    import ml_dtypes

    _ML_TYPES = [
        DTypeInfo(np.dtype(getattr(ml_dtypes, name)), name, abi_type, HalElementType[element_type])
        for name, abi_type, element_type in _ML_DTYPES
        if hasattr(ml_dtypes, name)
    ]
except ModuleNotFoundError:
    _ML_TYPES = []


def _by(attribute: str, infos: list[DTypeInfo]) -> dict[Any, DTypeInfo]:
    found: dict[Any, DTypeInfo] = {}
    for info in infos:
        found.setdefault(getattr(info, attribute), info)
    return found


_BY_DTYPE = _by("dtype", _NUMPY_TYPES)
_BY_NAME = _by("name", _NUMPY_TYPES)
_BY_ABI_TYPE = _by("abi_type", _NUMPY_TYPES)
_ALL_BY_DTYPE = _by("dtype", _NUMPY_TYPES + _ML_TYPES)
_ALL_BY_ABI_TYPE = _by("abi_type", _NUMPY_TYPES + _ML_TYPES)
_ALL_BY_ELEMENT_TYPE = {int(info.hal_type): info.dtype for info in _NUMPY_TYPES + _ML_TYPES}
for _bits in (8, 16, 32, 64):
    # Integers whose sign the operations determine.
    _ALL_BY_ELEMENT_TYPE[int(HalElementType[f"INT_{_bits}"])] = np.dtype(f"int{_bits}")

DTYPE_TO_ABI_TYPE: dict[np.dtype[Any], str] = {info.dtype: info.abi_type for info in _NUMPY_TYPES}


def _find(infos: dict[Any, DTypeInfo], key: Any, what: str) -> DTypeInfo:
    try:
        return infos[key]
    except KeyError:
        raise KeyError(f"{what} {key!r} is unknown") from None


def map_dtype_to_dtype_info(dtype: Any) -> DTypeInfo:
    """Returns a type of NumPy; raises KeyError for others."""
    return _find(_BY_DTYPE, np.dtype(dtype), "NumPy type")


def map_name_to_dtype_info(name: str) -> DTypeInfo:
    """Returns a type by the name that NumPy has for it; raises KeyError for others."""
    return _find(_BY_NAME, name, "name of a NumPy type")


def map_abi_type_to_dtype_info(abi_type: str) -> DTypeInfo:
    """Returns a type by its name in reflection; raises KeyError for others. Integers are signed."""
    return _find(_BY_ABI_TYPE, abi_type, "type in reflection")


def map_abi_type_to_array_type(abi_type: str) -> tuple[np.dtype[Any], int]:
    """Returns the NumPy type and the number of the element type of arrays that reflection describes; those of ml_dtypes as well."""
    info = _ALL_BY_ABI_TYPE.get(abi_type)
    if info is None:
        raise ValueError(f"arrays of '{abi_type}' have no NumPy type; ml_dtypes adds bf16 and f8")
    return info.dtype, int(info.hal_type)


def map_dtype_to_hal_element_type(dtype: Any) -> HalElementType | None:
    """Returns the element type of a type of NumPy or ml_dtypes; None for others."""
    try:
        info = _ALL_BY_DTYPE.get(np.dtype(dtype))
    except TypeError:
        return None
    return None if info is None else info.hal_type


def map_hal_element_type_to_dtype(element_type: int) -> np.dtype[Any]:
    """Returns the type of NumPy or ml_dtypes of an element type; raises ValueError if there is none."""
    dtype = _ALL_BY_ELEMENT_TYPE.get(element_type)
    if dtype is None:
        raise ValueError(f"element type {int(element_type):#x} has no NumPy type; ml_dtypes adds bf16 and f8")
    return dtype
