"""The implementations that read record batches: the extension, and those in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.kafka.records import native
from penstock.kafka.records.header import CRC_FROM
from tests.kafka.records.in_python import decoder

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

SLACK: Final = 64
"""How many bytes the decoder in Python needs behind a batch."""


class Implementation(NamedTuple):
    """The functions of `penstock.kafka.records.native`, by the extension or in Python."""

    read: Callable[..., Any]
    read_stored: Callable[..., Any]
    stored_batches: Callable[[memoryview], Any]


def padded(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function in Python that takes what the extension takes."""

    def read_padded(view: memoryview, *arguments: Any) -> Any:
        batch = bytearray(view) + b"\x81" * SLACK
        batch[:8] = bytes(8)
        batch[CRC_FROM : CRC_FROM + 2] = bytes(2)
        return read(memoryview(batch)[: len(view)], *arguments)

    return read_padded


def merge_nothing(response: memoryview) -> Callable[..., None]:
    """Return a function that merges no batches of a response: they are read first."""
    del response
    return lambda *_: None


NATIVE: Final = Implementation(native.read, native.read_stored, native.stored_batches)
PYTHON: Final = Implementation(padded(decoder.read), padded(decoder.read_stored), merge_nothing)
IMPLEMENTATIONS: Final = {"Python": PYTHON, "native": NATIVE}


def use(implementation: str, patch: pytest.MonkeyPatch) -> Implementation:
    """Let batches be read by an implementation."""
    functions = IMPLEMENTATIONS[implementation]
    for name, function in functions._asdict().items():
        patch.setattr(native, name, function)
    return functions
