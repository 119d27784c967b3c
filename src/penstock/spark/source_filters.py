"""Filters of a query that bound what is read: on topic, partition, offset and timestamp.

Spark evaluates every filter again over the rows that are read; here they only leave out what cannot
match. Timestamps bound where reading starts: the first offset of a partition with a record as late
has none before it. They bound no end: a later record can be older.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.cluster.ranges import OffsetRange, Partition

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MS: Final = dt.timedelta(milliseconds=1)
_NO_END: Final = 2**63 - 1
_EQUAL: Final = frozenset({"EqualTo", "EqualNullSafe"})


@dataclass(frozen=True)
class Bounds:
    """What can match.

    Attributes:
        topics: The topics; None for all.
        partitions: The numbers of partitions; None for all.
        first: The first offset.
        end: The offset after the last.
        since_ms: The time before which nothing matches; None for none.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int = 0
    end: int = _NO_END
    since_ms: int | None = None

    @classmethod
    def of(cls, filters: Iterable[Any]) -> Bounds:
        """Return the bounds that filters of PySpark mean, all of which have to match."""
        found: Bounds = cls()
        for one in filters:
            column = ".".join(getattr(one, "attribute", ()))
            bound = _BOUNDS.get(column)
            value = getattr(one, "value", None)
            if bound is not None and value is not None:
                found = bound(found, type(one).__name__, value)
        return found

    def ranges(
        self, given: Iterable[OffsetRange], since: Mapping[Partition, int]
    ) -> Iterator[OffsetRange]:
        """Return what of ranges can match.

        Args:
            given: The ranges.
            since: With `since_ms`: the first offset of each partition with a record as late.
        """
        for one in given:
            if self.topics is not None and one.topic not in self.topics:
                continue
            if self.partitions is not None and one.partition not in self.partitions:
                continue
            start = max(one.start, self.first, since.get(one.of, 0))
            end = min(one.end, self.end)
            if start < end:
                yield one._replace(start=start, end=end)


def _topics(bounds: Bounds, kind: str, value: Any) -> Bounds:
    given = _values(kind, value)
    return bounds if given is None else replace(bounds, topics=_both(bounds.topics, given))


def _partitions(bounds: Bounds, kind: str, value: Any) -> Bounds:
    given = _values(kind, value)
    return bounds if given is None else replace(bounds, partitions=_both(bounds.partitions, given))


def _offsets(bounds: Bounds, kind: str, value: Any) -> Bounds:
    numbers = [one for one in (_values(kind, value) or (value,)) if one is not None]
    if not numbers or not all(isinstance(one, int) for one in numbers):
        return bounds
    first, end = {
        "GreaterThan": (numbers[0] + 1, _NO_END),
        "GreaterThanOrEqual": (numbers[0], _NO_END),
        "LessThan": (0, numbers[0]),
        "LessThanOrEqual": (0, numbers[0] + 1),
        "EqualTo": (numbers[0], numbers[0] + 1),
        "EqualNullSafe": (numbers[0], numbers[0] + 1),
        "In": (min(numbers), max(numbers) + 1),
    }.get(kind, (0, _NO_END))
    return replace(bounds, first=max(bounds.first, first), end=min(bounds.end, end))


def _times(bounds: Bounds, kind: str, value: Any) -> Bounds:
    is_lower = kind in _EQUAL or kind.startswith("Greater")
    if not is_lower or not isinstance(value, dt.datetime) or value.tzinfo is None:
        return bounds
    since = (value - _EPOCH) // _MS
    return replace(bounds, since_ms=max(since, bounds.since_ms or 0, 0))


def _values(kind: str, value: Any) -> frozenset[Any] | None:
    if kind in _EQUAL:
        return frozenset((value,))
    return frozenset(value) if kind == "In" else None


def _both(one: frozenset[Any] | None, other: frozenset[Any]) -> frozenset[Any]:
    return other if one is None else one & other


_BOUNDS: Final = {
    "topic": _topics,
    "partition": _partitions,
    "offset": _offsets,
    "timestamp": _times,
}
