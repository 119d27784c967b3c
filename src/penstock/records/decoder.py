"""Reads records in Python: an adapter around aiokafka's decoder, which trusts its input.

The reference for `penstock_native`, and the fallback where that is not installed.
What aiokafka does not check, and how that is handled here:

- A varint, and the lengths of headers, may be read some bytes past the end of its buffer.
  What it is given is a view that ends before its memory does.
- A length near 2**63 overflows its check and ends in MemoryError or OverflowError.
- It reads a record's attributes as a varint, Kafka as one byte: from 0x80 on the two would
  see different records. The attributes of every record are looked at before.
- It takes any offset delta.
- It reads varints of 32 bits as if they had 64. Records that take more bytes than they have to
  are read again.
"""

from __future__ import annotations

from functools import cached_property
from itertools import repeat
from operator import attrgetter
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import TYPE_CHECKING, Final

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecord, DefaultRecordBatch

from penstock.error_codes import INVALID_RECORD
from penstock.policy.records import Header
from penstock.records.builder import build, sizes
from penstock.records.errors import UnreadableRecords
from penstock.records.faults import find_fault, find_overlong
from penstock.records.header import BASE_TIMESTAMP, BASE_TIMESTAMP_AT, HEADER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.records.builder import SizeOf

_INVALID: Final = (ValueError, CorruptRecordException, OverflowError, StopIteration)
_UNREADABLE: Final = (*_INVALID, MemoryError)
_offset = attrgetter("offset")
_key = attrgetter("key")
_value = attrgetter("value")
_given_headers = attrgetter("headers")
_timestamp = attrgetter("timestamp")


class DecodedRecords:
    """Implements `penstock.records.stored.StoredRecords`."""

    keys_arrow = values_arrow = None

    def __init__(self, records: list[DefaultRecord], base_timestamp: int) -> None:
        self._records = records
        self._base_timestamp = base_timestamp

    def __len__(self) -> int:
        return len(self._records)

    @cached_property
    def keys(self) -> Sequence[bytes | None]:
        return tuple(map(_key, self._records))

    @cached_property
    def values(self) -> Sequence[bytes | None]:
        return tuple(map(_value, self._records))

    @cached_property
    def headers(self) -> Sequence[tuple[Header, ...]]:
        return tuple(map(_headers, self._records))

    @cached_property
    def timestamps(self) -> Sequence[int]:
        return tuple(map(_timestamp, self._records))

    def rewritten(
        self,
        kept: Sequence[int],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> tuple[bytes, int]:
        """Write some of the records with other keys and values; see `StoredRecords`."""
        some = self._records
        if len(kept) != len(some):
            some = [some[position] for position in kept]
        timestamps = [record.timestamp for record in some]
        headers = [record.headers for record in some]
        return build(self._base_timestamp, timestamps, keys, values, headers), max(timestamps)


def read(view: memoryview, count: int) -> DecodedRecords:
    """Read records.

    Args:
        view: The batch header, its codec bits zero, and the records uncompressed. `SLACK`
            bytes behind it must be memory of the same buffer.
        count: How many records the header announces; at least 1.

    Raises:
        UnreadableRecords: The bytes are not `count` records and nothing else (87).
        MemoryError: There is no memory for them.
    """
    base_timestamp = BASE_TIMESTAMP.unpack_from(view, BASE_TIMESTAMP_AT)[0]
    size_of = sizes(base_timestamp)
    try:
        _check_frames(view, count)
        records = list(DefaultRecordBatch(view))
    except MemoryError:
        # A length near 2**63 ends in one, too.
        fault = _find_fault(view, count, size_of)
        if fault is None:
            raise
        raise UnreadableRecords(INVALID_RECORD, fault) from None
    except _INVALID:
        raise _refusal(_find_fault(view, count, size_of)) from None
    if list(map(_offset, records)) != list(range(count)):
        raise _refusal(_find_fault(view, count, size_of))
    decoded = DecodedRecords(records, base_timestamp)
    headers = map(_given_headers, records)
    size = sum(
        map(size_of, range(count), decoded.timestamps, decoded.keys, decoded.values, headers)
    )
    if size != len(view) - HEADER.size:
        fault = _overlong(view, records, _starts(view, count), size_of)
        if fault is not None:
            raise _refusal(fault)
    return decoded


def _refusal(fault: str | None) -> UnreadableRecords:
    return UnreadableRecords(INVALID_RECORD, fault or "Found invalid record structure")


def _find_fault(view: memoryview, count: int, size_of: SizeOf) -> str | None:
    """Describe the first error; records before it that can be decoded are skipped quickly."""
    starts = _starts(view, count)
    records = _decodable(view, len(starts) - 1)
    start = starts[len(records)] - HEADER.size
    return _overlong(view, records, starts, size_of) or find_fault(
        view[HEADER.size :], count, first=len(records), start=start
    )


def _overlong(
    view: memoryview, records: list[DefaultRecord], starts: list[int], size_of: SizeOf
) -> str | None:
    """Describe the first overlong varint of the first records, which have been decoded."""
    section = view[HEADER.size :]
    for position, record in enumerate(records):
        start = starts[position]
        fields = record.timestamp, record.key, record.value, record.headers
        if size_of(position, *fields) == starts[position + 1] - start:
            continue
        fault = find_overlong(section, start - HEADER.size, position)
        if fault is not None:
            return fault
    return None


def _starts(view: memoryview, count: int) -> list[int]:
    """Return the positions of records with valid lengths, and the end of the last of them."""
    starts = [HEADER.size]
    try:
        for _ in repeat(None, count):
            end = starts[-1] + _measured(view, starts[-1])
            if end > len(view):
                break
            starts.append(end)
    except (IndexError, ValueError):
        pass
    return starts


def _decodable(view: memoryview, count: int) -> list[DefaultRecord]:
    """Return as many of the first `count` records as can be decoded."""
    records: list[DefaultRecord] = []
    remaining = iter(DefaultRecordBatch(view))
    try:
        while len(records) < count:
            record = next(remaining)
            if record.offset != len(records):
                break
            records.append(record)
    except _UNREADABLE:
        pass
    return records


def _headers(record: DefaultRecord) -> tuple[Header, ...]:
    headers = record.headers
    return tuple(map(Header._make, headers)) if headers else ()


def _check_frames(view: memoryview, count: int) -> None:
    """Follow the lengths of the records, and look at the attributes of each.

    Raises:
        ValueError: They do not lead from the first byte to the last.
    """
    position = HEADER.size
    beginning, steps = _BEGINNING.unpack_from, _STEPS
    try:
        for _ in repeat(None, count):
            first_two, third = beginning(view, position)
            step = steps[first_two]
            if not step or (third > 0x7F and first_two & 0x80):
                step = _measured(view, position)
            position += step
    except (IndexError, StructError):
        raise ValueError from None
    if position != len(view):
        raise ValueError


def _measured(view: memoryview, position: int) -> int:
    """Return the size of a record, however many bytes its length takes."""
    length = 0
    for size, shift in enumerate((0, 7, 14, 21, 28), start=1):
        byte = view[position + size - 1]
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            if length & 1 or view[position + size] > 0x7F:
                break
            return (length >> 1) + size
    raise ValueError


def _step(first: int, second: int) -> int:
    """Return the size of a record by its first two bytes, or 0 where it needs more of them.

    Its length is a varint, twice what follows it; where that takes one byte, the second byte
    is the attributes.
    """
    if first & 1 or second > 0x7F:
        return 0
    if first < 0x80:
        return (first >> 1) + 1
    return ((first & 0x7F | second << 7) >> 1) + 2


_BEGINNING: Final = Struct("<HB")
# A table, because following the lengths takes as long as decoding the records.
_STEPS: Final = [_step(first, second) for second in range(256) for first in range(256)]
