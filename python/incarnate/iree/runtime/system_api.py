"""Modules and their functions as Python objects."""

from os import PathLike
from typing import Any, Callable, Optional, Sequence, Union

import numpy as np

from . import _binding
from .function import FunctionInvoker
from .system_setup import get_first_device

__all__ = [
    "TARGET_BACKEND_TO_DRIVER",
    "Config",
    "SystemContext",
    "load_vm_flatbuffer",
    "load_vm_flatbuffer_file",
    "load_vm_module",
    "load_vm_modules",
    "normalize_value",
]

# The driver for what a target backend of the compiler emits.
TARGET_BACKEND_TO_DRIVER = {
    "llvm-cpu": "local-task",
    "vmvx": "local-task",
    "vulkan-spirv": "vulkan",
}


class Config:
    """A device, and the modules that programs for it import from.

    Args:
      driver_name: URIs of devices, separated by commas, of which the first that exists is used. Without it, that is the default.
      device: the device, in place of a name.
    """

    def __init__(self, driver_name: Optional[str] = None, *, device: Optional[_binding.HalDevice] = None) -> None:
        if driver_name is not None and device is not None:
            raise ValueError("pass driver_name or device, not both")
        if device is None:
            device = get_first_device(None if driver_name is None else driver_name.split(","))
        self.device = device
        self.vm_instance = _binding.VmInstance()
        self.default_vm_modules = (_binding.create_hal_module(self.vm_instance, device),)


def normalize_value(value: Any) -> Any:
    """Converts a value to an array as functions take it: Python's numbers to 32 bits. None and collections stay."""
    if value is None or isinstance(value, (list, tuple, dict)):
        return value
    array = np.asarray(value)
    if isinstance(value, (bool, int, float)):
        narrow = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}.get(array.dtype)
        if narrow is not None:
            array = array.astype(narrow)
    return array


class BoundModule:
    """A module in a context. Its functions are attributes and items."""

    def __init__(self, context: "SystemContext", vm_module: _binding.VmModule) -> None:
        self._context = context
        self._vm_module = vm_module
        self._functions: dict[str, FunctionInvoker] = {}

    @property
    def name(self) -> str:
        """The name."""
        return self._vm_module.name

    @property
    def vm_module(self) -> _binding.VmModule:
        """The module."""
        return self._vm_module

    def __getitem__(self, name: str) -> FunctionInvoker:
        function = self._functions.get(name)
        if function is None:
            vm_function = self._vm_module.lookup_function(name)
            if vm_function is None:
                raise KeyError(f"module '{self.name}' exports no function '{name}'")
            function = FunctionInvoker(self._context.vm_context, self._context.config.device, vm_function)
            self._functions[name] = function
        return function

    def __getattr__(self, name: str) -> FunctionInvoker:
        # Objects that are being copied or restored have no attributes yet.
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(str(error)) from None

    def __repr__(self) -> str:
        return f"<BoundModule {self._vm_module!r}>"


class BoundModules(dict[str, BoundModule]):
    """Modules by name, which are also attributes."""

    def __getattr__(self, name: str) -> BoundModule:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class SystemContext:
    """Modules with their state, on a device.

    Args:
      vm_modules: all modules besides those of the configuration. Without them, modules are added by `add_vm_modules`.
      config: the configuration; that of the default device if there is none.
    """

    def __init__(self, vm_modules: Optional[Sequence[_binding.VmModule]] = None, config: Optional[Config] = None) -> None:
        self._config = Config() if config is None else config
        self._is_dynamic = vm_modules is None
        modules = self._config.default_vm_modules + tuple(vm_modules or ())
        self._vm_context = _binding.VmContext(self._config.vm_instance, modules)
        self._modules = BoundModules((module.name, BoundModule(self, module)) for module in modules)

    @property
    def vm_context(self) -> _binding.VmContext:
        """The context."""
        return self._vm_context

    @property
    def is_dynamic(self) -> bool:
        """True if modules can be added."""
        return self._is_dynamic

    @property
    def config(self) -> Config:
        """The configuration."""
        return self._config

    @property
    def instance(self) -> _binding.VmInstance:
        """The instance."""
        return self._config.vm_instance

    @property
    def modules(self) -> BoundModules:
        """The modules by name."""
        return self._modules

    def add_module_dependency(self, name: str, minimum_version: int = 0) -> None:
        """Adds a native module that other modules depend on, such as `hal_loader`."""
        module = _binding.VmModule.resolve_module_dependency(self.instance, name, minimum_version)
        self._vm_context.register_modules([module])

    def add_vm_modules(self, vm_modules: Sequence[_binding.VmModule]) -> None:
        """Adds modules; ValueError if one has the name of another one."""
        if not self._is_dynamic:
            raise RuntimeError("modules cannot be added to a context that was created with its modules")
        added = BoundModules()
        for module in vm_modules:
            if module.name in self._modules or module.name in added:
                raise ValueError(f"a module is named '{module.name}' already")
            added[module.name] = BoundModule(self, module)
        self._vm_context.register_modules(list(vm_modules))
        self._modules.update(added)

    def add_vm_module(self, vm_module: _binding.VmModule) -> None:
        """Adds a module; ValueError if another one has its name."""
        self.add_vm_modules((vm_module,))


def load_vm_modules(*vm_modules: _binding.VmModule, config: Optional[Config] = None) -> list[BoundModule]:
    """Creates a context of modules and returns them with their functions."""
    context = SystemContext(vm_modules=vm_modules, config=config)
    return [context.modules[module.name] for module in vm_modules]


def load_vm_module(vm_module: _binding.VmModule, config: Optional[Config] = None) -> BoundModule:
    """Creates a context of a module and returns it with its functions."""
    return load_vm_modules(vm_module, config=config)[0]


def _config_of(driver: Optional[str], backend: Optional[str]) -> Config:
    if (driver is None) == (backend is None):
        raise ValueError("pass either driver or backend")
    return Config(driver if backend is None else TARGET_BACKEND_TO_DRIVER[backend])


def load_vm_flatbuffer(
    vm_flatbuffer: Any, *, driver: Optional[str] = None, backend: Optional[str] = None
) -> BoundModule:
    """Loads a module from a copy of its file's bytes, for a driver or for that of a compiler's target backend."""
    config = _config_of(driver, backend)
    return load_vm_module(_binding.VmModule.copy_buffer(config.vm_instance, vm_flatbuffer), config)


def load_vm_flatbuffer_file(
    path: Union[str, PathLike[str]],
    *,
    driver: Optional[str] = None,
    backend: Optional[str] = None,
    destroy_callback: Optional[Callable[[], Any]] = None,
) -> BoundModule:
    """Maps a module file and loads it, for a driver or for that of a compiler's target backend.

    The file must not be truncated while it is mapped. `destroy_callback` is called when it is no longer mapped.
    """
    config = _config_of(driver, backend)
    module = _binding.VmModule.mmap(config.vm_instance, str(path), destroy_callback=destroy_callback)
    return load_vm_module(module, config)
