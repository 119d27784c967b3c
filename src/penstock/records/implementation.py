"""Chooses the implementation that reads record batches: `penstock_native` if installed, or Python.

Both accept the same bytes, refuse others with the same messages, and return the same columns.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock import __version__
from penstock.native import VARIABLE, find_native

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.records.stored import StoredBatches, StoredRecords

SLACK: Final = 64
"""The number of bytes of the same buffer that must follow the records for Python."""


class Implementation(NamedTuple):
    """An implementation of reading.

    Attributes:
        read: Takes a producer's batch, its records uncompressed, and their number.
        read_stored: Takes a stored batch, its records uncompressed, base offset and attributes of
            its header zero; their number; the last offset delta; and the timestamp that a broker
            gave all of them, or None.
        slack: How many bytes must follow the batch in its buffer.
        stored_batches: Takes the batches of a fetch response, and returns the function that merges
            small batches among them; None where batches have to be read first.
    """

    read: Callable[[memoryview, int], StoredRecords]
    read_stored: Callable[[memoryview, int, int, int | None], StoredRecords]
    slack: int
    stored_batches: Callable[[memoryview], StoredBatches] | None = None


def choose() -> Implementation:
    """Return the implementation, by the environment and the installed packages.

    Raises:
        NativeMissingError: `PENSTOCK_NATIVE=1`, and it cannot be used; or it is another value.
    """
    module, _ = find_native()
    # Python's takes 20 ms to import, native none.
    if module is not None:
        from penstock.records import native  # noqa: PLC0415

        return Implementation(
            native.reader(module), native.stored_reader(module), 0, native.batches_reader(module)
        )
    from penstock.records import decoder  # noqa: PLC0415

    return Implementation(decoder.read, decoder.read_stored, SLACK)


@cache
def current() -> Implementation:
    """Return the implementation of this process, chosen at the first call.

    Raises:
        NativeMissingError: As by `choose`, at each call.
    """
    return choose()


def missing_native() -> str:
    """Return the cost of a missing native implementation, and how to get it.

    Empty if it is installed, and if `PENSTOCK_NATIVE=0` switches it off.

    Raises:
        NativeMissingError: `PENSTOCK_NATIVE=1`, and it cannot be used; or it is another value.
    """
    module, _ = find_native()
    if module is not None or os.environ.get(VARIABLE) == "0":
        return ""
    return (
        "records are read in Python, which takes ten times as long or longer; install "
        f"penstock-native=={__version__} (in a clone: make setup, with Rust)"
    )


def describe() -> str:
    """Return which implementation it is, as `penstock --version` and the log show it.

    Raises:
        NativeMissingError: `PENSTOCK_NATIVE=1`, and it cannot be used; or it is another value.
    """
    module, why_not = find_native()
    if module is not None:
        return f"native {__version__}"
    return f"Python ({why_not})" if why_not else "Python"
