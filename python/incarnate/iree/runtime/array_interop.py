"""Buffer views as arrays."""

import logging
from typing import Any, Callable, Iterator, Optional

import numpy as np
import numpy.lib.mixins

from ._binding import (
    BufferCompatibility,
    BufferUsage,
    HalBuffer,
    HalBufferView,
    HalDevice,
    HalElementType,
    HalFence,
    MappedMemory,
    MemoryType,
)
from .dtypes import map_dtype_to_hal_element_type, map_hal_element_type_to_dtype

__all__ = ["DeviceArray", "asdevicearray"]

# Functions of NumPy that need no access to the elements.
_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}

# Operations of enumerations take longer than those of numbers, and all results of functions pass here.
_HOST_VISIBLE = int(MemoryType.HOST_VISIBLE)
_MAPPING_SCOPED = int(BufferUsage.MAPPING_SCOPED)

# What DLPack calls memory of the host.
_DLPACK_HOST = (1, 0)


class DeviceArray(numpy.lib.mixins.NDArrayOperatorsMixin):
    """An array on a device.

    Shape and type are known without access to the elements. `to_host` returns the elements as a NumPy array: in place where the host
    can map the device's memory, as it can on the devices of the host, and else a copy. NumPy's functions and operators access the
    elements by themselves if the array was created with `implicit_host_transfer`, as results of functions are; otherwise they raise
    ValueError.
    """

    def __init__(
        self,
        device: HalDevice,
        buffer_view: HalBufferView,
        implicit_host_transfer: bool = False,
        override_dtype: Any = None,
    ) -> None:
        self._device = device
        self._buffer_view = buffer_view
        self._implicit_host_transfer = implicit_host_transfer
        self._override_dtype = override_dtype
        self._mapped_memory: Optional[MappedMemory] = None
        self._host_array: Optional[np.ndarray[Any, Any]] = None

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray[Any, Any]:
        host = self._transfer_to_host(implicit=True)
        if dtype is not None and host.dtype != dtype:
            if copy is False:
                raise ValueError(f"an array of {host.dtype} becomes one of {dtype} only by a copy")
            return host.astype(dtype)
        return host.copy() if copy else host

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        function = _FUNCTIONS.get(func)
        if function is not None:
            return function(*args, **kwargs)
        return func(*_on_host(args), **_on_host(kwargs))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*_on_host(inputs), **_on_host(kwargs))

    def __dlpack__(self, *, stream: Any = None, **kwargs: Any) -> Any:
        """Exports the elements to another library, in place where the array's type is that of its elements."""
        if kwargs.get("copy") or self._override_dtype not in (None, self._get_raw_dtype()):
            return self.to_host().copy().__dlpack__(stream=stream)
        return self._device.create_dlpack_capsule(self._buffer_view, *_DLPACK_HOST)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DLPACK_HOST

    def __repr__(self) -> str:
        return f"<IREE DeviceArray: shape={self.shape}, dtype={self.dtype}>"

    @property
    def is_host_accessible(self) -> bool:
        """True if the elements were mapped."""
        return self._host_array is not None

    def to_host(self) -> np.ndarray[Any, Any]:
        """Returns the elements as a NumPy array: in place if the memory can be mapped, and else a copy."""
        return self._transfer_to_host(implicit=False)

    def _is_mappable(self) -> bool:
        buffer = self._buffer_view.get_buffer()
        return bool(buffer.memory_type() & _HOST_VISIBLE and buffer.allowed_usage() & _MAPPING_SCOPED)

    def _transfer_to_host(self, implicit: bool) -> np.ndarray[Any, Any]:
        if implicit and not self._implicit_host_transfer:
            raise ValueError(
                "the elements of a DeviceArray are accessed by to_host(), or implicitly if it was created with "
                "implicit_host_transfer=True"
            )
        if self._host_array is None:
            if not self._is_mappable():
                return self._copy_to_host()
            self._mapped_memory, self._host_array = self._map_to_host()
        return self._host_array

    def _map_to_host(self) -> tuple[MappedMemory, np.ndarray[Any, Any]]:
        mapped = self._buffer_view.map()
        return mapped, self._as_declared(mapped.asarray(self._buffer_view.shape, self._get_raw_dtype()))

    def _copy_to_host(self) -> np.ndarray[Any, Any]:
        """Copies the elements by the device's queue."""
        source = self._buffer_view.get_buffer()
        allocator = self._device.allocator
        dtype, shape = self._get_raw_dtype(), self._buffer_view.shape
        memory_type = MemoryType.HOST_LOCAL | MemoryType.DEVICE_VISIBLE
        usage = BufferUsage.TRANSFER_TARGET | BufferUsage.MAPPING_PERSISTENT
        compatibility = allocator.query_buffer_compatibility(
            memory_type=memory_type, allowed_usage=usage, intended_usage=usage, allocation_size=source.byte_length()
        )
        # The buffer may be longer than its view.
        count = -(-source.byte_length() // dtype.itemsize)
        if compatibility & BufferCompatibility.IMPORTABLE:
            host = np.empty(count, dtype=dtype)
            # Without the type, which Python's buffer protocol may not know.
            target = allocator.import_host_allocation(
                host.view(np.uint8), memory_type=memory_type, allowed_usage=usage
            )
            self._copy_and_wait(source, target)
        else:
            target = allocator.allocate_buffer(
                memory_type=memory_type,
                allowed_usage=BufferUsage.TRANSFER_TARGET | BufferUsage.MAPPING_SCOPED,
                allocation_size=count * dtype.itemsize,
            )
            self._copy_and_wait(source, target)
            host = target.map().asarray([count], dtype)
        return self._as_declared(host[: int(np.prod(shape, dtype=np.int64))].reshape(shape))

    def _copy_and_wait(self, source: HalBuffer, target: HalBuffer) -> None:
        semaphore = self._device.create_semaphore(0)
        done = HalFence.create_at(semaphore, 1)
        self._device.queue_copy(source, target, wait_semaphores=[], signal_semaphores=done)
        done.wait()

    def _as_declared(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Converts elements to the declared type, which devices may not have: booleans are bytes there."""
        if self._override_dtype is None or array.dtype == self._override_dtype:
            return array
        return array.astype(self._override_dtype)

    def _get_raw_dtype(self) -> np.dtype[Any]:
        return map_hal_element_type_to_dtype(self._buffer_view.element_type)

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self._get_raw_dtype() if self._override_dtype is None else self._override_dtype

    @property
    def shape(self) -> list[int]:
        """The extents of the dimensions."""
        return self._buffer_view.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._buffer_view.shape)

    def astype(self, dtype: Any, casting: Any = "unsafe", copy: bool = True) -> Any:
        """Returns a NumPy array of another type; this array if it is of the type and `copy` is false."""
        if self.dtype == dtype and not copy:
            return self
        return self.to_host().astype(dtype, casting=casting, copy=copy)

    def reshape(self, *args: Any) -> np.ndarray[Any, Any]:
        """Returns a NumPy array of another shape."""
        return self.to_host().reshape(*args)

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("an array without dimensions has no length")
        return shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_host())

    def __getitem__(self, index: Any) -> Any:
        return self.to_host()[index]

    def __deepcopy__(self, memo: Any) -> np.ndarray[Any, Any]:
        return self.to_host().copy()

    def __reduce__(self) -> tuple[Any, ...]:
        # NumPy's arrays are what both ends have.
        return _restored, (self.to_host(),)


def _on_host(value: Any) -> Any:
    """Replaces device arrays in arguments by their elements."""
    if isinstance(value, DeviceArray):
        return value._transfer_to_host(implicit=True)
    if isinstance(value, (list, tuple)):
        return type(value)(_on_host(item) for item in value)
    if isinstance(value, dict):
        return {key: _on_host(item) for key, item in value.items()}
    return value


def _restored(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array


def _implements(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        _FUNCTIONS[function] = implementation
        return implementation

    return register


@_implements(np.shape)
def _shape(array: DeviceArray) -> list[int]:
    return array.shape


@_implements(np.reshape)
def _reshape(array: DeviceArray, *args: Any, **kwargs: Any) -> np.ndarray[Any, Any]:
    return np.reshape(array.to_host(), *args, **kwargs)


def asdevicearray(
    device: HalDevice,
    a: Any,
    dtype: Any = None,
    *,
    implicit_host_transfer: bool = False,
    memory_type: int = MemoryType.DEVICE_LOCAL,
    allowed_usage: int = BufferUsage.DEFAULT,
    element_type: Optional[HalElementType] = None,
) -> DeviceArray:
    """Copies an array to a device.

    A `DeviceArray` is returned as it is, unless it has to become one of another type, by way of the host. The element type is that of
    the array unless it is given.
    """
    if isinstance(a, DeviceArray):
        if dtype is None or a.dtype == dtype:
            return a
        logging.warning("a DeviceArray becomes one of another type by way of the host")
        a = a.to_host()
    a = np.asarray(a, dtype=dtype, order="C")
    if element_type is None:
        element_type = map_dtype_to_element_type(a.dtype)
    if element_type is None:
        raise ValueError(f"arrays of {a.dtype} have no element type")
    buffer_view = device.allocator.allocate_buffer_copy(
        memory_type=memory_type,
        allowed_usage=allowed_usage,
        device=device,
        buffer=a,
        element_type=element_type,
    )
    return DeviceArray(device, buffer_view, implicit_host_transfer=implicit_host_transfer, override_dtype=a.dtype)


def map_dtype_to_element_type(dtype: Any) -> Optional[HalElementType]:
    """Returns the element type of a type of NumPy; None if it has none."""
    return map_dtype_to_hal_element_type(dtype)
