"""Finds `penstock_native`, the Rust extension in `native/`; what it does, Python does as well."""

from __future__ import annotations

import importlib
import os
from typing import Any, Final

from penstock import __version__
from penstock.errors import UnavailableError

VARIABLE: Final = "PENSTOCK_NATIVE"
"""An environment variable: 0 for Python, 1 for native or nothing; empty for what is installed."""
INTERFACE: Final = 13
"""`penstock_native.INTERFACE` of an extension that can be used: `native/src/python.rs`."""
_MODULE: Final = "penstock_native"


class NativeMissingError(UnavailableError):
    """The native implementation is required and cannot be used, or its version is unclear."""


def check_variable() -> None:
    """Check `PENSTOCK_NATIVE`, before processes are started that would end because of it.

    Raises:
        NativeMissingError: As `find_native`.
    """
    if os.environ.get(VARIABLE):
        find_native()


def find_native() -> tuple[Any, str]:
    """Return the native module; or None, and the reason if an installed one cannot be used.

    Raises:
        NativeMissingError: `PENSTOCK_NATIVE=1`, and it cannot be used; or it is another value.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in {"", "0", "1"}:
        raise NativeMissingError(
            f"{VARIABLE}={wanted}: it must be 0 (Python), 1 (native) or empty (what is installed)"
        )
    if wanted == "0":
        return None, ""
    why_not = ""
    try:
        module = importlib.import_module(_MODULE)
    except ModuleNotFoundError:
        pass
    except ImportError:
        why_not = f"{_MODULE} cannot be loaded here"
    else:
        why_not = _why_not(module)
        if not why_not:
            return module, ""
    if wanted == "1":
        raise NativeMissingError(f"{VARIABLE}=1, but {why_not or f'{_MODULE} is not installed'}")
    return None, why_not


def _why_not(module: Any) -> str:
    """Return why a module cannot be used; empty if it can."""
    # A folder of that name can be imported, too.
    version = str(getattr(module, "__version__", "")).replace("-dev.", ".dev")
    if not version:
        return f"{_MODULE} is not the extension: it has no version"
    if version != __version__:
        return f"{_MODULE} is of version {version}"
    interface = getattr(module, "INTERFACE", None)
    if interface != INTERFACE:
        return f"{_MODULE} has interface {interface}, not {INTERFACE}: build it again"
    return ""
