"""Stands in for the package `iree`.

`incarnate.iree.runtime` has the names of `iree.runtime`. Scripts that import `iree.runtime` run unchanged after

    import incarnate.iree
    incarnate.iree.redirect()
"""

import importlib
import sys
import types

__all__ = ["redirect"]

_MODULES = (
    "_binding",
    "array_interop",
    "benchmark",
    "dtypes",
    "flags",
    "function",
    "io",
    "system_api",
    "system_setup",
    "typing",
    "version",
)


def redirect() -> None:
    """Lets `import iree.runtime`, and imports of its modules, find `incarnate.iree.runtime`.

    Other packages of IREE, such as `iree.compiler`, stay the installed ones.

    Raises:
      RuntimeError: if another `iree.runtime` was imported before.
    """
    runtime = importlib.import_module("incarnate.iree.runtime")
    present = sys.modules.get("iree.runtime")
    if present is not None and present is not runtime:
        raise RuntimeError("iree.runtime was imported already: call redirect() before")
    try:
        iree = importlib.import_module("iree")
    except ModuleNotFoundError:
        iree = types.ModuleType("iree")
        setattr(iree, "__path__", [])
        sys.modules["iree"] = iree
    sys.modules["iree.runtime"] = runtime
    setattr(iree, "runtime", runtime)
    for name in _MODULES:
        module = importlib.import_module(f"incarnate.iree.runtime.{name}")
        sys.modules[f"iree.runtime.{name}"] = module
