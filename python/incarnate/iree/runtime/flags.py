"""Flags of the process.

The environment variable `IREE_PY_RUNTIME_FLAGS` has flags that are set when the package is imported.
"""

import os
import shlex

from ._binding import parse_flags

__all__ = ["FUNCTION_INPUT_VALIDATION", "parse_flags"]

_VARIABLE = "IREE_PY_RUNTIME_FLAGS"

# Inputs of functions are always validated.
FUNCTION_INPUT_VALIDATION = True


def _load_default_flags_from_env() -> None:
    text = os.environ.get(_VARIABLE, "")
    try:
        parse_flags(*shlex.split(text))
    except ValueError as error:
        raise RuntimeError(f"environment variable {_VARIABLE}='{text}': {error}") from error


_load_default_flags_from_env()
