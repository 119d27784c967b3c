"""Reads records in Python: an adapter around aiokafka's decoder, which trusts its input.

What `penstock._native` is compared with.
What aiokafka does not check, and how that is handled here:

- A varint, and the lengths of headers, may be read some bytes past the end of its buffer.
  What it is given is a view that ends before its memory does.
- A length near 2**63 overflows its check and ends in MemoryError or OverflowError.
- It reads a record's attributes as a varint, Kafka as one byte: from 0x80 on the two would
  see different records. The attributes of every record are checked before.
- It takes any offset delta.
- It reads varints of 32 bits as if they had 64. Records that take more bytes than they have to
  are read again.
- It reads no header whose key is not UTF-8, which a broker may store: such a batch is read again.
"""

from __future__ import annotations

from itertools import repeat
from operator import attrgetter, lt
from struct import Struct
from struct import error as StructError
from typing import Final

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecord, DefaultRecordBatch

from penstock.kafka.error_codes import INVALID_RECORD
from penstock.kafka.records.builder import sizes
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.header import BASE_TIMESTAMP, BASE_TIMESTAMP_AT, HEADER, wrapped
from tests.kafka.records.in_python.decoded_records import DecodedRecords, OddRecord
from tests.kafka.records.in_python.faults import find_fault, find_overlong
from tests.kafka.records.in_python.single_record import PRODUCER, RecordOrigin, read_record

_INVALID: Final = (ValueError, CorruptRecordException, OverflowError, StopIteration)
_UNREADABLE: Final = (*_INVALID, MemoryError)
_offset = attrgetter("offset")
_key = attrgetter("key")
_value = attrgetter("value")
_given_headers = attrgetter("headers")
_timestamp = attrgetter("timestamp")


def read(view: memoryview, count: int) -> DecodedRecords:
    """Read the records of a producer.

    Args:
        view: The batch header, its codec bits zero, and the records uncompressed. 64
            bytes behind it must be memory of the same buffer.
        count: How many records the header announces; at least 1.

    Raises:
        UnreadableRecords: The bytes are not exactly `count` records (87).
        MemoryError: There is no memory for them.
    """
    return _Section(view, count, PRODUCER).read()


def read_stored(
    view: memoryview, count: int, last_offset_delta: int, log_append_time: int | None
) -> DecodedRecords:
    """Read the records that a broker stores.

    Args:
        view: As for `read`; base offset and attributes of the header are zero.
        count: How many records the header announces.
        last_offset_delta: What the header has.
        log_append_time: The timestamp of all records, where the broker set it.

    Raises:
        UnreadableRecords: The bytes are not exactly `count` records (87).
        MemoryError: There is no memory for them.
    """
    if not count:
        return DecodedRecords([], 0, log_append_time)
    return _Section(view, count, RecordOrigin(last_offset_delta)).read(log_append_time)


class _Section:
    """The records of a batch that are to be read."""

    def __init__(self, view: memoryview, count: int, origin: RecordOrigin) -> None:
        self._view = view
        self._count = count
        self._origin = origin
        self._base_timestamp = BASE_TIMESTAMP.unpack_from(view, BASE_TIMESTAMP_AT)[0]
        self._size_of = sizes(self._base_timestamp)

    def read(self, log_append_time: int | None = None) -> DecodedRecords:
        """Return them, or raise `UnreadableRecords`."""
        view = self._view
        try:
            _check_frames(view, self._count)
            records = list(DefaultRecordBatch(view))
        except MemoryError:
            # A length near 2**63 ends in an overflow, too.
            fault = self._find_fault()
            if fault is None:
                raise
            raise UnreadableRecords(INVALID_RECORD, fault) from None
        except _INVALID:
            fault = self._find_fault()
            if fault is None and self._origin.is_log:
                return self._odd(log_append_time)
            raise _refusal(fault) from None
        deltas = list(map(_offset, records))
        if not self._are_offsets(deltas):
            raise _refusal(self._find_fault())
        decoded = DecodedRecords(records, self._base_timestamp, log_append_time)
        headers = map(_given_headers, records)
        timestamps = map(_timestamp, records)
        size = sum(map(self._size_of, deltas, timestamps, decoded.keys, decoded.values, headers))
        if size != len(view) - HEADER.size:
            fault = self._overlong(records, _starts(view, self._count))
            if fault is not None:
                raise _refusal(fault)
        return decoded

    def _are_offsets(self, deltas: list[int]) -> bool:
        last = self._origin.last_offset_delta
        if last is None:
            return deltas == list(range(self._count))
        return deltas[0] >= 0 and deltas[-1] <= last and all(map(lt, deltas, deltas[1:]))

    def _find_fault(self) -> str | None:
        """Describe the first error; records before it that can be decoded are skipped quickly."""
        starts = _starts(self._view, self._count)
        records = self._decodable(len(starts) - 1)
        return self._overlong(records, starts) or find_fault(
            self._view[HEADER.size :],
            self._count,
            first=len(records),
            start=starts[len(records)] - HEADER.size,
            before=records[-1].offset if records else -1,
            origin=self._origin,
        )

    def _overlong(self, records: list[DefaultRecord], starts: list[int]) -> str | None:
        """Describe the first overlong varint of the first records, which have been decoded."""
        section = self._view[HEADER.size :]
        before = -1
        for position, record in enumerate(records):
            start, delta = starts[position], record.offset
            fields = record.timestamp, record.key, record.value, record.headers
            if self._size_of(delta, *fields) != starts[position + 1] - start:
                fault = find_overlong(
                    section, start - HEADER.size, position, before=before, origin=self._origin
                )
                if fault is not None:
                    return fault
            before = delta
        return None

    def _decodable(self, count: int) -> list[DefaultRecord]:
        """Return as many of the first `count` records as can be decoded."""
        records: list[DefaultRecord] = []
        remaining = iter(DefaultRecordBatch(self._view))
        before = -1
        try:
            while len(records) < count:
                record = next(remaining)
                if not self._origin.allows(record.offset, before):
                    break
                records.append(record)
                before = record.offset
        except _UNREADABLE:
            pass
        return records

    def _odd(self, log_append_time: int | None) -> DecodedRecords:
        """Read records that aiokafka does not, though nothing is wrong with them."""
        section = self._view[HEADER.size :]
        records = []
        start, before = 0, -1
        for _ in repeat(None, self._count):
            record = read_record(section, start, before, self._origin, thorough=True)
            timestamp = wrapped(self._base_timestamp + record.timestamp_delta)
            records.append(
                OddRecord(record.delta, timestamp, record.key, record.value, record.headers)
            )
            start, before = record.end, record.delta
        return DecodedRecords(records, self._base_timestamp, log_append_time, any_header_keys=True)


def _refusal(fault: str | None) -> UnreadableRecords:
    return UnreadableRecords(INVALID_RECORD, fault or "Found invalid record structure")


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


def _check_frames(view: memoryview, count: int) -> None:
    """Follow the lengths of the records, and check the attributes of each.

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

    Its length is a varint, twice the number of bytes after it; if it has one byte, the second byte
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
