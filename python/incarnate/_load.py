"""Loading, compiling and pickling of models."""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _native


def load(
    model: str | os.PathLike[str] | bytes,
    device: str | Sequence[str] | None = None,
    *,
    workers: int | None = None,
    parameters: Any = None,
    target: str | None = None,
    flags: Sequence[str] = (),
    iree_compile: str | os.PathLike[str] | None = None,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    reassociate: bool = False,
    untrusted: bool = False,
    timeout: float | None = None,
    fuel: int | None = None,
    memory_limit: int | str | None = None,
    object_limit: int | None = None,
) -> _native.Model:
    """Loads a model.

    Args:
        model: The path of a module (.vmfb), or its bytes; or of a model (.onnx, .gguf, .mlir, .mlirbc), which IREE's compiler compiles unless
            the result is in the user's cache.
        device: The URI of a device, such as "local-task" (all cores, the default) or "local-sync" (the calling thread), or several.
            Models of the same device and number of workers share its threads.
        workers: The number of threads that work at once, the calling thread among them; one for each core that the process may use if
            None.
        parameters: Weights beside the module: the path of an archive (.irpa, .safetensors, .gguf, .npz, .npy), a list of paths, a
            dictionary of arrays by name, or a dictionary of any of these by scope. Archives are mapped. Arrays that are read-only and
            begin at a multiple of 64 bytes are used in place, others are copied.
        target: What a model is compiled for: "portable" (bytecode, the default), "native" (machine code for this processor), "both",
            "vulkan[:ARCHITECTURE]" (for GPUs), or TRIPLE[:CPU].
        flags: Flags of IREE's compiler.
        iree_compile: The path of IREE's compiler, unless it is in PATH or was installed by `install_compiler`.
        dims: Extents that an ONNX model names and that are fixed, such as {"batch": 1}.
        shapes: Shapes of inputs of an ONNX model that are fixed.
        inputs: Tensors of an ONNX model by name that are its inputs; the nodes before them are left out.
        outputs: Tensors of an ONNX model by name that are its outputs; the nodes behind them are left out.
        reassociate: Whether float reductions in bytecode may be computed in another order, which is faster; see the guide.
        untrusted: Whether the module may be anyone's. It must not contain machine code, its file is copied, and it is limited to 1 GiB,
            a million objects, 10^9 steps and 30 seconds for a call, unless the arguments below say otherwise.
        timeout: The longest time of a call, in seconds; 0 for no limit, as for the following.
        fuel: The number of steps of a call.
        memory_limit: The number of bytes that the program may hold, or text such as "512MiB" or "10MB".
        object_limit: The number of objects that the program may hold.

    Raises:
        Error: Of a subclass that says why.
        OSError: If the file cannot be read.
    """
    options = {
        "device": device,
        "workers": workers,
        "parameters": parameters,
        "reassociate": reassociate,
        "untrusted": untrusted,
        "timeout": timeout,
        "fuel": fuel,
        "memory_limit": memory_limit,
        "object_limit": object_limit,
    }
    compiler: dict[str, Any] = {"target": target, "flags": list(flags), "iree_compile": iree_compile}
    compiler["graph"] = _graph(dims, shapes, inputs, outputs)
    return _load(model, options, compiler)


def _graph(
    dims: Mapping[str, int] | None,
    shapes: Mapping[str, Sequence[int]] | None,
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> dict[str, Any]:
    """Returns how an ONNX model is imported, as the native module takes it."""
    return {
        "dims": list((dims or {}).items()),
        "shapes": [(name, list(shape)) for name, shape in (shapes or {}).items()],
        "inputs": list(inputs),
        "outputs": list(outputs),
    }


def _load(model: str | os.PathLike[str] | bytes, options: dict[str, Any], compiler: dict[str, Any]) -> _native.Model:
    if isinstance(model, (str, os.PathLike)):
        # An OSError that says what is wrong with the path.
        with open(model, "rb"):
            pass
        target = compiler["target"] or "portable"
        compiled = _native.compile(model, target, compiler["flags"], compiler["iree_compile"], **compiler["graph"])
        # A child of `fork` loads the module again, also one that is not kept and is deleted with `compiled`.
        module: Any = compiled.path if compiled.is_kept else Path(compiled.path).read_bytes()
        source: Any = os.path.abspath(model)
    else:
        source = bytes(model)
        module = source
    loaded = _native.Model(module, options)
    loaded._origin = (source, options, compiler)
    return loaded


def compile(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    target: str = "portable",
    flags: Sequence[str] = (),
    iree_compile: str | os.PathLike[str] | None = None,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
) -> Path:
    """Compiles a model (.onnx, .gguf, .mlir, .mlirbc) with IREE's compiler; returns the path of the module.

    Args:
        model: The model.
        output: Where the module goes; to the user's cache alone if None.
        target: "portable" (bytecode for every machine), "native" (machine code for this processor), "both" in one file,
            "vulkan[:ARCHITECTURE]" (for GPUs), or TRIPLE[:CPU].
        flags: Flags of the compiler.
        iree_compile: The path of the compiler, unless it is in PATH or was installed by `install_compiler`.
        dims: Extents that an ONNX model names and that are fixed, such as {"batch": 1}.
        shapes: Shapes of inputs of an ONNX model that are fixed.
        inputs: Tensors of an ONNX model by name that are its inputs; the nodes before them are left out.
        outputs: Tensors of an ONNX model by name that are its outputs; the nodes behind them are left out.
    """
    graph = _graph(dims, shapes, inputs, outputs)
    compiled = _native.compile(model, target, list(flags), iree_compile, **graph)
    if output is None:
        if not compiled.is_kept:
            raise OSError("the module is not kept in the user's cache: name an output")
        return Path(compiled.path)
    # A reader of the output sees the old file or the new one. The temporary file must not exist before.
    temporary = Path(f"{os.fspath(output)}.{secrets.token_hex(8)}.tmp")
    with open(temporary, "xb") as file:
        try:
            with open(compiled.path, "rb") as source:
                shutil.copyfileobj(source, file)
            file.close()
            os.replace(temporary, output)
        except BaseException:
            temporary.unlink()
            raise
    return Path(output)


def _digest(source: str | bytes) -> str:
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    with open(source, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def reduce(model: _native.Model) -> tuple[Any, ...]:
    """Pickles a model: by its path and the hash of its contents, or by its bytes, and by the arguments of `load`."""
    source, options, compiler = model._origin
    return _restore, (source, _digest(source), _Frozen(options), _Frozen(compiler))


class _Frozen(dict[str, Any]):
    """Arguments as the key of a cache: equal if they pickle to the same bytes."""

    def _key(self) -> bytes:
        import pickle

        return pickle.dumps(sorted(self.items()))

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and self._key() == other._key()


# A worker that is sent the same model with each task loads it once.
@functools.lru_cache(maxsize=16)
def _restore(source: str | bytes, digest: str, options: _Frozen, compiler: _Frozen) -> _native.Model:
    try:
        found = _digest(source)
    except OSError as error:
        raise FileNotFoundError(error.errno, "the model that was pickled must be at the same path here", source) from error
    if found != digest:
        raise ValueError(f"'{source!s}' has other contents (sha256 {found}) than the model that was pickled ({digest})")
    return _load(source, dict(options), dict(compiler))
