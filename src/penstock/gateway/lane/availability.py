"""Whether connections are forwarded by native threads: `PENSTOCK_NATIVE_LANE`."""

from __future__ import annotations

import os
from typing import Any, Final

from penstock.native import NativeMissingError, find_native

VARIABLE: Final = "PENSTOCK_NATIVE_LANE"
"""An environment variable: 0 for Python only, 1 for native threads or nothing; empty for what is
installed."""


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
    if wanted == "1":
        reason = why_not or "penstock_native is not installed, or not for this system"
        raise NativeMissingError(f"{VARIABLE}=1, but {reason}")
    return None


def describe_lane() -> str:
    """Return what forwards connections, as `penstock --version` and the log show it.

    Raises:
        NativeMissingError: As `find_lane`.
    """
    return "Python" if find_lane() is None else "native"
