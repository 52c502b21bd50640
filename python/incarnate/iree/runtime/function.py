"""Calls of functions with Python's values."""

import json
from typing import Any, Mapping, Optional

from ._binding import (
    ArgumentPacker,
    BufferUsage,
    HalBufferView,
    HalDevice,
    InvokeContext,
    MemoryType,
    VmContext,
    VmFunction,
    VmRef,
    VmVariantList,
    _invoke_statics,
)
from .array_interop import DeviceArray
from .dtypes import map_abi_type_to_array_type

__all__ = ["FunctionInvoker"]

# The memory of arrays that are passed to functions.
IMPLICIT_BUFFER_ARG_MEMORY_TYPE = MemoryType.DEVICE_LOCAL
IMPLICIT_BUFFER_ARG_USAGE = BufferUsage.DEFAULT

# Structures that a function returns as its results, one for each element.
_INLINED = ("slist", "stuple", "sdict")


class ArgumentError(ValueError):
    """An argument does not fit its description."""


class ReturnError(ValueError):
    """A result does not fit its description."""


class FunctionInvoker:
    """A function that takes and returns Python's values.

    Arrays become buffer views on the device, and results become `DeviceArray`s. The reflection of the function, `iree.abi`, says what
    else arguments and results are: lists, tuples, dictionaries, and arguments with names. Without it, that follows from the values.
    """

    __slots__ = ("_vm_context", "_device", "_vm_function", "_invoke_context", "_packer", "_results", "_is_inlined")

    def __init__(self, vm_context: VmContext, device: HalDevice, vm_function: VmFunction) -> None:
        self._vm_context = vm_context
        self._device = device
        self._vm_function = vm_function
        arguments, self._results = _parse_reflection(vm_function.reflection)
        self._is_inlined = bool(
            self._results is not None
            and len(self._results) == 1
            and isinstance(self._results[0], list)
            and self._results[0][0] in _INLINED
        )
        self._invoke_context = InvokeContext(device)
        self._packer = ArgumentPacker(_invoke_statics, arguments)

    @property
    def vm_function(self) -> VmFunction:
        """The function."""
        return self._vm_function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arguments = self._packer.pack(self._invoke_context, args, kwargs)
        results = VmVariantList(1)
        self._vm_context.invoke(self._vm_function, arguments, results)
        if self._is_inlined:
            outer = VmVariantList(1)
            outer.push_list(results)
            results = outer
        values = self._values(results, self._results)
        if len(values) == 1:
            return values[0]
        return tuple(values) if values else None

    def _values(self, elements: VmVariantList, descriptions: Optional[list[Any]]) -> list[Any]:
        """Converts the elements of a list, each by its description, or all without any."""
        count = len(elements)
        if descriptions is None:
            return [self._undescribed(elements.get_variant(index)) for index in range(count)]
        if count != len(descriptions):
            raise ReturnError(f"{count} results are returned and {len(descriptions)} described: {elements}")
        return [self._described(elements, index, description) for index, description in enumerate(descriptions)]

    def _undescribed(self, value: Any) -> Any:
        if isinstance(value, VmRef):
            view = value.deref(HalBufferView, True)
            if view is not None:
                return DeviceArray(self._device, view, implicit_host_transfer=True)
        return value

    def _described(self, elements: VmVariantList, index: int, description: Any) -> Any:
        kind, parts = (description, []) if isinstance(description, str) else (description[0], description[1:])
        try:
            if kind == "ndarray":
                dtype, _ = map_abi_type_to_array_type(parts[0])
                view = elements.get_as_object(index, HalBufferView)
                if view is None:
                    raise ReturnError("it is no buffer view")
                return DeviceArray(self._device, view, implicit_host_transfer=True, override_dtype=dtype)
            if kind == "slist":
                return self._values(elements.get_as_list(index), parts)
            if kind == "stuple":
                return tuple(self._values(elements.get_as_list(index), parts))
            if kind == "sdict":
                values = self._values(elements.get_as_list(index), [part for _, part in parts])
                return dict(zip((key for key, _ in parts), values))
            if kind == "py_homogeneous_list":
                items = elements.get_as_list(index)
                return self._values(items, parts * len(items))
            if kind in _SCALARS:
                value = elements.get_variant(index)
                if not isinstance(value, _SCALARS[kind]):
                    raise ReturnError(f"it is {value!r}")
                return value
        except ReturnError as error:
            raise ReturnError(f"result {index} of {elements}, described as {description}: {error}") from None
        except Exception as error:
            raise ReturnError(f"result {index} of {elements}, described as {description}: {error}") from error
        raise ReturnError(f"result {index} of {elements} is described as {description}, which is no known type")

    def __repr__(self) -> str:
        return repr(self._vm_function)


_SCALARS: dict[str, type] = {name: int for name in ("i8", "i16", "i32", "i64")} | {name: float for name in ("f16", "f32", "f64", "bf16")}


def _parse_reflection(reflection: Mapping[str, str]) -> tuple[Optional[list[Any]], Optional[list[Any]]]:
    """Returns the descriptions of arguments and results; None for both without any."""
    text = reflection.get("iree.abi")
    if text is None:
        return None, None
    try:
        described = json.loads(text)
        arguments, results = described["a"], described["r"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise RuntimeError(f"the reflection of the function is malformed: {text}") from error
    if not isinstance(arguments, list) or not isinstance(results, list):
        raise RuntimeError(f"the reflection of the function is malformed: {text}")
    return arguments, results
