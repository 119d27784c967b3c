"""Runs `split`, `redact` and `redrive` from topics to topics on raw batches, each record once."""

from __future__ import annotations

import hashlib
import time
import uuid
from typing import TYPE_CHECKING, Final

from penstock.batch_jobs.counts import TaskCounts
from penstock.client.errors import ClientError
from penstock.client.positions import Claim, read_last_positions, read_positions, short_id
from penstock.client.positions import Task as PositionTask
from penstock.cluster.ranges import numbers_by_topic
from penstock.configuration import ConfigurationError
from penstock.spark.task_runner import run_tasks
from penstock.stored.retention import log_was_cut
from penstock.stored.tasks import Task, plan_tasks
from penstock.stored.writing_task import WritingResult, WritingTask, merged
from penstock.wire.errors import WireError
from penstock.wire.names import NO_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import SparkSession

    from penstock.client.connection import Connection
    from penstock.cluster.offsets import Topic
    from penstock.cluster.ranges import OffsetRange
    from penstock.stored.tasks import Sizes

_ASKED_EVERY_S: Final = 1.0
_MARK: Final = "."
"""In the id of a run, before what tells the runs of other commands apart."""


def write_raw(
    spark: SparkSession,
    ranges: Sequence[OffsetRange],
    work: WritingTask,
    *,
    cores: int,
    sizes: Sizes | None = None,
    kept: Sequence[OffsetRange] = (),
    at_once: bool = False,
) -> WritingResult:
    """Judge the records of topics and write each to its target, in the order of partitions.

    Args:
        spark: The session.
        ranges: What is read, one range of each partition; what an earlier run of the same job has
            done of it is left out.
        work: What is done.
        cores: How many tasks run at a time.
        sizes: How large the records are, as far as that is known.
        kept: Empty ranges at positions that are committed again; of a stream.
        at_once: See `plan_tasks`.
    """
    tasks = plan_tasks(ranges, cores=cores, sizes=sizes, ordered=True, at_once=at_once)
    shares = (tuple(kept[number::cores]) for number in range(cores))
    tasks += tuple(Task(share) for share in shares if share)
    found = run_tasks(spark, tasks, work, merged)
    return WritingResult(TaskCounts(), 0) if found is None else WritingResult.decode(found)


def job_id(command: str, sources: Iterable[Topic], targets: Iterable[Topic], start: str) -> str:
    """Return the id of a job: the same for the same topics, of the same ids, and the same start.

    Args:
        command: Such as `split`.
        sources: What is read.
        targets: What is written to.
        start: The value of `--from`.
    """
    sides = (sorted(map(_identity, sources)), list(map(_identity, targets)), [start])
    return f"{command}-{_digest(','.join(side) for side in sides)[:16]}"


def run_id(command: str, targets: Iterable[str]) -> str:
    """Return a new id of a run; it tells runs apart that do not belong to one job.

    Args:
        command: Such as `split`.
        targets: The names of the topics that are written to.
    """
    return f"{uuid.uuid4().hex}{_MARK}{_digest([command, *targets])[:8]}"


def check_runs(job: str, run: str, earlier: Iterable[str]) -> None:
    """Check that earlier runs of a job did the same as one that begins.

    Args:
        job: The id of the job.
        run: The id of the run, from `run_id`.
        earlier: The ids of the runs that have positions of the job.

    Raises:
        ConfigurationError: One was of another command, or wrote to other topics.
    """
    mark = run.partition(_MARK)[2]
    if any(_MARK in one and one.partition(_MARK)[2] != mark for one in earlier):
        raise ConfigurationError(
            f"--job {job}: another command, or one with other targets, has used this id, and what "
            "it has done would be left out; name another"
        )


def claims(
    connection: Connection, job: str, run: str, ranges: Iterable[OffsetRange]
) -> dict[tuple[str, int], Claim]:
    """Return the claims of a run that begins, by topic and partition.

    Args:
        connection: To the cluster.
        job: The id of the job.
        run: The id of the run.
        ranges: What it reads.

    Raises:
        ConfigurationError: Another command has used the id of the job.
        ClientError: The cluster does not respond in time, or denies it.
    """
    starts = {one.of: one.start for one in ranges}
    wanted = numbers_by_topic(starts)
    found = read_last_positions(connection, group_of(job), wanted) if wanted else {}
    seen = frozenset(position.run for position in found.values())
    check_runs(job, run, seen)
    return {one: Claim(run, seen, start) for one, start in starts.items()}


def from_positions(
    connection: Connection, job: str, ranges: Sequence[OffsetRange], *, to_end: bool
) -> tuple[OffsetRange, ...]:
    """Return ranges that begin where the job has come to, if that is before their start.

    So what was removed after an earlier run is found missing, and what comes after one that began
    at the end is read.

    Args:
        connection: To the cluster.
        job: The id of the job.
        ranges: One of each partition, as `--from` says.
        to_end: Whether they end where the logs do.

    Raises:
        TruncatedError: A log ends before the job's position: what was written there since would
            be left out.
        ClientError: The cluster does not respond in time, or denies it.
    """
    wanted = numbers_by_topic(one.of for one in ranges)
    found = read_last_positions(connection, group_of(job), wanted) if wanted else {}
    begun = []
    for one in ranges:
        position = found.get((one.topic, one.partition))
        if position is not None and to_end and position.offset > one.end:
            raise log_was_cut(one.of, one.end, position.offset)
        begun.append(
            one if position is None else one._replace(start=min(one.start, position.offset))
        )
    return tuple(begun)


class OffsetsDone:
    """Counts the offsets that a job has done, by its committed positions, while it runs."""

    def __init__(self, connection: Connection, job: str, ranges: Sequence[OffsetRange]) -> None:
        """Start.

        Args:
            connection: To the cluster.
            job: The id of the job.
            ranges: What it reads.
        """
        self._connection = connection
        self._ranges = ranges
        self._group = group_of(job)
        self._partitions = numbers_by_topic(one.of for one in ranges)
        self._next = time.monotonic()
        self._done = 0

    def __call__(self) -> int:
        """Return how many they are; as many as before where the cluster does not say."""
        now = time.monotonic()
        if now < self._next or not self._partitions:
            return self._done
        self._next = now + _ASKED_EVERY_S
        try:
            found = read_positions(self._connection, self._group, self._partitions)
        except (ClientError, WireError):
            return self._done
        done = 0
        for one in self._ranges:
            position = found.get((one.topic, one.partition))
            if position is not None:
                done += min(max(position.offset - one.start, 0), one.offsets)
        self._done = done
        return done


def group_of(job: str) -> str:
    """Return the group that has the positions of a job."""
    return PositionTask(job, "", NO_ID, 0).group


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _identity(topic: Topic) -> str:
    return f"{topic.name}:{short_id(topic.topic_id)}"
