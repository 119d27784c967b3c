"""Finds the first error in the records of a batch, and describes it.

With a broker's message where it has one (DefaultRecord, DefaultRecordBatch). It is slow, and runs
only for records that cannot be read; `native/src/section.rs` and `fault.rs` are the same in Rust.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

ENDED: Final = "Incorrect declared batch size, premature EOF reached"
REMAINING: Final = "Incorrect declared batch size, records still remaining in file"
HEADERS_MAX: Final = 10_000
"""After as many headers of one record the part is not named: finding it would take too long."""
_VARINT_MAX_BYTES: Final = 5
_VARINT_LAST_BYTE_MAX: Final = 0x0F
_VARLONG_MAX_BYTES: Final = 10
_VARLONG_LAST_BYTE_MAX: Final = 0x7F


def find_fault(
    section: bytes | memoryview, count: int, *, first: int = 0, start: int = 0
) -> str | None:
    """Return the first error, and the record that has it.

    Args:
        section: What follows the header of a batch, uncompressed.
        count: How many records the header announces.
        first: The position of a record; those before it are valid.
        start: Its position in the section, in bytes.

    Returns:
        The message; None if the records are valid.
    """
    for position in range(first, count):
        try:
            start = _check_record(section, start, position)
        except ValueError as fault:
            return f"{fault} (record {position} of the batch)"
    return REMAINING if start != len(section) else None


def find_overlong(section: bytes | memoryview, start: int, position: int) -> str | None:
    """Return what is wrong with a record that a more lenient reader has decoded.

    Args:
        section: What follows the header of a batch, uncompressed.
        start: The record's position in the section, in bytes.
        position: The record's number.

    Returns:
        The message; None if the record is valid.
    """
    try:
        _check_record(section, start, position, thorough=True)
    except ValueError as fault:
        return f"{fault} (record {position} of the batch)"
    return None


class _Cursor:
    """A position in the bytes of one record.

    Reading raises EOFError at the end of the record, and OverflowError for a varint of more bits
    than its number has.
    """

    def __init__(self, data: bytes | memoryview, position: int, end: int) -> None:
        self._data = data
        self.position = position
        self._end = end

    @property
    def remaining(self) -> int:
        return self._end - self.position

    def byte(self) -> int:
        if not self.remaining:
            raise EOFError
        self.position += 1
        return self._data[self.position - 1]

    def take(self, size: int) -> bytes:
        if size > self.remaining:
            raise EOFError
        self.position += size
        return bytes(self._data[self.position - size : self.position])

    def varint(self) -> int:
        raw = self._unsigned(_VARINT_MAX_BYTES, _VARINT_LAST_BYTE_MAX)
        return (raw >> 1) ^ -(raw & 1)

    def varlong(self) -> int:
        raw = self._unsigned(_VARLONG_MAX_BYTES, _VARLONG_LAST_BYTE_MAX) & 0xFFFF_FFFF_FFFF_FFFF
        return (raw >> 1) ^ -(raw & 1)

    def nullable(self) -> None:
        self.take(max(0, self.varint()))

    def _unsigned(self, most: int, last_max: int) -> int:
        value = 0
        for place in range(most - 1):
            byte = self.byte()
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value
        last = self.byte()
        if last > last_max:
            raise OverflowError
        return value | last << (7 * (most - 1))


def _check_record(
    section: bytes | memoryview, start: int, position: int, *, thorough: bool = False
) -> int:
    """Return the position of the next record; raise ValueError with the error.

    Where it is thorough, it looks at all headers, however many.
    """
    outer = _Cursor(section, start, len(section))
    try:
        length = outer.varint()
    except EOFError:
        raise ValueError(ENDED) from None
    except OverflowError:
        raise _structure("length") from None
    if length < 0:
        raise _structure("length")
    if length > outer.remaining:
        raise ValueError(ENDED)
    body, end = outer.position, outer.position + length
    cursor = _Cursor(section, body, end)
    if _part(cursor.byte, "attributes") > 0x7F:
        raise _structure("attributes")
    _part(cursor.varlong, "timestamp")
    if _part(cursor.varint, "offset delta") != position:
        raise ValueError("The records' offset deltas are not 0, 1, 2, ...")
    _part(cursor.nullable, "key")
    _part(cursor.nullable, "value")
    _check_headers(cursor, thorough=thorough)
    if cursor.remaining:
        raise ValueError(
            f"Invalid record size: expected to read {length} bytes in record payload, but "
            f"instead read {cursor.position - body}"
        )
    return end


def _check_headers(cursor: _Cursor, *, thorough: bool) -> None:
    count = _part(cursor.varint, "number of headers")
    if count < 0:
        raise ValueError(f"Found invalid number of record headers {count}")
    if count > cursor.remaining:
        raise ValueError(
            f"Found invalid number of record headers. {count} is larger than the remaining "
            "size of the buffer"
        )
    for _ in range(min(count, HEADERS_MAX)):
        _check_header(cursor)
    if count > HEADERS_MAX:
        try:
            if not thorough:
                raise ValueError
            for _ in range(count - HEADERS_MAX):
                _check_header(cursor)
        except ValueError:
            raise _structure("headers") from None


def _check_header(cursor: _Cursor) -> None:
    size = _part(cursor.varint, "header key")
    if size < 0:
        raise ValueError(f"Invalid negative header key size {size}")
    try:
        _part(partial(cursor.take, size), "header key").decode()
    except UnicodeDecodeError:
        raise ValueError("A record has a header key that is not UTF-8") from None
    _part(cursor.nullable, "header value")


def _part(read: Callable[[], T], name: str) -> T:
    try:
        return read()
    except (EOFError, OverflowError):
        raise _structure(name) from None


def _structure(name: str) -> ValueError:
    return ValueError(f"Found invalid record structure: {name}")
