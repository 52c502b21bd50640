"""Runs machine-learning models that the IREE compiler compiled.

    import incarnate

    net = incarnate.load("net.vmfb")
    y = net(x)

`load` takes a module (`.vmfb`), or a model (`.onnx`, `.mlir`) where IREE's compiler is installed. Arguments and results are arrays of
NumPy; tensors of other libraries are arguments through DLPack.
"""

from ._load import compile, load
from ._native import (
    DeadlineExceededError,
    Error,
    Function,
    IncompatibleError,
    InvalidArgumentError,
    Model,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
    Reference,
    ResourceExhaustedError,
    Signature,
    Tensor,
    UnimplementedError,
    ValueInfo,
    __version__,
    devices,
    install_compiler,
)

__all__ = [
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
    "compile",
    "devices",
    "install_compiler",
    "load",
]
