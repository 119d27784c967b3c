"""Whether connections are forwarded by native threads: `PENSTOCK_NATIVE_LANE`.

Those with TLS may be left to Python alone: `PENSTOCK_NATIVE_TLS=0`. Native threads have batches
judged by workers, too (`penstock.engine.workers.rings`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from penstock import _native
from penstock.engine.workers.rings import WorkerRings
from penstock.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

VARIABLE: Final = "PENSTOCK_NATIVE_LANE"
"""An environment variable: 0 for Python, 1 to require native threads; empty: on Linux."""
THREADS_MAX: Final = 8
TLS_VARIABLE: Final = "PENSTOCK_NATIVE_TLS"
"""An environment variable: 0 to leave TLS, of clients and to brokers, to Python's library."""


class NativeThreadsError(UnavailableError):
    """Native threads are required and not possible, or a variable has another value."""


def find_lane() -> Any | None:
    """Return the native module if it is to forward connections; None if Python does.

    Raises:
        NativeThreadsError: It is required and not possible, or a variable has another value.
    """
    setting = os.environ.get(VARIABLE, "")
    if setting not in {"", "0", "1"}:
        raise NativeThreadsError(
            f"{VARIABLE}={setting}: it must be 0 (Python), 1 (native) or empty (native on Linux)"
        )
    if (wanted_tls := os.environ.get(TLS_VARIABLE, "")) not in {"", "0"}:
        raise NativeThreadsError(f"{TLS_VARIABLE}={wanted_tls}: it must be 0 (Python) or empty")
    if setting == "0":
        return None
    if hasattr(_native, "Lane"):
        return _native
    if is_lane_required():
        raise NativeThreadsError(f"{VARIABLE}=1, but native threads forward connections on Linux")
    return None


def threads_of_lane() -> int:
    """Return how many native threads a gateway has: as many as there are cores, up to a limit."""
    return min(THREADS_MAX, len(os.sched_getaffinity(0)))


def find_rings(pool: Any | None = None) -> WorkerRings | None:
    """Return rings for the workers of a gateway if it has native threads; else None.

    Args:
        pool: See `WorkerRings`.

    Raises:
        NativeThreadsError: As `find_lane`.
    """
    native = find_lane()
    return None if native is None else WorkerRings(native, threads_of_lane(), pool=pool)


def find_observing(
    bounds: Sequence[float], max_batches: int, max_bytes: int, max_records: int
) -> Any | None:
    """Return the native end of workers that only observe; None without native threads.

    Args:
        bounds: Those of histograms.
        max_batches: The most batches without a verdict.
        max_bytes: The most bytes that they have.
        max_records: A batch counts no more records than this.

    Raises:
        NativeThreadsError: As `find_lane`.
    """
    native = find_lane()
    if native is None:
        return None
    return native.RingPool(bounds, max_batches, max_bytes, max_records)


def find_tls() -> Any | None:
    """Return the native module if it has TLS, also where Python forwards connections; else None.

    The budget limits how much it reads of a client, but not the buffers of OpenSSL.
    """
    return _native if hasattr(_native, "TlsServer") else None


def is_lane_required() -> bool:
    """Return whether it is an error if native threads cannot forward connections."""
    return os.environ.get(VARIABLE) == "1"


def why_without_tls() -> str:
    """Return why native threads may not have connections with TLS; empty if they may."""
    if os.environ.get(TLS_VARIABLE) == "0":
        return f"{TLS_VARIABLE}=0"
    return "OpenSSL is in FIPS mode" if _is_fips() else ""


def _is_fips() -> bool:
    """Return whether the system only allows cryptography that is validated, as OpenSSL's may be."""
    try:
        from _hashlib import get_fips_mode  # noqa: PLC0415 - not in each build of Python
    except ImportError:
        return False
    return bool(get_fips_mode())


def describe_lane() -> str:
    """Return the implementation that forwards connections, for `penstock --version` and the log.

    Raises:
        NativeThreadsError: As `find_lane`.
    """
    return "Python" if find_lane() is None else "native"
