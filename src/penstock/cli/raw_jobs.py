"""What `split`, `redact` and `redrive` have in common from topics to topics: raw batches."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from penstock.cli.failures import CommandError, ExitCode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from penstock.batch_jobs.counts import TaskCounts
    from penstock.cli.jobs import SparkJob
    from penstock.cluster.offsets import Topic
    from penstock.cluster.ranges import OffsetRange
    from penstock.spark.locations import Location
    from penstock.spark.plan import RecordPlan
    from penstock.spark.writing_task import WritingResult, WritingTask


def add_writing_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how topics are written to."""
    parser.add_argument(
        "--job",
        metavar="ID",
        help="with topics: what the job's place is kept under; the default is made of the topics "
        "and --from, so that the same command goes on where it was interrupted",
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
    running: SparkJob,
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
        targets: By the names of `penstock.spark.writing_task`.
        what: What is being done, such as `splitting orders`.

    Raises:
        CommandError: Records were removed before they were read, and `--strict` was given.
    """
    from penstock.spark.raw_writing import from_positions  # noqa: PLC0415

    job = job_of(options, running, topics, targets)
    if options.job is None or options.start in {"earliest", "latest"}:
        to_end = getattr(options, "end", "latest") == "latest"
        ranges = from_positions(running.access.connect(), job, ranges, to_end=to_end)
    work = writing_task(options, running, topics, ranges, plan, targets, job)
    result = write_ranges(running, topics, ranges, work, what)
    if result.before:
        print(
            f"job {job}: an earlier run has done {result.before:,} offsets of the range; they are "
            "not written again (--job NEW_ID begins a new job)"
        )
    _check_removed(result.counts, strict=options.strict)
    return result.counts


def job_of(
    options: argparse.Namespace,
    running: SparkJob,
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
    from penstock.spark.raw_writing import job_id  # noqa: PLC0415
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
    running: SparkJob,
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
    plan: RecordPlan,
    targets: Mapping[str, Location],
    job: str,
) -> WritingTask:
    """Return what tasks do; the arguments are those of `write_topics`, and the id of the job."""
    from penstock.batch_jobs.targets import Target  # noqa: PLC0415
    from penstock.spark.raw_writing import claims, run_id  # noqa: PLC0415
    from penstock.spark.writing_task import WritingTask  # noqa: PLC0415

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
        claims(access.connect(), job, run, ranges),
        transactions=options.transactions == "yes",
    )


def write_ranges(
    running: SparkJob,
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
    work: WritingTask,
    what: str,
) -> WritingResult:
    """Run the tasks, and show how far they have come; the arguments are those of `write_topics`."""
    from penstock.spark.raw_writing import OffsetsDone, write_raw  # noqa: PLC0415

    cores = running.slots
    done = OffsetsDone(work.access.connect(), work.job, ranges)
    with running.progress.phase(what, done, sum(one.offsets for one in ranges)):
        return write_raw(running.spark, ranges, work, cores=cores, sizes=running.sizes(topics))


def _check_removed(counts: TaskCounts, *, strict: bool) -> None:
    if not counts.removed:
        return
    text = f"{counts.removed:,} offsets were removed before they were read (retention)"
    if strict:
        raise CommandError(f"{text}; all others are written", ExitCode.CLUSTER_FAILED)
    print(f"warning: {text}", file=sys.stderr)
