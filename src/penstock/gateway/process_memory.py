"""The memory of the gateway's process: what the C library and Python's collector do with it."""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Final

_ARENAS_MIN: Final = 2
_M_ARENA_MAX: Final = -8
"""From glibc's malloc.h."""
_ARENAS_BY_USER: Final = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
_COLLECTOR_THRESHOLDS: Final = (1_000, 5, 2_000)
"""A generation is collected after so many objects, or collections of the generation before it. So
a collection of the first two reads 7,000 objects, and takes a few milliseconds on a busy machine.
Larger collections would not be less work in total."""


def share_arenas() -> None:
    """Have threads share the areas from which the C library allocates.

    glibc creates up to eight of them for each core, and keeps in each what its threads have freed:
    a gateway grows by that in its first minutes. Call it before there are threads: areas that exist
    stay. One for each core is enough for threads that run at the same time. The environment of the
    process comes first (`MALLOC_ARENA_MAX`).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc
    if mallopt is not None and not any(name in os.environ for name in _ARENAS_BY_USER):
        mallopt(_M_ARENA_MAX, max(_ARENAS_MIN, os.cpu_count() or 1))


def return_memory() -> None:
    """Return free memory to the system, if the C library does not do so by itself."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc
    if trim is not None:
        trim(0)


def collect_seldom() -> None:
    """Have Python's collector stop the event loop seldom and shortly, once everything is loaded.

    A full collection looks at every object: with what Penstock loads and a request of 20,000
    entries that takes 0.1 s. Current objects are left out from now on, and objects that outlive
    two collections are collected seldom. Connections of clients that have ended leave no cycles of
    objects, nor do policies that were replaced.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)
