"""Types of arguments."""

from typing import Callable, List, TYPE_CHECKING

if TYPE_CHECKING:
    from ._binding import HalBufferView

TraceKey = str

HalModuleBufferViewTraceCallback = Callable[[TraceKey, List["HalBufferView"]], None]
"""Receives what a program traces: the key of the operation, and the traced tensors."""
