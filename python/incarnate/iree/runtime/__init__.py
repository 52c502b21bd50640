"""The names of `iree.runtime`, on the runtime of Incarnate.

Scripts that load modules of the IREE compiler, call their functions, and work with devices, buffers and parameters, run with this
module in place of `iree.runtime`; see `incarnate.iree.redirect`. `docs/python-iree.md` says what differs.
"""

from . import _binding
from ._binding import (
    BufferCompatibility,
    BufferUsage,
    ExternalTimepointFlags,
    ExternalTimepointType,
    FileHandle,
    HalAllocator,
    HalBuffer,
    HalBufferView,
    HalCommandBuffer,
    HalDevice,
    HalDeviceLoopBridge,
    HalDriver,
    HalElementType,
    HalExternalTimepoint,
    HalFence,
    HalModuleDebugSink,
    HalSemaphore,
    Linkage,
    MappedMemory,
    MemoryAccess,
    MemoryType,
    ParameterIndex,
    ParameterIndexEntry,
    ParameterProvider,
    PyModuleInterface,
    SemaphoreCompatibility,
    Shape,
    VmBuffer,
    VmContext,
    VmFunction,
    VmInstance,
    VmModule,
    VmRef,
    VmVariantList,
    create_hal_module,
    create_io_parameters_module,
)
from .typing import HalModuleBufferViewTraceCallback
from .array_interop import DeviceArray, asdevicearray
from .benchmark import benchmark_exe, benchmark_module
from .system_setup import (
    get_device,
    get_driver,
    get_first_device,
    query_available_drivers,
)
from .function import FunctionInvoker
from .system_api import (
    TARGET_BACKEND_TO_DRIVER,
    Config,
    SystemContext,
    load_vm_flatbuffer,
    load_vm_flatbuffer_file,
    load_vm_module,
    load_vm_modules,
    normalize_value,
)
from .io import (
    SplatValue,
    parameter_index_add_numpy_ndarray,
    parameter_index_entry_as_numpy_flat_ndarray,
    parameter_index_entry_as_numpy_ndarray,
    save_archive_file,
)
from . import flags
