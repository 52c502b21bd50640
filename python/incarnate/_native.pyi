"""Types of the part of the package that is written in Rust."""

import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "Compiled",
    "DeadlineExceededError",
    "Error",
    "Function",
    "IncompatibleError",
    "InvalidArgumentError",
    "Model",
    "NotFoundError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "Reference",
    "ResourceExhaustedError",
    "Signature",
    "Tensor",
    "UnimplementedError",
    "ValueInfo",
    "__version__",
    "command_line",
    "compile",
    "devices",
    "install_compiler",
]

__version__: str
"""The version of the package, as its metadata has it."""

iree: ModuleType
"""The classes of `incarnate.iree.runtime`, whose types `incarnate/iree/runtime/_binding.pyi` has."""

class Error(Exception):
    """An operation failed."""

    code: str
    """The status code, such as INVALID_ARGUMENT."""
    message: str
    """What is wrong."""
    locations: tuple[str, ...]
    """The functions of the module that were running, innermost first."""

class InvalidArgumentError(Error, ValueError): ...
class OutOfRangeError(Error, IndexError): ...
class NotFoundError(Error, LookupError): ...
class ResourceExhaustedError(Error, MemoryError): ...
class DeadlineExceededError(Error, TimeoutError): ...
class UnimplementedError(Error, NotImplementedError): ...
class IncompatibleError(Error): ...
class PermissionDeniedError(Error): ...

@final
class ValueInfo:
    """An input or an output of a function."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def dtype(self) -> np.dtype[Any] | None: ...
    @property
    def shape(self) -> tuple[int | None, ...] | None: ...

@final
class Signature:
    """The names and types of what a function takes and returns."""

    @property
    def inputs(self) -> tuple[ValueInfo, ...]: ...
    @property
    def outputs(self) -> tuple[ValueInfo, ...]: ...

@final
class Reference:
    """An object that a function returned and that is no tensor."""

@final
class Tensor:
    """A tensor in the memory of a device."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def nbytes(self) -> int: ...
    def numpy(self) -> npt.NDArray[Any]: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __len__(self) -> int: ...

@final
class Function:
    """A function of a model."""

    __name__: str
    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> Signature: ...
    def __call__(self, *arguments: Any, **named: Any) -> Any: ...
    def tensors(self, *arguments: Any, **named: Any) -> Any: ...
    async def call_async(self, *arguments: Any, **named: Any) -> Any: ...

@final
class Model:
    """A model."""

    _origin: tuple[Any, dict[str, Any], dict[str, Any]]
    def __new__(cls, module: str | os.PathLike[str] | bytes, options: dict[str, Any]) -> Model: ...
    @property
    def functions(self) -> Mapping[str, Function]: ...
    @property
    def signature(self) -> Signature: ...
    def __call__(self, *arguments: Any, **named: Any) -> Any: ...
    def tensors(self, *arguments: Any, **named: Any) -> Any: ...
    async def call_async(self, *arguments: Any, **named: Any) -> Any: ...
    def tensor(self, values: Any) -> Tensor: ...
    def memory_statistics(self) -> dict[str, int]: ...
    def __getattr__(self, name: str) -> Function: ...

def devices() -> list[str]:
    """Returns the URIs of the devices of this machine."""

@final
class Compiled:
    """The module of a model, which is deleted with this object unless it is kept in the user's cache."""

    @property
    def path(self) -> str: ...
    @property
    def is_kept(self) -> bool: ...

def compile(
    model: str | os.PathLike[str],
    target: str,
    flags: list[str],
    iree_compile: str | os.PathLike[str] | None = None,
    dims: list[tuple[str, int]] = ...,
    shapes: list[tuple[str, list[int]]] = ...,
    inputs: list[str] = ...,
    outputs: list[str] = ...,
) -> Compiled: ...
def install_compiler() -> str:
    """Installs IREE's compiler from PyPI in an environment of its own, in the user's cache; returns its path."""

def command_line(arguments: list[str]) -> int: ...
