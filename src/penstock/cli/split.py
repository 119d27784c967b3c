"""Move records that the policies refuse aside, as dead letters.

The reason is in their headers. Folders appear when they are complete, and must not hold anything
before. Topics are written at least once: what an interrupted run had written, the next one writes
again.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING

from penstock.cli.failures import ExitCode
from penstock.cli.jobs import add_job_arguments, add_source_arguments, job, location, show_counts
from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from penstock.cli.jobs import SparkJob


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_job_arguments(parser)
    add_source_arguments(parser)
    what = "a topic, or path:DIR for a folder of Parquet files"
    parser.add_argument("--accepted", required=True, type=location, metavar="A", help=what)
    parser.add_argument("--rejected", required=True, type=location, metavar="D", help=what)
    parser.add_argument(
        "--streaming", action="store_true", help="keep going; needs --checkpoint and --topic"
    )
    parser.add_argument("--checkpoint", metavar="DIR", help="where the stream's place is kept")
    parser.add_argument(
        "--available-now", action="store_true", help="with --streaming: stop at what is there now"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    _check(options)
    with job(options) as running:
        return _stream(options, running) if options.streaming else _batch(options, running)


def _check(options: argparse.Namespace) -> None:
    if options.streaming and not (options.checkpoint and options.topic):
        raise ConfigurationError("--streaming needs --checkpoint DIR and --topic T")
    if not options.streaming and (options.checkpoint or options.available_now):
        raise ConfigurationError("--checkpoint and --available-now belong to --streaming")
    if options.accepted == options.rejected:
        raise ConfigurationError("--accepted and --rejected must differ")
    if options.topic in {p.name for p in (options.accepted, options.rejected) if not p.is_folder}:
        raise ConfigurationError(f"--topic {options.topic} cannot be written to while it is read")


def _batch(options: argparse.Namespace, running: SparkJob) -> int:
    from penstock.spark.progress import JobProgress  # noqa: PLC0415
    from penstock.spark.split import ACCEPTED, REJECTED, split  # noqa: PLC0415

    topic = running.source()
    plan = running.plan(topic)
    between = running.range(topic)
    sinks = running.sinks({ACCEPTED: options.accepted, REJECTED: options.rejected})
    sinks.check_new()
    df = running.read(topic, between)
    with JobProgress(running.spark, f"splitting {options.topic or options.input}"):
        counts = split(df, plan, sinks, topic=options.topic)
    print(f"{options.topic or options.input}: {show_counts(counts)}")
    print(f"accepted in {options.accepted}, the others in {options.rejected}")
    if not (options.accepted.is_folder and options.rejected.is_folder):
        print("run again, this appends the same records to topics again")
    return ExitCode.DONE


def _stream(options: argparse.Namespace, running: SparkJob) -> int:
    from penstock.spark.sources import read_stream  # noqa: PLC0415
    from penstock.spark.split import ACCEPTED, REJECTED, split_stream  # noqa: PLC0415

    topic = running.cluster.topic(options.topic)
    plan = running.plan(topic)
    start = running.cluster.offsets(topic, options.start, key="--from")
    sinks = running.sinks({ACCEPTED: options.accepted, REJECTED: options.rejected})
    query = split_stream(
        read_stream(running.spark, running.kafka_options, topic.name, start),
        plan,
        sinks,
        options.checkpoint,
        topic=topic.name,
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
