"""Write accepted records to one target, and refused records (dead letters) to another.

The headers of a dead letter have the reason. From topics to topics, each record is written once: if
you run the same command again, it continues where it ended or was interrupted. --streaming does the
same, and runs until SIGTERM or Ctrl-C. Folders must be empty, and appear when they are complete.
Tables must exist, without the records of the run. If the source or a target is a folder or a table,
topics are written at least once: after an interruption, the next run writes the same records again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.failures import ExitCode
from penstock.cli.jobs.arguments import (
    add_job_arguments,
    add_reader_arguments,
    add_source_arguments,
    add_writing_arguments,
    location_or_table,
)
from penstock.cli.jobs.frame_stream import run_frame_stream
from penstock.cli.jobs.job import show_counts, show_plans
from penstock.cli.jobs.raw_jobs import (
    are_topics,
    check_writing_arguments,
    is_between_topics,
    run_writing_job,
)
from penstock.cli.jobs.row_jobs import RowSource
from penstock.cli.jobs.spark_job import job, on_spark
from penstock.cli.jobs.split_stream import (
    add_streaming_arguments,
    check_streaming,
    run_stream,
)
from penstock.jobs.locations import check_apart
from penstock.jobs.report.counts import by_outcome

if TYPE_CHECKING:
    import argparse

    from penstock.cli.jobs.job import CommandJob


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_job_arguments(parser)
    add_source_arguments(parser)
    add_reader_arguments(parser)
    add_writing_arguments(parser)
    what = "a topic, path:DIR (a folder of Parquet files) or table:NAME (a Delta or Iceberg table)"
    parser.add_argument("--accepted", required=True, type=location_or_table, metavar="A", help=what)
    parser.add_argument("--rejected", required=True, type=location_or_table, metavar="D", help=what)
    add_streaming_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    _check(options)
    with job(options) as command_job:
        if not options.streaming:
            return _batch(options, command_job)
        spark_job = on_spark(command_job, "--streaming")
        if are_topics(options.accepted, options.rejected):
            from penstock.jobs.tasks.writing_task import ACCEPTED, REJECTED  # noqa: PLC0415

            return run_stream(
                options, spark_job, {ACCEPTED: options.accepted, REJECTED: options.rejected}
            )
        return run_frame_stream(options, spark_job)


def _check(options: argparse.Namespace) -> None:
    check_streaming(options)
    check_apart({"--accepted": options.accepted, "--rejected": options.rejected})
    check_writing_arguments(options, [options.accepted, options.rejected])


def _batch(options: argparse.Namespace, command_job: CommandJob) -> int:
    from penstock.jobs.tasks.writing_task import ACCEPTED, REJECTED  # noqa: PLC0415

    topics = command_job.sources((options.accepted, options.rejected))
    plan = command_job.plan(topics)
    ranges = command_job.ranges(topics)
    locations = {ACCEPTED: options.accepted, REJECTED: options.rejected}
    if is_between_topics(topics, list(locations.values())):
        what = f"splitting {options.topic}"
        task_counts = run_writing_job(options, command_job, topics, ranges, plan, locations, what)
        print(f"{options.topic}: {show_counts(by_outcome(task_counts.outcomes))}")
        print(f"accepted in {options.accepted}, the others in {options.rejected}")
        show_plans(plan.digests_of(topic.name for topic in topics))
        return ExitCode.DONE
    counts = command_job.rows.split(RowSource(topics, ranges, options.input or ""), plan, locations)
    print(f"{options.topic or options.input}: {show_counts(counts)}")
    print(f"accepted in {options.accepted}, the others in {options.rejected}")
    show_plans(plan.digests_of(topic.name for topic in topics))
    targets = (options.accepted, options.rejected)
    has_table = any(target.is_table for target in targets)
    if any(target.is_topic for target in targets) and not has_table:
        print("run again, this appends the same records to topics again")
    return ExitCode.DONE
