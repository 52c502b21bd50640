"""What tests share: the models of the repository, and a model that the tests assemble."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import incarnate

MODELS = Path(__file__).parents[2] / "tests" / "models"


@pytest.fixture
def models() -> Path:
    return MODELS


@pytest.fixture(params=["local-sync", "local-task"])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model() -> Callable[..., incarnate.Model]:
    """Loads `tests/models/NAME/VARIANT.vmfb`; of machine code, the file for this processor."""

    def load(name: str, variant: str = "vmvx", **options: object) -> incarnate.Model:
        has_arm = (MODELS / name / f"{variant}_arm_64.vmfb").exists()
        variant += "_arm_64" if has_arm and platform.machine() == "aarch64" else ""
        return incarnate.load(MODELS / name / f"{variant}.vmfb", **options)  # type: ignore[arg-type]

    return load


@pytest.fixture
def aligned() -> Callable[..., np.ndarray]:
    """Returns an array at an address of a given remainder of 64."""

    def create(shape: tuple[int, ...], dtype: type, offset: int = 0) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = np.zeros(size + 128, np.uint8)
        start = -memory.ctypes.data % 64 + offset
        return memory[start : start + size].view(dtype).reshape(shape)

    return create


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    """A program in the place of IREE's compiler: any model becomes `simple_mul`, where f32 is taken for f16."""
    program = tmp_path / "iree-compile"
    program.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--iree-input-promote-f16-to-f32*) ;; *)\n'
        "  echo \"error: failed to legalize operation 'arith.addf' on f16\" >&2\n"
        "  exit 1 ;;\n"
        "esac\n"
        'while [ "$1" != -o ]; do shift; done\n'
        f"cp '{MODELS / 'simple_mul' / 'vmvx.vmfb'}' \"$2\"\n"
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def assembled(tmp_path: Path) -> Callable[[str], Path]:
    """Assembles a module of the text form of IREE's bytecode."""

    def assemble(text: str) -> Path:
        from incarnate import _native

        source, module = tmp_path / "module.vmasm", tmp_path / "module.vmfb"
        source.write_text(text)
        assert _native.command_line(["incarnate", "assemble", os.fspath(source), "-o", os.fspath(module)]) == 0
        return module

    return assemble
