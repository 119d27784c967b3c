"""Places in topics, in the words of Spark's Kafka source, and the offsets that they mean."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError
from penstock.kafka.cluster.ranges import Partition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.kafka.cluster.offsets import Cluster, Topic

_LATEST, _EARLIEST = -1, -2
STRATEGY: Final = "startingOffsetsByTimestampStrategy"
_DIGITS_MAX: Final = 18
"""All numbers of so many digits have 64 bits."""


@dataclass(frozen=True)
class OffsetBound:
    """A place in each partition of some topics.

    Attributes:
        option: What it was given as, for errors.
        word: -2 for the beginning and -1 for the end of all partitions, or None.
        timestamp_ms: The time of the first record, or None.
        needs_record: Whether a partition without a record since that time is an error.
        offsets: An offset for each partition, with -2 and -1 as for `word`.
    """

    option: str
    word: int | None = None
    timestamp_ms: int | None = None
    needs_record: bool = False
    offsets: Mapping[Partition, int] = field(default_factory=dict)


EARLIEST: Final = OffsetBound("earliest", _EARLIEST)
LATEST: Final = OffsetBound("latest", _LATEST)


def parse_timestamp(text: str, *, key: str, needs_record: bool = False) -> OffsetBound:
    """Read a time in ms since the epoch.

    Args:
        needs_record: See `OffsetBound`.

    Raises:
        ConfigurationError: It is not valid.
    """
    if not text.strip().isdecimal() or len(text.strip()) > _DIGITS_MAX:
        raise ConfigurationError(f"{key} {text}: milliseconds since 1970")
    return OffsetBound(key, timestamp_ms=int(text), needs_record=needs_record)


def parse_offsets(text: str, *, key: str) -> OffsetBound:
    """Read offsets such as `{"orders": {"0": 23, "1": -2}}`.

    Raises:
        ConfigurationError: They are not valid.
    """
    try:
        offsets = dict(_pairs(json.loads(text)))
    except (ValueError, AttributeError, TypeError):
        offsets = {}
    if not offsets or any(offset < _EARLIEST for offset in offsets.values()):
        raise ConfigurationError(
            f'{key} {text}: earliest, latest, or an offset for each partition such as {{"orders": '
            '{"0": 23, "1": -2}}, where -2 is its beginning and -1 its end'
        )
    return OffsetBound(key, offsets=offsets)


def _pairs(offsets_by_topic: Any) -> Iterator[tuple[Partition, int]]:
    for topic, partitions in offsets_by_topic.items():
        for number, offset in partitions.items():
            if not isinstance(offset, int) or isinstance(offset, bool):
                raise TypeError
            yield Partition(topic, int(number)), offset


def check_batch(start: OffsetBound, end: OffsetBound) -> None:
    """Check that a batch does not start at the end, or end at the beginning, of a partition.

    Raises:
        ConfigurationError: It does, and so would have no records; a stream may.
    """
    for place, other, option, wrong in (
        (start, _LATEST, "startingOffsets", "latest (-1): a batch has no records after the end"),
        (end, _EARLIEST, "endingOffsets", "earliest (-2): a batch has no records before the start"),
    ):
        if other in (place.word, *place.offsets.values()):
            raise ConfigurationError(f"{option} {wrong}")


def check_order(
    place: OffsetBound, starts: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> None:
    """Check that no partition ends before the place where it was to start.

    Raises:
        ConfigurationError: One does.
    """
    for partition, start in starts.items():
        if place.word is None and start > ends[partition]:
            raise ConfigurationError(
                f"{place.option}: {partition} starts at offset {start}, after its end "
                f"{ends[partition]}"
            )


def find_offsets(
    cluster: Cluster, topics: Sequence[Topic], place: OffsetBound
) -> dict[Partition, int]:
    """Return the offset that a place means in each partition of topics.

    A time after the last record means the end, unless a record is needed.

    Raises:
        ConfigurationError: A partition has no offset in it, or an offset behind its end, or no
            record that is needed, or there is no such partition.
        ClusterError: The cluster does not answer.
    """
    if place.word is not None:
        of_all = cluster.end_offsets if place.word == _LATEST else cluster.first_offsets
        return of_all(topics)
    ends = cluster.end_offsets(topics)
    if place.timestamp_ms is not None:
        time_offsets = cluster.offsets_since(topics, place.timestamp_ms)
        if place.needs_record:
            _check_records(place, time_offsets)
        return {
            partition: ends[partition]
            if time_offsets[partition] < 0
            else min(time_offsets[partition], ends[partition])
            for partition in ends
        }
    _check_partitions(place, ends)
    first = cluster.first_offsets(topics) if _EARLIEST in place.offsets.values() else {}
    return {
        partition: {_LATEST: ends[partition], _EARLIEST: first.get(partition, 0)}.get(
            offset, offset
        )
        for partition, offset in place.offsets.items()
    }


def _check_records(place: OffsetBound, time_offsets: Mapping[Partition, int]) -> None:
    for partition, offset in time_offsets.items():
        if offset < 0:
            raise ConfigurationError(
                f"{place.option} {place.timestamp_ms}: {partition} has no record since then; with "
                f"{STRATEGY} latest, these partitions start at their end"
            )


def _check_partitions(place: OffsetBound, ends: Mapping[Partition, int]) -> None:
    for partition in place.offsets.keys() ^ ends.keys():
        problem = "is left out" if partition in ends else "is not there, or not subscribed"
        raise ConfigurationError(f"{place.option}: {partition} {problem}")
    for partition, offset in place.offsets.items():
        if offset > ends[partition]:
            raise ConfigurationError(
                f"{place.option}: {partition} ends at offset {ends[partition]}, before {offset}"
            )
