"""Move records that the policies refuse aside, as dead letters.

Their headers have the reason. From topics to topics, each record is written once: the same command
continues where it ended or was interrupted. --streaming does so, too, and runs until SIGTERM or
Ctrl-C. Folders appear when they are complete, and must be empty before. If the source or a target
is a folder, or with --reader connector, topics are written at least once: after an interruption,
the next run writes the same records again.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING

from penstock.cli.failures import ExitCode
from penstock.cli.jobs.raw_jobs import add_writing_arguments, is_raw, write_topics
from penstock.cli.jobs.spark_job import (
    add_job_arguments,
    add_reader_arguments,
    add_source_arguments,
    job,
    location,
    on_spark,
    only,
    show_counts,
)
from penstock.cli.jobs.split_stream import (
    add_streaming_arguments,
    check_streaming,
    is_between_topics,
    run_stream,
)
from penstock.configuration import ConfigurationError
from penstock.engine.verdict import OF_RECORDS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from penstock.cli.jobs.job import CommandJob
    from penstock.cli.jobs.spark_job import SparkJob
    from penstock.cluster.offsets import Topic
    from penstock.cluster.ranges import OffsetRange
    from penstock.stored.plan import RecordPlan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_job_arguments(parser)
    add_source_arguments(parser)
    add_reader_arguments(parser)
    add_writing_arguments(parser)
    what = "a topic, or path:DIR for a folder of Parquet files"
    parser.add_argument("--accepted", required=True, type=location, metavar="A", help=what)
    parser.add_argument("--rejected", required=True, type=location, metavar="D", help=what)
    add_streaming_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    _check(options)
    with job(options) as running:
        if not options.streaming:
            return _batch(options, running)
        running_on_spark = on_spark(running, "--streaming")
        if is_between_topics(options):
            from penstock.stored.tasks.writing_task import ACCEPTED, REJECTED  # noqa: PLC0415

            return run_stream(
                options, running_on_spark, {ACCEPTED: options.accepted, REJECTED: options.rejected}
            )
        return _stream(options, running_on_spark)


def _check(options: argparse.Namespace) -> None:
    check_streaming(options)
    if options.accepted == options.rejected:
        raise ConfigurationError("--accepted and --rejected must differ")


def _batch(options: argparse.Namespace, running: CommandJob) -> int:
    from penstock.stored.tasks.writing_task import ACCEPTED, REJECTED  # noqa: PLC0415

    topics = running.sources((options.accepted, options.rejected))
    plan = running.plan(topics)
    ranges = running.ranges(topics)
    locations = {ACCEPTED: options.accepted, REJECTED: options.rejected}
    if is_raw(options, topics, list(locations.values())):
        what = f"splitting {options.topic}"
        done = write_topics(options, running, topics, ranges, plan, locations, what)
        counts: dict[str, int] = {outcome: done.outcomes[outcome] for outcome in OF_RECORDS}
        print(f"{options.topic}: {show_counts(counts)}")
        print(f"accepted in {options.accepted}, the others in {options.rejected}")
        return ExitCode.DONE
    return _through_frames(options, on_spark(running, "a folder"), topics, ranges, plan)


def _through_frames(
    options: argparse.Namespace,
    running: SparkJob,
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
    plan: RecordPlan,
) -> int:
    from penstock.spark.split import ACCEPTED, REJECTED, split_into  # noqa: PLC0415

    sinks = running.sinks({ACCEPTED: options.accepted, REJECTED: options.rejected})
    sinks.check_new()
    df = running.read(ranges)
    with running.counting(f"splitting {options.topic or options.input}", ranges):
        counts = split_into(df, plan, sinks, topic=only(topics))
    print(f"{options.topic or options.input}: {show_counts(counts)}")
    print(f"accepted in {options.accepted}, the others in {options.rejected}")
    if not (options.accepted.is_folder and options.rejected.is_folder):
        print("run again, this appends the same records to topics again")
    return ExitCode.DONE


def _stream(options: argparse.Namespace, running: SparkJob) -> int:
    from penstock.spark.sources import read_stream  # noqa: PLC0415
    from penstock.spark.split import ACCEPTED, REJECTED, split_stream  # noqa: PLC0415

    topics = running.sources((options.accepted, options.rejected))
    plan = running.plan(topics)
    ranges = running.cluster.ranges(topics, options.start)
    sinks = running.sinks({ACCEPTED: options.accepted, REJECTED: options.rejected})
    query = split_stream(
        read_stream(running.spark, running.kafka_options, ranges),
        plan,
        sinks,
        options.checkpoint,
        topic=only(topics),
        available_now=options.available_now,
        on_batch=_report,
    )
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while not query.awaitTermination(1):
        if ended.is_set():
            query.stop()
            break
    return ExitCode.DONE


def _report(number: int, counts: Mapping[str, int]) -> None:
    if sum(counts.values()):
        print(f"batch {number}: {show_counts(counts)}", file=sys.stderr, flush=True)
