"""Calls of models from asyncio."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any


async def call(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Calls a function on a thread of the event loop's default executor, so that the loop goes on."""
    return await asyncio.get_running_loop().run_in_executor(None, functools.partial(function, *arguments, **named))
