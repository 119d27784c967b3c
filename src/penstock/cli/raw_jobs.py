"""What `split`, `redact` and `redrive` have in common from topics to topics: raw batches."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from penstock.cli.failures import CommandError, ExitCode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from penstock.batch_jobs.counts import TaskCounts
    from penstock.cli.job import Job
    from penstock.client.places import Places
    from penstock.cluster.offsets import Topic
    from penstock.cluster.ranges import OffsetRange
    from penstock.stored.locations import Location
    from penstock.stored.plan import RecordPlan
    from penstock.stored.positions import Known
    from penstock.stored.writing_task import WritingResult, WritingTask


def add_writing_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how topics are written to."""
    parser.add_argument(
        "--job",
        metavar="ID",
        help="with topics: what the job's place is kept under; the default is made of the topics "
        "and --from, so that the same command goes on where it was interrupted",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="with topics: begin at --from again, and write what earlier runs of the job have "
        "written once more, such as after policies have changed",
    )
    add_transactions_argument(parser)


def add_transactions_argument(parser: argparse.ArgumentParser) -> None:
    """Declare whether the cluster has transactions."""
    parser.add_argument(
        "--transactions",
        choices=("yes", "no"),
        default="yes",
        help="with topics: no for a cluster without transactions, where records can be written "
        "twice after a failure (default yes)",
    )


def is_raw(
    options: argparse.Namespace, topics: Sequence[Topic], targets: Sequence[Location]
) -> bool:
    """Return whether raw batches are read and written: from topics to topics."""
    to_topics = not any(one.is_folder for one in targets)
    return bool(topics) and to_topics and options.reader == "raw"


def write_topics(
    options: argparse.Namespace,
    running: Job,
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
    plan: RecordPlan,
    targets: Mapping[str, Location],
    what: str,
) -> TaskCounts:
    """Judge the records of topics and write them.

    Args:
        options: Of the command.
        running: Its session.
        topics: What is read.
        ranges: What of it.
        plan: The policies.
        targets: By the names of `penstock.stored.writing_task`.
        what: What is being done, such as `splitting orders`.

    Raises:
        CommandError: Records were removed before they were read, and `--strict` was given.
    """
    from penstock.stored.positions import done_before  # noqa: PLC0415

    job = job_of(options, running, topics, targets)
    known = known_job(options, running, topics, targets, job, running.places())
    begun = ranges if options.again else _begun(options, ranges, known)
    work = writing_task(options, running, topics, begun, plan, targets, job, known)
    if options.again:
        _begin_again(running, ranges, work)
    result = write_ranges(running, topics, begun, work, what)
    before = result.before + done_before(ranges, begun)
    if before:
        print(
            f"job {job}: an earlier run has done {before:,} offsets of the range; they are neither "
            "judged nor written again, also where policies have changed since (--again does)"
        )
    _check_removed(result.counts, strict=options.strict)
    return result.counts


def _begin_again(running: Job, ranges: Sequence[OffsetRange], work: WritingTask) -> None:
    """Commit where all ranges start, before anything is written: a run that is interrupted goes on.

    Each is an empty range, at whose start the claim of this run is committed.
    """
    from penstock.stored.positions import begin_again  # noqa: PLC0415
    from penstock.stored.writing import write_raw  # noqa: PLC0415

    if work.transactions:
        starts = [one._replace(end=one.start) for one in ranges]
        with running.progress.phase(f"job {work.job}: going back to the start"):
            write_raw(running.runner, (), work, kept=starts)
    else:
        begin_again(running.access.connect(), work.job, ranges)
    print(f"job {work.job}: begins again; if it is interrupted, go on without --again")


def _begun(
    options: argparse.Namespace, ranges: Sequence[OffsetRange], known: Known
) -> Sequence[OffsetRange]:
    from penstock.stored.positions import from_positions  # noqa: PLC0415

    goes_back = options.job is None or options.start in {"earliest", "latest"}
    to_end = goes_back and getattr(options, "end", "latest") == "latest"
    return from_positions(ranges, known, goes_back=goes_back, to_end=to_end)


def job_of(
    options: argparse.Namespace,
    running: Job,
    topics: Sequence[Topic],
    targets: Mapping[str, Location],
) -> str:
    """Return the id of the job: that of `--job`, or one that is made of topics and `--from`.

    That of topics that globs mean is made of the globs: other topics may come, and what is done
    must not be done again.

    Args:
        options: Of the command.
        running: Its session.
        topics: What is read.
        targets: What is written to.

    Raises:
        ConfigurationError: `--job` cannot be an id.
    """
    from penstock.client.positions import check_job  # noqa: PLC0415
    from penstock.cluster import topic_names  # noqa: PLC0415
    from penstock.cluster.offsets import Topic  # noqa: PLC0415
    from penstock.stored.positions import job_id  # noqa: PLC0415
    from penstock.wire.names import NO_ID  # noqa: PLC0415

    if options.job is not None:
        return check_job(options.job, "--job")
    names = topic_names.parse(options.topic)
    if any(map(topic_names.is_glob, names)):
        topics = [Topic(name, NO_ID, ()) for name in names]
    written = [running.cluster.topic(one.name) for one in targets.values()]
    return job_id(options.command, topics, written, options.start)


def writing_task(
    options: argparse.Namespace,
    running: Job,
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
    plan: RecordPlan,
    targets: Mapping[str, Location],
    job: str,
    known: Known,
) -> WritingTask:
    """Return what tasks do.

    Args:
        options: See `write_topics`, as for all that is not said here.
        running: See there.
        topics: See there.
        ranges: See there.
        plan: See there.
        targets: See there.
        job: The id of the job.
        known: How far it has come.
    """
    from penstock.batch_jobs.targets import Target  # noqa: PLC0415
    from penstock.stored.positions import claims, run_id  # noqa: PLC0415
    from penstock.stored.writing_task import WritingTask  # noqa: PLC0415

    cluster, access = running.cluster, running.access
    run = run_id(options.command, [one.name for one in targets.values()])
    to = {}
    for name, one in targets.items():
        partitions = len(cluster.topic(one.name).partitions)
        to[name] = Target(one.name, partitions, cluster.max_message_bytes(one.name))
    return WritingTask(
        access,
        plan,
        {one.name: one.topic_id for one in topics},
        to,
        job,
        run,
        claims(job, run, ranges, known, again=getattr(options, "again", False)),
        transactions=options.transactions == "yes",
        places=running.places_topic,
    )


def write_ranges(
    running: Job,
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
    work: WritingTask,
    what: str,
) -> WritingResult:
    """Run the tasks, and show how far they have come; the arguments are those of `write_topics`."""
    from penstock.stored.positions import OffsetsDone  # noqa: PLC0415
    from penstock.stored.writing import write_raw  # noqa: PLC0415

    runner = running.runner
    done = OffsetsDone(work.access.connect(), work.job, ranges, work.claims)
    with running.progress.phase(what, done, sum(one.offsets for one in ranges)):
        return write_raw(runner, ranges, work, sizes=running.sizes(topics))


def known_job(
    options: argparse.Namespace,
    running: Job,
    topics: Sequence[Topic],
    targets: Mapping[str, Location],
    job: str,
    places: Places,
) -> Known:
    """Return how far a job has come, and check that its place was not lost.

    Args:
        options: Of the command.
        running: The command's job.
        topics: What is read.
        targets: What is written to.
        job: The id of the job.
        places: What is kept in the topic of places.

    Raises:
        LostPlaceError: A target has records, and nothing says how far the job has come.
    """
    from penstock.cluster.ranges import Partition  # noqa: PLC0415
    from penstock.stored.positions import (  # noqa: PLC0415
        check_not_lost,
        known_positions,
        run_mark,
    )

    ids = {one.name: one.topic_id for one in topics}
    partitions = [Partition(one.name, number) for one in topics for number in one.partitions]
    known = known_positions(running.access.connect(), job, ids, partitions, places)
    if not known and not options.again and options.start != "latest":
        mark = run_mark(options.command, [one.name for one in targets.values()])
        check_not_lost(job, ids, _filled(running, targets), places, known, mark=mark)
    return known


def _filled(running: Job, targets: Mapping[str, Location]) -> list[str]:
    """Return the name of the topic of accepted records if it has some.

    Dead letters of many topics, and of gateways, are often in one topic: they say nothing.
    """
    from penstock.stored.writing_task import ACCEPTED  # noqa: PLC0415

    name, cluster = targets[ACCEPTED].name, running.cluster
    bounds = cluster.bounds(cluster.topic(name)).values()
    return [name] if any(end > start for start, end in bounds) else []


def _check_removed(counts: TaskCounts, *, strict: bool) -> None:
    if not counts.removed:
        return
    text = f"{counts.removed:,} offsets were removed before they were read (retention)"
    if strict:
        raise CommandError(f"{text}; all others are written", ExitCode.CLUSTER_FAILED)
    print(f"warning: {text}", file=sys.stderr)
