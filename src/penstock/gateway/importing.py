"""Imports classes of users without holding up an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from penstock.configuration.processes.bounded import Imports

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def import_in_thread(call: Callable[[Imports], T]) -> T:
    """Call a function in a thread, and end the processes that import for it if this is cancelled.

    Args:
        call: Gets what it adds these processes to.

    Returns:
        Its result.
    """
    imports = Imports()
    try:
        return await asyncio.to_thread(call, imports)
    finally:
        imports.end()
