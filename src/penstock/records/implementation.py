"""Chooses the implementation that reads record batches: `penstock_native` if installed, or Python.

Both accept the same bytes, refuse others with the same messages, and return the same columns.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock import __version__
from penstock.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.records.stored import StoredRecords

VARIABLE: Final = "PENSTOCK_NATIVE"
"""An environment variable: 0 for Python, 1 for native or nothing; empty for what is installed."""
SLACK: Final = 64
"""The number of bytes of the same buffer that must follow the records for Python."""
_MODULE: Final = "penstock_native"


class NativeMissingError(UnavailableError):
    """The native implementation is required and cannot be used, or it is not clear which one is."""


class Implementation(NamedTuple):
    """An implementation of reading.

    Attributes:
        read: Takes a producer's batch, its records uncompressed, and their number.
        read_stored: Takes a stored batch, its records uncompressed, base offset and attributes of
            its header zero; their number; the last offset delta; and the timestamp that a broker
            gave all of them, or None.
        slack: How many bytes must follow the batch in its buffer.
    """

    read: Callable[[memoryview, int], StoredRecords]
    read_stored: Callable[[memoryview, int, int, int | None], StoredRecords]
    slack: int


def choose() -> Implementation:
    """Return the implementation, by the environment and what is installed.

    Raises:
        NativeMissingError: `PENSTOCK_NATIVE=1`, and it cannot be used; or it is another value.
    """
    module, _ = _find()
    # Python's takes 20 ms to import, native none.
    if module is not None:
        from penstock.records import native  # noqa: PLC0415

        return Implementation(native.reader(module), native.stored_reader(module), 0)
    from penstock.records import decoder  # noqa: PLC0415

    return Implementation(decoder.read, decoder.read_stored, SLACK)


def describe() -> str:
    """Return which implementation it is, as `penstock --version` and the log show it.

    Raises:
        NativeMissingError: `PENSTOCK_NATIVE=1`, and it cannot be used; or it is another value.
    """
    module, why_not = _find()
    if module is not None:
        return f"native {__version__}"
    return f"Python ({why_not})" if why_not else "Python"


def _find() -> tuple[Any, str]:
    """Return the native module; or None, and the reason if an installed one cannot be used."""
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
    from penstock.records.native import INTERFACE  # noqa: PLC0415 - where there is one

    interface = getattr(module, "INTERFACE", None)
    if interface != INTERFACE:
        return f"{_MODULE} has interface {interface}, not {INTERFACE}: build it again"
    return ""
