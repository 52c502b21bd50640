"""Common code of the model folders' reference.py files: test cases and their files."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path

import numpy as np


@dataclasses.dataclass
class Variant:
    """One way to compile a model: `name` is the stem of the .vmfb, `flags` go to iree-compile.

    `compiler` is the version of the compiler where it is an older one: see OLDER.
    """

    name: str
    flags: list[str]
    compiler: str = ""


# Machine code for any x86-64, small enough to commit.
LLVM_CPU = Variant(
    "llvm-cpu",
    [
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=generic",
        "--iree-llvmcpu-debug-symbols=false",
        "--iree-vm-bytecode-module-strip-source-map=true",
        "--iree-input-demote-f64-to-f32=false",
    ],
)
# Bytecode instead of machine code: the executable is a nested VM module.
VMVX = Variant(
    "vmvx",
    [
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=vmvx",
        "--iree-vm-bytecode-module-strip-source-map=true",
        "--iree-input-demote-f64-to-f32=false",
    ],
)
# The same with calls of the built-in micro-kernels where the compiler selects them.
VMVX_MICROKERNELS = Variant("vmvx-microkernels", [*VMVX.flags, "--iree-vmvx-enable-microkernels"])
# No device: the kernels are functions of the module itself, over buffers of `hal_inline`. Compiler 3.13.0 drops the initialisers
# of global constants then, so constants of all sizes are inlined into the kernels.
INLINE_STATIC = Variant(
    "inline-static",
    [
        *(f if "backends=" not in f else "--iree-hal-local-target-device-backends=vmvx-inline" for f in VMVX.flags),
        "--iree-execution-model=inline-static",
        "--iree-flow-inline-constants-max-byte-length=1048576",
    ],
)
# No device: the program loads its executables and dispatches them itself, through `hal_loader`.
INLINE_DYNAMIC = Variant("inline-dynamic", [*VMVX.flags, "--iree-execution-model=inline-dynamic"])
INLINE_DYNAMIC_LLVM_CPU = Variant(
    "inline-dynamic-llvm-cpu", [*LLVM_CPU.flags, "--iree-execution-model=inline-dynamic"]
)
# Exports take a wait fence and a signal fence.
ASYNC_EXTERNAL = Variant("async-external", [*LLVM_CPU.flags, "--iree-execution-model=async-external"])
# Machine code as a library of the platform, which the system's linker loads.
LINKED_BY_SYSTEM = "--iree-llvmcpu-link-embedded=false"
SYSTEM_LIBRARY = Variant("system-library", [*LLVM_CPU.flags, LINKED_BY_SYSTEM])
# Keeps source locations, and is a bare FlatBuffer instead of a ZIP archive.
FLATBUFFER = Variant(
    "flatbuffer",
    [
        *(f for f in LLVM_CPU.flags if "strip-source-map" not in f),
        "--iree-vm-emit-polyglot-zip=false",
    ],
)
# No device and no HAL: a module of the virtual machine alone.
VM = Variant("vm", ["--compile-mode=vm"])


def for_arm_64(*variants: Variant) -> list[Variant]:
    """The variants, with machine code for 64-bit ARM processors since 2016, named as the compiler names the architecture."""

    def flags(of: list[str]) -> list[str]:
        others = [flag for flag in of if not flag.startswith("--iree-llvmcpu-target-cpu=")]
        target = ["--iree-llvmcpu-target-triple=aarch64-unknown-linux-gnu", "--iree-llvmcpu-target-cpu=cortex-a72"]
        linker = ["--iree-llvmcpu-system-linker-path=aarch64-linux-gnu-ld"] if LINKED_BY_SYSTEM in of else []
        return [*others, *target, *linker]

    return [dataclasses.replace(v, name=f"{v.name}_arm_64", flags=flags(v.flags)) for v in variants]


def for_windows(variant: Variant) -> Variant:
    """A library of the platform for Windows on x86-64. `windows-linker` takes the place of Microsoft's linker."""
    linker = Path(__file__).resolve().parent / "windows-linker"
    target = ["--iree-llvmcpu-target-triple=x86_64-pc-windows-msvc", f"--iree-llvmcpu-system-linker-path={linker}"]
    return dataclasses.replace(variant, name=f"{variant.name}_dll", flags=[*variant.flags, *target])


# A compiler of each combination of bytecode, `hal` module and executable library ABI before the newest one:
# bytecode 15, HAL 0.5, ABI 0.5; 15, 0.6, 0.5; 15, 0.6, 0.6; 16, 0.6, 0.6; 17, 0.6, 0.6.
OLDER = ("3.0.0", "3.7.1", "3.9.0", "3.10.0", "3.11.0")


def by(version: str, *variants: Variant) -> list[Variant]:
    """The variants, compiled by an older compiler."""
    return [Variant(f"{v.name}-{version}", v.flags, version) for v in variants]


@dataclasses.dataclass
class Call:
    """One call: arguments and results are arrays (stored as .npy) or text in the form --input takes."""

    function: str
    inputs: list
    expected: list
    tolerances: dict[str, float] = dataclasses.field(default_factory=dict)
    status: str | None = None

    def flags(self) -> list[str]:
        return [
            f"--expected_{key}={value:g}" if key == "rtol" else f"--expected_{key}_threshold={value:g}"
            for key, value in self.tolerances.items()
        ]


class Case:
    """Consecutive calls on one instance of the model.

    `modules` are loaded before the model, for it to import from. `devices` are those that it runs on, where it wants more
    than one; `plugins` provide what its kernels import; `parameters` are archives, as `SCOPE=FILE`. `iree_differs` is the reason for a wrong result of IREE.
    """

    def __init__(
        self,
        name: str,
        modules: tuple[str, ...] = (),
        iree_differs: str = "",
        devices: tuple[str, ...] = (),
        plugins: tuple[str, ...] = (),
        parameters: tuple[str, ...] = (),
    ):
        self.name = name
        self.modules = modules
        self.devices = devices
        self.plugins = plugins
        self.parameters = parameters
        self.iree_differs = iree_differs
        self.calls: list[Call] = []

    def call(self, function: str, inputs: list, expected: list, **tolerance: float) -> Case:
        """Adds a call that succeeds; `tolerance` is f16, bf16, f32, f64 (absolute) or rtol (relative)."""
        self.calls.append(Call(function, inputs, expected, tolerance))
        return self

    def fails(self, function: str, inputs: list, status: str) -> Case:
        """Adds a call that must end with the status code `status`."""
        self.calls.append(Call(function, inputs, [], status=status))
        return self


def _argument(folder: Path, stem: str, value) -> str:
    if isinstance(value, str):
        return value
    name = f"{stem}.npy"
    # ascontiguousarray turns rank 0 into rank 1; asarray keeps it.
    np.save(folder / name, np.asarray(value, order="C"))
    return f"@{name}"


def write_cases(folder: Path, cases: list[Case]) -> None:
    """Writes cases.txt and the .npy files that it names into `folder`."""
    lines = ["# Written by ../build from reference.py; the form is described in ../README.md."]
    for case in cases:
        lines += ["", f"[{case.name}]"]
        lines += [f"--module={module}" for module in case.modules]
        lines += [f"--device={device}" for device in case.devices]
        lines += [f"--executable_plugin={plugin}" for plugin in case.plugins]
        lines += [f"--parameters={file}" for file in case.parameters]
        for number, call in enumerate(case.calls):
            stem = case.name if len(case.calls) == 1 else f"{case.name}.{number}"
            lines.append(f"--function={call.function}")
            for i, value in enumerate(call.inputs):
                lines.append(f"--input={_argument(folder, f'{stem}.in{i}', value)}")
            for i, value in enumerate(call.expected):
                lines.append(f"--expected_output={_argument(folder, f'{stem}.out{i}', value)}")
            lines += call.flags()
            if call.status:
                lines.append(f"fails {call.status}")
    (folder / "cases.txt").write_text("\n".join(lines) + "\n")


def load(folder: Path, stem: str):
    """Imports folder/stem.py under a name of its own; files of one folder may import each other."""
    sys.modules.pop("reference", None)
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location(f"{folder.name}_{stem}", folder / f"{stem}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(folder))


def export(function, *arguments) -> str:
    """StableHLO text of a JAX function; `arguments` give shapes and types, the function's closure the constants."""
    import jax

    jax.config.update("jax_enable_x64", True)
    lowered = jax.jit(function, keep_unused=True).lower(*arguments)
    return str(lowered.compiler_ir("stablehlo").operation.get_asm(large_elements_limit=None))
