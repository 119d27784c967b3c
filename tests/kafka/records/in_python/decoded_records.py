"""The columns of records that were decoded in Python, and batches that are written of them."""

from __future__ import annotations

from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.kafka.records.builder import build
from penstock.kafka.records.prefixes import after
from penstock.policy.records import Header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.kafka.records.stored import KeysAndValues

_offset = attrgetter("offset")
_key = attrgetter("key")
_value = attrgetter("value")
_timestamp = attrgetter("timestamp")


class OddRecord(NamedTuple):
    """A record that aiokafka does not read; attributes as of `DefaultRecord`."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class DecodedRecords:
    """Implements `penstock.kafka.records.stored.StoredRecords`."""

    keys_arrow = values_arrow = None

    def __init__(
        self,
        records: list[Any],
        base_timestamp: int,
        log_append_time: int | None = None,
        *,
        any_header_keys: bool = False,
    ) -> None:
        """Take decoded records.

        Args:
            records: With the attributes of `DefaultRecord`.
            base_timestamp: What their timestamps are relative to.
            log_append_time: The timestamp of each, where the broker set it.
            any_header_keys: Whether bytes of header keys may be surrogates.
        """
        self._records = records
        self._base_timestamp = base_timestamp
        self._log_append_time = log_append_time
        self._any_header_keys = any_header_keys

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
        if self._any_header_keys:
            return tuple(
                tuple(Header(_text(key), value) for key, value in record.headers)
                for record in self._records
            )
        return tuple(map(_headers, self._records))

    def keys_after(self, prefix: bytes) -> Sequence[bytes] | None:
        """Return the rest of every key after a prefix; see `StoredRecords`."""
        return after(self.keys, prefix)

    def values_after(self, prefix: bytes) -> Sequence[bytes] | None:
        """Return the rest of every value after a prefix; see `StoredRecords`."""
        return after(self.values, prefix)

    def has_header(self, name: str) -> bool:
        """Return whether a record has a header of this name; see `StoredRecords`."""
        return any(header.key == name for headers in self.headers for header in headers)

    @cached_property
    def timestamps(self) -> Sequence[int]:
        if self._log_append_time is not None:
            return (self._log_append_time,) * len(self._records)
        return tuple(map(_timestamp, self._records))

    def offsets(self, base_offset: int) -> Sequence[int]:
        """Return the offsets; see `StoredRecords`."""
        deltas = tuple(map(_offset, self._records))
        first, last = (deltas[0], deltas[-1]) if deltas else (0, -1)
        if last - first + 1 == len(deltas):
            return range(base_offset + first, base_offset + last + 1)
        return tuple(base_offset + delta for delta in deltas)

    def part(self, start: int, end: int) -> DecodedRecords:
        """Return consecutive records; see `StoredRecords`."""
        if not 0 <= start <= end <= len(self._records):
            raise IndexError("no such records")
        return DecodedRecords(
            self._records[start:end],
            self._base_timestamp,
            self._log_append_time,
            any_header_keys=self._any_header_keys,
        )

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
        section = self._build(timestamps, keys, values, headers, base=self._base_timestamp)
        return section, max(timestamps)

    def cut(
        self,
        kept: Sequence[int],
        replaced: KeysAndValues | None,
        appended: Sequence[Sequence[tuple[str, bytes | None]]] | None,
        without: Sequence[str],
        retimed: bool,
        first: int = 0,
        shift: int = 0,
    ) -> tuple[bytes, int]:
        """Write some of the records as a producer's; see `StoredRecords`."""
        some = [self._records[position] for position in kept]
        timestamps = [record.timestamp for record in some]
        keys, values = list(map(_key, some)), list(map(_value, some))
        if replaced is not None:
            keys, values = ([column[position] for position in kept] for column in replaced)
        headers = [record.headers for record in some]
        if without:
            prefixes = tuple(without)
            headers = [
                [header for header in own if not header[0].startswith(prefixes)] for own in headers
            ]
        if appended is not None:
            headers = [[*own, *more] for own, more in zip(headers, appended, strict=True)]
        written = [self._base_timestamp] * len(some) if retimed else timestamps
        base = self._base_timestamp - shift
        section = self._build(written, keys, values, headers, base=base, first=first)
        return section, max(timestamps)

    def _build(
        self,
        timestamps: Sequence[int],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[Sequence[tuple[str, bytes | None]]],
        *,
        base: int,
        first: int = 0,
    ) -> bytes:
        return build(
            base,
            timestamps,
            keys,
            values,
            headers,
            first=first,
            any_header_keys=self._any_header_keys,
        )


def _headers(record: Any) -> tuple[Header, ...]:
    headers = record.headers
    return tuple(map(Header._make, headers)) if headers else ()


def _text(key: str) -> str:
    """Return a header's key as Java's consumer reads it, too."""
    return key.encode(errors="surrogateescape").decode(errors="replace")
