"""The classes of the extension module, and what is made of its constants."""

import enum
import threading

from incarnate._native.iree import (  # noqa: F401
    ELEMENT_TYPES,
    FLAGS,
    LINKAGES,
    ArgumentPacker,
    FileHandle,
    HalAllocator,
    HalBuffer,
    HalBufferView,
    HalCommandBuffer,
    HalDevice,
    HalDriver,
    HalFence,
    HalModuleDebugSink,
    HalSemaphore,
    HostMemory,
    InvokeContext,
    MappedMemory,
    ParameterIndex,
    ParameterIndexEntry,
    ParameterProvider,
    PyModuleInterface,
    RefObject,
    Shape,
    VmBuffer,
    VmContext,
    VmFunction,
    VmInstance,
    VmModule,
    VmRef,
    VmVariantList,
    create_hal_driver,
    create_hal_module,
    create_io_parameters_module,
    parse_flags,
    wait_any,
)

_PACKAGE = "incarnate.iree.runtime"


def _flags(name):
    return enum.IntFlag(name, FLAGS[name], module=_PACKAGE)


MemoryType = _flags("MemoryType")
MemoryAccess = _flags("MemoryAccess")
BufferUsage = _flags("BufferUsage")
BufferCompatibility = _flags("BufferCompatibility")
SemaphoreCompatibility = _flags("SemaphoreCompatibility")
ExternalTimepointType = _flags("ExternalTimepointType")
ExternalTimepointFlags = _flags("ExternalTimepointFlags")
Linkage = enum.IntEnum("Linkage", LINKAGES, module=_PACKAGE)


class _ElementType(enum.IntEnum):
    """Types of elements. The low byte of a number is the bits of an element."""

    @staticmethod
    def map_to_dtype(element_type):
        """Returns the NumPy type of an element type; raises ValueError if there is none."""
        from .dtypes import map_hal_element_type_to_dtype

        return map_hal_element_type_to_dtype(element_type)

    @staticmethod
    def is_byte_aligned(element_type) -> bool:
        """Returns true if an element is a whole number of bytes."""
        return _bits(element_type) % 8 == 0

    @staticmethod
    def dense_byte_count(element_type) -> int:
        """Returns the number of bytes of an element: its bits, rounded up."""
        return (_bits(element_type) + 7) // 8


def _bits(element_type) -> int:
    return int(element_type) & 0xFF


HalElementType = _ElementType("HalElementType", ELEMENT_TYPES, module=_PACKAGE)


class _InvokeStatics:
    """What packers of arguments share: nothing."""


_invoke_statics = _InvokeStatics()

_drivers: dict[str, HalDriver] = {}
_drivers_lock = threading.Lock()


def get_cached_hal_driver(device_uri: str) -> HalDriver:
    """Returns the driver of a device's URI, or of a name: the same one each time."""
    name = device_uri.split("?")[0].split("://")[0]
    with _drivers_lock:
        driver = _drivers.get(name)
        if driver is None:
            driver = _drivers[name] = create_hal_driver(device_uri)
        return driver


def clear_hal_driver_cache() -> None:
    """Forgets the drivers that `get_cached_hal_driver` returns."""
    with _drivers_lock:
        _drivers.clear()


def disable_leak_checker() -> None:
    """Does nothing: there is no leak checker."""


class HalExternalTimepoint:
    """A point in time of another programming interface. Devices of the host exchange none."""

    def __init__(self):
        self.type = ExternalTimepointType.NONE
        self.flags = ExternalTimepointFlags.NONE
        self.compatibility = SemaphoreCompatibility.NONE
        self._event = 0

    def _set_event(self, kind, event):
        if self.type not in (ExternalTimepointType.NONE, kind):
            raise ValueError(f"the timepoint is of type {self.type!r}, not {kind!r}")
        self.type, self._event = kind, event

    def _get_event(self, kind):
        return self._event if self.type == kind else 0

    @property
    def cuda_event(self) -> int:
        """The address of a CUDA event; 0 if it is none."""
        return self._get_event(ExternalTimepointType.CUDA_EVENT)

    @cuda_event.setter
    def cuda_event(self, event: int):
        self._set_event(ExternalTimepointType.CUDA_EVENT, event)

    @property
    def hip_event(self) -> int:
        """The address of a HIP event; 0 if it is none."""
        return self._get_event(ExternalTimepointType.HIP_EVENT)

    @hip_event.setter
    def hip_event(self, event: int):
        self._set_event(ExternalTimepointType.HIP_EVENT, event)


# It uses what is above.
from ._loop import HalDeviceLoopBridge  # noqa: E402, F401
