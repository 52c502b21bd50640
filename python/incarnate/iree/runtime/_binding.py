"""The classes of the extension module, and what is built on them and on its constants."""

import asyncio
import atexit
import enum
import threading
from typing import Any, Callable

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


class HalDeviceLoopBridge:
    """Sets futures of a loop when semaphores reach payloads. A thread waits for the semaphores, until `stop`."""

    def __init__(self, device: HalDevice, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Reaches the next payload when the thread has to look at what is new.
        self._control = device.create_semaphore(0)
        self._wakes = 0
        self._pending: list[tuple[HalSemaphore, int, asyncio.Future[Any], Any]] = []
        self._stopped = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="HalDeviceLoopBridge", daemon=True)
        self._thread.start()
        # A thread that is in a wait while the interpreter shuts down could not leave it.
        atexit.register(self.stop)

    def on_semaphore(self, semaphore: HalSemaphore, payload: int, value: Any) -> asyncio.Future[Any]:
        """Returns a future that becomes `value` when the semaphore reaches the payload, or raises the semaphore's failure."""
        future: asyncio.Future[Any] = self._loop.create_future()
        with self._lock:
            if self._stopped:
                raise RuntimeError("the bridge was stopped")
            self._pending.append((semaphore, payload, future, value))
            self._wake()
        return future

    def stop(self) -> None:
        """Ends the thread. Futures that are not set are cancelled."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            self._wake()
        atexit.unregister(self.stop)
        self._thread.join()

    def _wake(self) -> None:
        self._wakes += 1
        self._control.signal(self._wakes)

    def _run(self) -> None:
        waiting: list[tuple[HalSemaphore, int, asyncio.Future[Any], Any]] = []
        while True:
            with self._lock:
                waiting += self._pending
                self._pending = []
                stopped, wakes = self._stopped, self._wakes
            if stopped:
                break
            waiting = [entry for entry in waiting if not self._settle(*entry)]
            wait_any([(self._control, wakes + 1)] + [(semaphore, payload) for semaphore, payload, _, _ in waiting])
        for _, _, future, _ in waiting:
            self._call(future.cancel)

    def _settle(self, semaphore: HalSemaphore, payload: int, future: asyncio.Future[Any], value: Any) -> bool:
        """Sets the future of a semaphore that has reached its payload or failed; returns whether it did."""
        try:
            if semaphore.query() < payload:
                return False
        except RuntimeError as error:
            self._call(self._set, future.set_exception, future, error)
        else:
            self._call(self._set, future.set_result, future, value)
        return True

    @staticmethod
    def _set(setter: Callable[[Any], None], future: asyncio.Future[Any], value: Any) -> None:
        if not future.done():
            setter(value)

    def _call(self, function: Callable[..., object], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            # The loop is closed: no code waits for its futures.
            pass
