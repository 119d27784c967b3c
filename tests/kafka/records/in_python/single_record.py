"""Reads a record byte by byte: exactly as `native/src/section.rs` does, in the same order.

It is slow, and runs only if aiokafka's decoder cannot read a record, or reads it wrongly: to
describe the error, or because the record is valid nevertheless.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

ENDED: Final = "Incorrect declared batch size, premature EOF reached"
HEADERS_MAX: Final = 10_000
"""After as many headers of a record the part is not named: finding it would take too long."""
_VARINT_MAX_BYTES: Final = 5
_VARINT_LAST_BYTE_MAX: Final = 0x0F
_VARLONG_MAX_BYTES: Final = 10
_VARLONG_LAST_BYTE_MAX: Final = 0x7F


class RecordOrigin(NamedTuple):
    """The origin of records, which decides which records are valid.

    Attributes:
        last_offset_delta: The value in the header of a stored batch: compaction leaves gaps before
        it,
            and header keys may be any bytes. None for a producer's batch, whose offset deltas are
            0, 1, 2, ..., and whose header keys are UTF-8.
    """

    last_offset_delta: int | None = None

    @property
    def is_log(self) -> bool:
        """Whether a broker stores them."""
        return self.last_offset_delta is not None

    def allows(self, delta: int, before: int) -> bool:
        """Return whether a record may have an offset delta, by that of the record before (-1)."""
        if self.last_offset_delta is None:
            return delta == before + 1
        return before < delta <= self.last_offset_delta


PRODUCER: Final = RecordOrigin()


class SingleRecord(NamedTuple):
    """A record.

    Attributes:
        end: Where the next record begins in the section.
        delta: Its offset, relative to the batch's base offset.
        timestamp_delta: Relative to the batch's base timestamp; 64 bits.
        key: Bytes or None.
        value: Bytes or None.
        headers: Keys and values. Bytes of a key that are not UTF-8 are surrogates (PEP 383).
    """

    end: int
    delta: int
    timestamp_delta: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def read_record(
    section: bytes | memoryview,
    start: int,
    before: int = -1,
    origin: RecordOrigin = PRODUCER,
    *,
    thorough: bool = False,
) -> SingleRecord:
    """Read a record.

    Args:
        section: The bytes after the header of a batch, uncompressed.
        start: The record's position in it.
        before: The offset delta of the record before, or -1.
        origin: Where the record comes from.
        thorough: Whether to read all headers, however many; otherwise a record with more than
            `HEADERS_MAX` is wrong.

    Raises:
        ValueError: The record is wrong; with a description.
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
    timestamp_delta = _part(cursor.varlong, "timestamp")
    delta = _part(cursor.varint, "offset delta")
    if not origin.allows(delta, before):
        raise ValueError(
            "The records' offset deltas do not ascend to the last one of the batch"
            if origin.is_log
            else "The records' offset deltas are not 0, 1, 2, ..."
        )
    key = _part(cursor.nullable, "key")
    value = _part(cursor.nullable, "value")
    headers = _headers(cursor, origin, thorough=thorough)
    if cursor.remaining:
        if len(headers) > HEADERS_MAX:
            raise _structure("headers")
        raise ValueError(
            f"Invalid record size: expected to read {length} bytes in record payload, but "
            f"instead read {cursor.position - body}"
        )
    return SingleRecord(end, delta, timestamp_delta, key, value, headers)


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

    def nullable(self) -> bytes | None:
        size = self.varint()
        return None if size < 0 else self.take(size)

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


def _headers(
    cursor: _Cursor, origin: RecordOrigin, *, thorough: bool
) -> list[tuple[str, bytes | None]]:
    count = _part(cursor.varint, "number of headers")
    if count < 0:
        raise ValueError(f"Found invalid number of record headers {count}")
    if count > cursor.remaining:
        raise ValueError(
            f"Found invalid number of record headers. {count} is larger than the remaining "
            "size of the buffer"
        )
    headers = [_header(cursor, origin) for _ in range(min(count, HEADERS_MAX))]
    if count > HEADERS_MAX:
        try:
            if not thorough:
                raise ValueError
            headers += [_header(cursor, origin) for _ in range(count - HEADERS_MAX)]
        except ValueError:
            raise _structure("headers") from None
    return headers


def _header(cursor: _Cursor, origin: RecordOrigin) -> tuple[str, bytes | None]:
    size = _part(cursor.varint, "header key")
    if size < 0:
        raise ValueError(f"Invalid negative header key size {size}")
    try:
        key = _part(partial(cursor.take, size), "header key").decode(
            errors="surrogateescape" if origin.is_log else "strict"
        )
    except UnicodeDecodeError:
        raise ValueError("A record has a header key that is not UTF-8") from None
    return key, _part(cursor.nullable, "header value")


def _part(read: Callable[[], T], name: str) -> T:
    try:
        return read()
    except (EOFError, OverflowError):
        raise _structure(name) from None


def _structure(name: str) -> ValueError:
    return ValueError(f"Found invalid record structure: {name}")
