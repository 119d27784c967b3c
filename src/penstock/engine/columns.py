"""Records as columns: from the gateway and from Spark.

If policies judge each record separately, the objects that they get are made here for a complete
batch, by iterators that run in C: this is most of the overhead of judging a record. A batch as
columns is made in `policy_batch.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.engine.stored_columns import StoredColumns
from penstock.kafka.records.prefixes import after
from penstock.policy import Header, Record, RecordProxy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.kafka.records.stored import KeysAndValues
    from penstock.policy import RecordIntrospectionHints

    T = TypeVar("T")
    Headers = tuple[Header, ...]

MAX_LENGTH: Final = 2**31 - 1
"""No field is longer: a hint of as many bytes requests the complete field."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Records as one iterable for each field, which can be iterated repeatedly.

    Attributes:
        count: The number of records.
        timestamps: Milliseconds since the epoch; -1 for none.
        keys: Bytes or None. An iterable that was made from an Arrow array may have it as its
            attribute `arrow`; the same of values.
        values: Bytes or None.
        headers: A tuple of `Header` for each record.
    """

    count: int
    timestamps: Iterable[int]
    keys: Iterable[bytes | None]
    values: Iterable[bytes | None]
    headers: Iterable[Headers]

    def keys_after(self, prefix: bytes) -> Sequence[bytes] | None:
        """Return the keys without a prefix; None if a key does not begin with it."""
        return after(tuple(self.keys), prefix)

    def values_after(self, prefix: bytes) -> Sequence[bytes] | None:
        """Return the values without a prefix; None if a value does not begin with it."""
        return after(tuple(self.values), prefix)

    def has_header(self, name: str) -> bool:
        """Return whether a record has a header of this name."""
        return any(header.key == name for headers in self.headers for header in headers)

    def pick(self, positions: Sequence[int]) -> Columns:
        """Return only the records at these positions."""
        return Columns(
            len(positions),
            _pick(self.timestamps, positions),
            _pick(self.keys, positions),
            _pick(self.values, positions),
            _pick(self.headers, positions),
        )


def columns_of(records: Sequence[Record]) -> Columns:
    """Return records as columns."""
    return Columns(
        len(records),
        [record.timestamp for record in records],
        [record.key for record in records],
        [record.value for record in records],
        [tuple(map(Header._make, record.headers)) for record in records],
    )


RecordColumns = Columns | StoredColumns


def halves(
    records: RecordColumns,
) -> tuple[tuple[int, RecordColumns], tuple[int, RecordColumns]]:
    """Return the two halves of two or more records, each with its first position."""
    middle = records.count // 2
    return (
        (0, records.pick(range(middle))),
        (middle, records.pick(range(middle, records.count))),
    )


def as_records(records: RecordColumns) -> Iterator[Record]:
    """Return the records as policies of KIP-686 see them."""
    fields = zip(records.timestamps, records.keys, records.values, records.headers, strict=False)
    return map(tuple.__new__, repeat(Record, records.count), fields)


def as_proxies(records: RecordColumns, hints: RecordIntrospectionHints) -> Iterator[RecordProxy]:
    """Return the records for policies of KIP-940: only the fields that the hints request."""
    count = records.count
    headers: Iterable[object] = records.headers if hints.access_headers else repeat((), count)
    keys = starts(records.keys, hints.access_key_bytes, count)
    values = starts(records.values, hints.access_value_bytes, count)
    fields = zip(headers, keys, values, strict=False)
    return map(tuple.__new__, repeat(RecordProxy, count), fields)


def starts(fields: Iterable[bytes | None], length: int, count: int) -> Iterable[bytes | None]:
    """Cut each field to the hinted length; None where that is 0."""
    if not length:
        return repeat(None, count)
    if length >= MAX_LENGTH:
        return fields
    return (None if field is None else field[:length] for field in fields)


def put_in(
    contents: tuple[Iterable[bytes | None], Iterable[bytes | None]],
    positions: Sequence[int],
    replacements: KeysAndValues,
) -> KeysAndValues:
    """Return all keys and values of some records, with those at some positions replaced."""
    keys, values = map(list, contents)
    for position, key, value in zip(positions, *replacements, strict=True):
        keys[position], values[position] = key, value
    return keys, values


def _pick(column: Iterable[T], positions: Sequence[int]) -> Sequence[T]:
    items = column if isinstance(column, (list, tuple)) else list(column)
    if len(positions) == 1:
        return [items[positions[0]]]
    return itemgetter(*positions)(items) if positions else ()
