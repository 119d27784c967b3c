"""The adapter around aiokafka's record decoder, which is fast and trusts its input.

What it does not check, and how that is handled here:

- A varint, and the lengths of headers, may be read some bytes past the end of its buffer.
  What it is given is a view that ends before its memory does.
- A length near 2**63 overflows its check and ends in MemoryError or OverflowError.
- It reads a record's attributes as a varint, Kafka as one byte: from 0x80 on the two would
  see different records. The attributes of every record are looked at before.
- It takes any offset delta.
"""

from __future__ import annotations

from itertools import repeat
from operator import attrgetter
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import TYPE_CHECKING, Final

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch

from penstock.error_codes import INVALID_RECORD
from penstock.records.errors import UnreadableRecords
from penstock.records.header import HEADER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.records.record import StoredRecord

SLACK: Final = 64
"""The number of bytes of the same buffer that must follow the records."""

_offset = attrgetter("offset")


def decode(view: memoryview, count: int) -> Sequence[StoredRecord]:
    """Decode records.

    Args:
        view: The batch header, its codec bits zero, and the records uncompressed. `SLACK`
            bytes behind it must be memory of the same buffer.
        count: How many records the header announces; at least 1.

    Raises:
        UnreadableRecords: The bytes are not `count` records and nothing else (87).
    """
    _check_frames(view, count)
    try:
        records: list[StoredRecord] = list(DefaultRecordBatch(view))
    except UnicodeDecodeError:
        raise _invalid("A record has a header key that is not UTF-8") from None
    except (CorruptRecordException, MemoryError, OverflowError):
        raise _invalid("A record is not what its lengths say") from None
    if list(map(_offset, records)) != list(range(count)):
        raise _invalid("The records' offset deltas are not 0, 1, 2, ...")
    return records


def _check_frames(view: memoryview, count: int) -> None:
    """Follow the lengths of the records, and look at the attributes of each.

    Raises:
        UnreadableRecords: They do not lead from the first byte to the last (87).
    """
    position = HEADER.size
    beginning, steps = _BEGINNING.unpack_from, _STEPS
    try:
        for _ in repeat(None, count):
            first_two, third = beginning(view, position)
            step = steps[first_two]
            if not step or (third > 0x7F and first_two & 0x80):
                step = _long_step(view, position)
            position += step
    except (IndexError, StructError):
        raise _invalid("Incorrect declared batch size, premature EOF reached") from None
    if position != len(view):
        raise _invalid("Incorrect declared batch size, records still remaining in file")


def _long_step(view: memoryview, position: int) -> int:
    """Measure a record whose length takes more than two bytes, or refuse it."""
    length = 0
    for size, shift in enumerate((0, 7, 14, 21, 28), start=1):
        byte = view[position + size - 1]
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            if length & 1 or view[position + size] > 0x7F:
                break
            return (length >> 1) + size
    raise _invalid("A record has a length or attributes that Kafka does not know")


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


def _invalid(message: str) -> UnreadableRecords:
    return UnreadableRecords(INVALID_RECORD, message)
