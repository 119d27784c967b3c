"""`split` and `redact` from topics to topics, each record once; `redrive` takes parts of it.

The commands and the functions of `penstock.spark` run these::

    written = write_topics(
        there, job, lambda: runner, topics, ranges, plan, what="splitting in", warn=print
    )
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.configuration.globs import is_glob
from penstock.jobs.positions import (
    OffsetsDone,
    claims,
    done_before,
    from_positions,
    job_id,
    known_positions,
    lost_place,
    run_id,
    run_mark,
    was_kept,
)
from penstock.jobs.tasks.writing import write_raw
from penstock.jobs.tasks.writing_task import ACCEPTED, WritingTask
from penstock.jobs.tasks.written_before import find_written
from penstock.kafka.cluster import topic_names
from penstock.kafka.cluster.offsets import Topic
from penstock.kafka.wire.names import NO_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.positions import KnownPositions
    from penstock.jobs.report.counts import RecordCounts
    from penstock.jobs.runner import Runner
    from penstock.jobs.tasks.writing_task import WritingResult
    from penstock.jobs.topics.stored_topics import StoredTopics
    from penstock.kafka.cluster.places import Places
    from penstock.kafka.cluster.ranges import OffsetRange


class ShowPhase(Protocol):
    """Shows the work inside a `with` block, as `penstock.progress.Progress.phase`."""

    def __call__(
        self, what: str, counter: Callable[[], int] | None = None, total: int | None = None
    ) -> AbstractContextManager[None]:
        """See `Progress.phase`."""


def not_shown(
    what: str,  # noqa: ARG001 - as in `ShowPhase`
    counter: Callable[[], int] | None = None,  # noqa: ARG001
    total: int | None = None,  # noqa: ARG001
) -> AbstractContextManager[None]:
    """Show nothing."""
    return contextlib.nullcontext()


@dataclass(frozen=True)
class WritingJob:
    """Which job writes records of topics to topics.

    Attributes:
        command: Such as `split`.
        source: The topics that are read: names and globs, separated by commas.
        targets: The topics that are written to, by the names of
            `penstock.jobs.tasks.writing_task`.
        start: Where it begins, as in `--from`.
        end: Where it ends, as in `--to`.
        name: The name of its place; None to make it of the topics and `start`.
        again: Begin at `start` again, regardless of the progress of the job.
    """

    command: str
    source: str
    targets: Mapping[str, str]
    start: str = "earliest"
    end: str = "latest"
    name: str | None = None
    again: bool = False


class WritingRun(NamedTuple):
    """What a run of a job did.

    Attributes:
        counts: What it counted.
        done_before: Offsets of the range that earlier runs of the job had done.
        job: The id of the job.
    """

    counts: RecordCounts
    done_before: int
    job: str


def write_topics(
    there: StoredTopics,
    job: WritingJob,
    runner: Callable[[], Runner],
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
    plan: RecordPlan,
    *,
    what: str,
    shown: ShowPhase = not_shown,
    note: Callable[[str], None] = lambda _: None,
    warn: Callable[[str], None],
) -> WritingRun:
    """Judge the records of topics and write them.

    Args:
        runner: Returns the runner of tasks; called when it is known that the job can run.
        topics: The topics to read.
        what: The work, such as `splitting orders`.
        note: Called with what a user has to know before records are written.
        warn: Called if topics that earlier runs have read may not be described now.

    Raises:
        ConfigurationError: Another command has used the id of the job.
        LostPlaceError: The target has records of the source, and the progress of the job is
            unknown.
        TruncatedError: A log ends before the job's position.
        ClientError: The cluster cannot be reached in time, or refuses.
    """
    name = id_of(there, job, topics)
    places = there.places()
    read_earlier = places.topics_of(name)
    there.warn_of_hidden(job.source, read_earlier, topics, job.targets.values(), warn)
    progress = known_job(there, job, topics, name, places, note=note)
    remaining_ranges = ranges if job.again else _begun(job, ranges, progress)
    work = writing_task(there, job, topics, remaining_ranges, plan, name, progress)
    task_runner = runner()
    if job.again:
        _begin_again(task_runner, ranges, work, shown)
        note(f"job {name}: begins again; if it is interrupted, go on without --again")
    result = write_ranges(there, task_runner, topics, remaining_ranges, work, what, shown)
    return WritingRun(result.counts, result.before + done_before(ranges, remaining_ranges), name)


def id_of(there: StoredTopics, job: WritingJob, topics: Sequence[Topic]) -> str:
    """Return the id of a job: the given id, or an id made of the topics and the start.

    For globs, it is made of the globs: other topics may be added, and finished work
    must not be done again.

    Args:
        topics: The topics to read.
    """
    if job.name is not None:
        return job.name
    names = topic_names.parse(job.source)
    if any(map(is_glob, names)):
        topics = [Topic(name, NO_ID, ()) for name in names]
    targets = [there.cluster.topic(name) for name in job.targets.values()]
    return job_id(job.command, topics, targets, job.start)


def known_job(
    there: StoredTopics,
    job: WritingJob,
    topics: Sequence[Topic],
    name: str,
    places: Places,
    *,
    note: Callable[[str], None] = lambda _: None,
) -> KnownPositions:
    """Return how far a job has come, and check that its place was not lost.

    Args:
        topics: The topics to read.
        name: The id of the job.
        places: From `StoredTopics.places`.
        note: Called with what a user has to know: that the target has other records.

    Raises:
        LostPlaceError: The target has records of the source, and the progress of the job is
            unknown.
    """
    progress = known_in(there, topics, name, places)
    if progress or job.again or job.start == "latest":
        return progress
    mark = run_mark(job.command, list(job.targets.values()))
    if was_kept(places, [topic.name for topic in topics], mark):
        return progress
    # Dead letters of many topics, and of gateways, are often in one topic: they prove nothing.
    accepted = job.targets[ACCEPTED]
    if there.has_records(accepted):
        ranges, rewritten = there.cluster.ranges(topics, job.start), job.command == "redact"
        source_partition = find_written(
            there.access.connect(),
            there.cluster,
            ranges,
            there.cluster.topic(accepted),
            rewritten=rewritten,
        )
        if source_partition is not None:
            raise lost_place(name, accepted, source_partition, places)
        note(f"job {name} begins at {job.start}; {accepted} holds records of others already")
    return progress


def known_in(
    there: StoredTopics, topics: Sequence[Topic], name: str, places: Places
) -> KnownPositions:
    """Return how far a job has come in topics; the arguments are those of `known_job`."""
    ids = {topic.name: topic.topic_id for topic in topics}
    partitions = [partition for topic in topics for partition in topic.all_partitions]
    return known_positions(there.access.connect(), name, ids, partitions, places)


def writing_task(
    there: StoredTopics,
    job: WritingJob,
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
    plan: RecordPlan,
    name: str,
    progress: KnownPositions,
) -> WritingTask:
    """Return the work of tasks.

    Args:
        topics: The topics to read.
        name: The id of the job.
        progress: How far it has come.

    Raises:
        ConfigurationError: Another command has used the id of the job.
    """
    run = run_id(job.command, list(job.targets.values()))
    return WritingTask(
        there.access,
        plan,
        {topic.name: topic.topic_id for topic in topics},
        {side: there.target(topic) for side, topic in job.targets.items()},
        name,
        run,
        claims(name, run, ranges, progress, again=job.again),
        places=there.places_topic,
    )


def write_ranges(
    there: StoredTopics,
    runner: Runner,
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
    work: WritingTask,
    what: str,
    shown: ShowPhase,
) -> WritingResult:
    """Run the tasks, and show how far they have come.

    Args:
        runner: Runs tasks.
        topics: The topics to read.
        what: The work, in words.
    """
    offsets_done = OffsetsDone(work.access.connect(), work.job, ranges, work.claims)
    with shown(what, offsets_done, sum(offset_range.offsets for offset_range in ranges)):
        return write_raw(runner, ranges, work, sizes=there.sizes(topics))


def _begin_again(
    runner: Runner,
    ranges: Sequence[OffsetRange],
    work: WritingTask,
    shown: ShowPhase,
) -> None:
    """Commit where all ranges start, before records are written: an interrupted run continues.

    Each is an empty range, at whose start the claim of this run is committed.
    """
    starts = [offset_range._replace(end=offset_range.start) for offset_range in ranges]
    with shown(f"job {work.job}: going back to the start"):
        write_raw(runner, (), work, empty_ranges=starts)


def _begun(
    job: WritingJob, ranges: Sequence[OffsetRange], progress: KnownPositions
) -> Sequence[OffsetRange]:
    goes_back = job.name is None or job.start in {"earliest", "latest"}
    to_end = goes_back and job.end == "latest"
    return from_positions(ranges, progress, goes_back=goes_back, to_end=to_end)
