"""Finds the first byte of a record section that is wrong, and says what is wrong with it.

In a broker's words where it has some (DefaultRecord, DefaultRecordBatch). It is slow, and runs
when a section has been refused; `native/src/section.rs` and `fault.rs` are the same in Rust.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

ENDED: Final = "Incorrect declared batch size, premature EOF reached"
REMAINING: Final = "Incorrect declared batch size, records still remaining in file"
_VARINT_MAX_BYTES: Final = 5
_VARLONG_MAX_BYTES: Final = 10


class _Fault(Exception):  # noqa: N818 - it never leaves this module
    """The text, without the record's position."""


class _EndedError(Exception):
    """The bytes end within a number, or a field."""


class _OverlongError(Exception):
    """A number takes more bytes than any."""


def find_fault(section: bytes | memoryview, count: int) -> str | None:
    """Return what is wrong first, and with which record.

    Args:
        section: What follows the header of a batch, uncompressed.
        count: How many records the header announces.

    Returns:
        The text; None where nothing is wrong.
    """
    start = 0
    for position in range(count):
        try:
            start = _check_record(section, start, position)
        except _Fault as fault:
            return f"{fault} (record {position} of the batch)"
    return REMAINING if start != len(section) else None


class _Cursor:
    """A place in the bytes of one record, which end before the section does."""

    def __init__(self, data: bytes | memoryview, position: int, end: int) -> None:
        self._data = data
        self.position = position
        self._end = end

    @property
    def remaining(self) -> int:
        return self._end - self.position

    def byte(self) -> int:
        if not self.remaining:
            raise _EndedError
        self.position += 1
        return self._data[self.position - 1]

    def take(self, size: int) -> bytes:
        if size > self.remaining:
            raise _EndedError
        self.position += size
        return bytes(self._data[self.position - size : self.position])

    def varint(self) -> int:
        raw = self._unsigned(_VARINT_MAX_BYTES) & 0xFFFF_FFFF
        return (raw >> 1) ^ -(raw & 1)

    def varlong(self) -> int:
        raw = self._unsigned(_VARLONG_MAX_BYTES) & 0xFFFF_FFFF_FFFF_FFFF
        return (raw >> 1) ^ -(raw & 1)

    def nullable(self) -> None:
        self.take(max(0, self.varint()))

    def _unsigned(self, most: int) -> int:
        value = 0
        for place in range(most):
            byte = self.byte()
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value
        raise _OverlongError


def _check_record(section: bytes | memoryview, start: int, position: int) -> int:
    """Return where the next record begins."""
    outer = _Cursor(section, start, len(section))
    try:
        length = outer.varint()
    except _EndedError:
        raise _Fault(ENDED) from None
    except _OverlongError:
        raise _structure("length") from None
    if length < 0:
        raise _structure("length")
    if length > outer.remaining:
        raise _Fault(ENDED)
    body, end = outer.position, outer.position + length
    cursor = _Cursor(section, body, end)
    if _part(cursor.byte, "attributes") > 0x7F:
        raise _structure("attributes")
    _part(cursor.varlong, "timestamp")
    if _part(cursor.varint, "offset delta") != position:
        raise _Fault("The records' offset deltas are not 0, 1, 2, ...")
    _part(cursor.nullable, "key")
    _part(cursor.nullable, "value")
    _check_headers(cursor)
    if cursor.remaining:
        raise _Fault(
            f"Invalid record size: expected to read {length} bytes in record payload, but "
            f"instead read {cursor.position - body}"
        )
    return end


def _check_headers(cursor: _Cursor) -> None:
    count = _part(cursor.varint, "number of headers")
    if count < 0:
        raise _Fault(f"Found invalid number of record headers {count}")
    if count > cursor.remaining:
        raise _Fault(
            f"Found invalid number of record headers. {count} is larger than the remaining "
            "size of the buffer"
        )
    for _ in range(count):
        size = _part(cursor.varint, "header key")
        if size < 0:
            raise _Fault(f"Invalid negative header key size {size}")
        try:
            _part(partial(cursor.take, size), "header key").decode()
        except UnicodeDecodeError:
            raise _Fault("A record has a header key that is not UTF-8") from None
        _part(cursor.nullable, "header value")


def _part(read: Callable[[], T], name: str) -> T:
    try:
        return read()
    except (_EndedError, _OverlongError):
        raise _structure(name) from None


def _structure(name: str) -> _Fault:
    return _Fault(f"Found invalid record structure: {name}")
