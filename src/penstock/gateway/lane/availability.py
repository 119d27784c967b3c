"""Whether connections are forwarded by native threads: `PENSTOCK_NATIVE_LANE`."""

from __future__ import annotations

import os
from typing import Any, Final

from penstock.native import NativeMissingError, find_native

VARIABLE: Final = "PENSTOCK_NATIVE_LANE"
"""An environment variable: 0 for Python, 1 to require native; empty to use native if installed."""


def find_lane() -> Any | None:
    """Return the native module if it is to forward connections; None if Python does.

    Raises:
        NativeMissingError: It is required and cannot be used, or a variable has another value.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in {"", "0", "1"}:
        raise NativeMissingError(
            f"{VARIABLE}={wanted}: it must be 0 (Python), 1 (native) or empty (what is installed)"
        )
    if wanted == "0":
        return None
    module, why_not = find_native()
    if module is not None and hasattr(module, "Lane"):
        return module
    if is_lane_required():
        reason = why_not or "penstock_native is not installed, or not for this system"
        raise NativeMissingError(f"{VARIABLE}=1, but {reason}")
    return None


def is_lane_required() -> bool:
    """Return whether it is an error if native threads cannot forward connections."""
    return os.environ.get(VARIABLE) == "1"


def describe_lane() -> str:
    """Return the implementation that forwards connections, for `penstock --version` and the log.

    Raises:
        NativeMissingError: As `find_lane`.
    """
    return "Python" if find_lane() is None else "native"
