"""Jobs that write topics: their ids, how far they have come, and whose tasks are whose.

The progress of a job is kept as the committed offsets of its group, in the transactions of its
records, and in a compacted topic (`penstock.kafka.cluster.places`), in the same transactions:
brokers remove the committed offsets of a group without members after some days.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration import ConfigurationError
from penstock.jobs.tasks.retention import log_was_cut
from penstock.kafka.client.errors import ClientError
from penstock.kafka.client.partitions import numbers_by_topic
from penstock.kafka.client.positions import (
    Claim,
    Position,
    PositionTask,
    read_last_positions,
    read_positions,
    short_id,
)
from penstock.kafka.cluster.places import LostPlaceError
from penstock.kafka.cluster.ranges import Partition
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.names import NO_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.cluster.offsets import Topic
    from penstock.kafka.cluster.places import Places
    from penstock.kafka.cluster.ranges import OffsetRange

_REQUESTED_EVERY_S: Final = 1.0
_MARK: Final = "."
"""In the id of a run, before the part that distinguishes the runs of other commands."""


class KnownPositions(NamedTuple):
    """The progress of a job in partitions, by the ranges that are left.

    Attributes:
        positions: The committed offsets.
        places: The places of partitions whose committed offsets have been removed.
    """

    positions: Mapping[Partition, Position]
    places: Mapping[Partition, Position]

    @property
    def runs(self) -> frozenset[str]:
        """The ids of the runs that came so far."""
        return frozenset(
            position.run for position in (*self.positions.values(), *self.places.values())
        )

    def __bool__(self) -> bool:
        """Return whether anything is known."""
        return bool(self.positions or self.places)


def job_id(command: str, sources: Iterable[Topic], targets: Iterable[Topic], start: str) -> str:
    """Return the id of a job: the same for the same topics, of the same ids, and the same start.

    Args:
        command: The command, such as `split`.
        sources: The topics to read.
        targets: The topics to write to.
        start: The value of `--from`.
    """
    sides = (sorted(map(_identity, sources)), list(map(_identity, targets)), [start])
    return f"{command}-{_digest(','.join(side) for side in sides)[:16]}"


def run_id(command: str, targets: Iterable[str]) -> str:
    """Return a new id of a run, by which runs of different jobs are distinguished.

    Args:
        command: Such as `split`.
        targets: The names of the topics that are written to.
    """
    return f"{uuid.uuid4().hex}{run_mark(command, targets)}"


def run_mark(command: str, targets: Iterable[str]) -> str:
    """Return the end of the ids of the runs of a command with the same targets."""
    return f"{_MARK}{_digest([command, *targets])[:8]}"


def check_runs(job: str, run: str, earlier: Iterable[str]) -> None:
    """Check that earlier runs of a job did the same as a run that begins.

    Args:
        job: The id of the job.
        run: The id of the run, from `run_id`.
        earlier: The ids of the runs that have positions of the job.

    Raises:
        ConfigurationError: One was of another command, or wrote to other topics.
    """
    mark = run.partition(_MARK)[2]
    if any(_MARK in name and name.partition(_MARK)[2] != mark for name in earlier):
        raise ConfigurationError(
            f"--job {job}: another command, or this command with other targets, has used this "
            "id, and its records would be left out; use another id"
        )


def known_positions(
    connection: Connection,
    job: str,
    topic_ids: Mapping[str, UUID],
    partitions: Iterable[Partition],
    places: Places,
) -> KnownPositions:
    """Return how far a job has come.

    Args:
        connection: To the cluster.
        job: The id of the job.
        topic_ids: The ids of the topics, by name.
        partitions: The partitions of the topics.
        places: From `penstock.kafka.cluster.places.read_places`.

    Raises:
        LostPlaceError: A place cannot be read.
        ClientError: The cluster does not respond in time, or denies it.
    """
    partitions = tuple(partitions)
    numbers = numbers_by_topic(partitions)
    positions = read_last_positions(connection, group_of(job), numbers) if numbers else {}
    committed = {Partition(*partition): position for partition, position in positions.items()}
    return KnownPositions(
        committed, placed(job, topic_ids, set(partitions) - committed.keys(), places)
    )


def placed(
    job: str, topic_ids: Mapping[str, UUID], partitions: Iterable[Partition], places: Places
) -> dict[Partition, Position]:
    """Return the places of a job in partitions; without those that have none.

    Args:
        job: The id of the job.
        topic_ids: The ids of the topics, by name.
        partitions: The partitions of the topics.
        places: The existing places.

    Raises:
        LostPlaceError: One cannot be read.
    """
    positions = {
        partition: places.find(
            PositionTask(job, partition.topic, topic_ids[partition.topic], partition.number)
        )
        for partition in partitions
    }
    return {
        partition: position for partition, position in positions.items() if position is not None
    }


def was_kept(places: Places, topics: Iterable[str], mark: str) -> bool:
    """Return whether a job on some topics, or with some targets, has a place.

    Then places were kept when records were written, and a job that has none has not begun.

    Args:
        places: The existing places.
        topics: The names of the topics to read.
        mark: From `run_mark`.
    """
    return any(map(places.has_topic, topics)) or places.has_run(mark)


def lost_place(job: str, target: str, partition: Partition, places: Places) -> LostPlaceError:
    """Return the error for a job that has written before, and whose place was lost.

    Args:
        job: The id of the job.
        target: The topic to write to.
        partition: A partition of the source whose records it has.
        places: The existing places.
    """
    group = group_of(job)
    return LostPlaceError(
        f"{target}: the first records of {partition} are there already, and nothing says how far "
        f"job {job} has come: neither committed offsets of the group {group}, nor a place in "
        f"{places.topic}. To write everything once more, add --again. To go on, set for each "
        f"partition where: kafka-consumer-groups --group {group} --topic "
        f"{partition.topic}:PARTITION --reset-offsets --to-offset OFFSET --execute"
    )


def claims(
    job: str,
    run: str,
    ranges: Iterable[OffsetRange],
    progress: KnownPositions,
    *,
    again: bool = False,
) -> dict[tuple[str, int], Claim]:
    """Return the claims of a run that begins, by topic and partition.

    Args:
        job: The id of the job.
        run: The id of the run.
        ranges: What it reads.
        progress: How far the job has come.
        again: Begin where the ranges do, wherever the job has come to.

    Raises:
        ConfigurationError: Another command has used the id of the job.
    """
    check_runs(job, run, progress.runs)
    return {
        offset_range.of: Claim(run, progress.runs, offset_range.start, again)
        for offset_range in ranges
    }


def from_positions(
    ranges: Sequence[OffsetRange], progress: KnownPositions, *, goes_back: bool, to_end: bool
) -> tuple[OffsetRange, ...]:
    """Return ranges that begin where the job has come to.

    Before their start, too, if `goes_back`: so records that were removed after an earlier run are
    found missing, and records after an earlier run that began at the end are read. Where offsets
    are committed, each task itself finds the position after the start of its range.

    Args:
        ranges: One of each partition, as in `--from`.
        progress: The progress of the job.
        goes_back: Whether offsets before a range are read that the job has not come to.
        to_end: Whether they end where the logs do.

    Raises:
        TruncatedError: A log ends before the job's position: later records would
            be left out.
    """
    remaining_ranges = []
    for offset_range in ranges:
        committed, place = (
            progress.positions.get(offset_range.of),
            progress.places.get(offset_range.of),
        )
        position = committed or place
        if position is None:
            remaining_ranges.append(offset_range)
            continue
        if to_end and position.offset > offset_range.end:
            raise log_was_cut(offset_range.of, offset_range.end, position.offset)
        first = min(offset_range.start, position.offset) if goes_back else offset_range.start
        if committed is None:
            first = min(max(first, position.offset), max(offset_range.start, offset_range.end))
        remaining_ranges.append(offset_range._replace(start=first))
    return tuple(remaining_ranges)


def done_before(ranges: Iterable[OffsetRange], remaining_ranges: Iterable[OffsetRange]) -> int:
    """Return how many offsets of ranges are left out, as places say that they are done.

    Args:
        ranges: As in `--from`.
        remaining_ranges: From `from_positions`.
    """
    starts = {offset_range.of: offset_range.start for offset_range in remaining_ranges}
    return sum(
        max(min(starts[offset_range.of], offset_range.end) - offset_range.start, 0)
        for offset_range in ranges
    )


class OffsetsDone:
    """Counts the offsets that a job has done, by its committed positions, while it runs."""

    def __init__(
        self,
        connection: Connection,
        job: str,
        ranges: Sequence[OffsetRange],
        claims: Mapping[tuple[str, int], Claim],
    ) -> None:
        """Start.

        Args:
            connection: To the cluster.
            job: The id of the job.
            ranges: What it reads.
            claims: Of the run: where it does all again, others' positions do not count.
        """
        self._connection = connection
        self._claims = claims
        self._ranges = ranges
        self._group = group_of(job)
        self._partitions = numbers_by_topic(offset_range.of for offset_range in ranges)
        self._next = time.monotonic()
        self._offset_count = 0

    def __call__(self) -> int:
        """Return how many they are; as many as before where the cluster does not say."""
        now = time.monotonic()
        if now < self._next or not self._partitions:
            return self._offset_count
        self._next = now + _REQUESTED_EVERY_S
        try:
            positions = read_positions(self._connection, self._group, self._partitions)
        except (ClientError, WireError):
            return self._offset_count
        offset_count = 0
        for offset_range in self._ranges:
            position = positions.get((offset_range.topic, offset_range.partition))
            claim = self._claims.get(offset_range.of)
            if position is None or (claim and claim.again and position.run != claim.run):
                continue
            offset_count += min(max(position.offset - offset_range.start, 0), offset_range.offsets)
        self._offset_count = offset_count
        return offset_count


def group_of(job: str) -> str:
    """Return the group that has the positions of a job."""
    return PositionTask(job, "", NO_ID, 0).group


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _identity(topic: Topic) -> str:
    return f"{topic.name}:{short_id(topic.topic_id)}"
