"""`split --streaming` from topics to topics: micro-batches of raw batches, each record once."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.cli.failures import ExitCode
from penstock.cli.jobs.arguments import positive_number
from penstock.cli.jobs.job import show_counts, show_plans, warn
from penstock.cli.jobs.raw_jobs import are_topics, writing_job
from penstock.cli.jobs.stream_lines import StreamLines, one_line
from penstock.cli.output.policy_output import policies_run
from penstock.cli.process.ending import EndRequest
from penstock.configuration import ConfigurationError, load_configuration
from penstock.configuration.values import address
from penstock.jobs.report.counts import by_outcome
from penstock.jobs.topics.topic_settings import kept_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.cli.jobs.spark_job import SparkJob
    from penstock.configuration.values import Address
    from penstock.jobs.locations import RecordLocation
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.tasks.planning import Sizes
    from penstock.jobs.writing_job import WritingJob
    from penstock.kafka.cluster.offsets import Topic
    from penstock.spark.streams.figures import StreamFigures
    from penstock.spark.streams.stream import StreamSettings
    from penstock.spark.streams.work import StreamWork

BATCH_RECORDS: Final = 1_000_000
_EVERY_S: Final = 1.0
_DURATION: Final = re.compile(r"(\d{1,12})(ms|s|m|h)")
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_EVERY_MIN_S: Final = 0.1
_EVERY_MAX_S: Final = 86_400.0
_SPARKS_OWN: Final = ("metadata", "offsets", "commits")
"""The entries of a Spark checkpoint."""
_REASONS_MAX: Final = 20


def add_streaming_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how a stream continues."""
    parser.add_argument(
        "--streaming",
        action="store_true",
        help="run until it is stopped; requires --topic. From topics to topics, positions are "
        "stored in the cluster, as without --streaming",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="with --streaming to folders and tables: the folder for positions; not needed from "
        "topics to topics",
    )
    parser.add_argument(
        "--available-now",
        action="store_true",
        help="with --streaming: stop at the current end of the topics",
    )
    parser.add_argument(
        "--batch-records",
        type=positive_number,
        metavar="N",
        help="with --streaming: the maximum number of records in a micro-batch "
        f"(default {BATCH_RECORDS:,}; to folders and tables from PySpark 4.2 on)",
    )
    parser.add_argument(
        "--every",
        type=duration,
        metavar="DURATION",
        help="with --streaming: how often to look for new records, such as 500ms, 10s, 5m or 1h "
        f"(default {_EVERY_S:g}s to topics, otherwise immediately). The next micro-batch starts "
        "immediately while there are more records",
    )
    parser.add_argument(
        "--metrics-file",
        type=Path,
        metavar="PATH",
        help="with --streaming: write metrics to a file regularly, for the textfile collector of "
        "Prometheus' node_exporter",
    )
    parser.add_argument(
        "--metrics-listener",
        type=_address,
        metavar="HOST:PORT",
        help="with --streaming: serve metrics over HTTP at /metrics",
    )


def check_streaming(options: argparse.Namespace) -> None:
    """Check the options of a stream against each other.

    Raises:
        ConfigurationError: Some do not go together.
    """
    if not options.streaming:
        stream_option = options.checkpoint or options.available_now
        values = (options.every, options.batch_records, *_metrics_options(options))
        if stream_option or any(value is not None for value in values):
            raise ConfigurationError(
                "--checkpoint, --available-now, --every, --batch-records, --metrics-file, "
                "--metrics-listener require --streaming"
            )
        return
    if not options.topic:
        raise ConfigurationError("--streaming needs --topic T")
    if options.end != "latest":
        raise ConfigurationError(
            "--to cannot be used with --streaming; to stop, use --available-now"
        )
    if options.again and not options.available_now:
        raise ConfigurationError(
            "--again cannot be used with --streaming, which would write everything once more with "
            "each start: run it once with --available-now, then start the stream without --again"
        )
    if are_topics(options.accepted, options.rejected):
        _check_checkpoint(options.checkpoint)
        return
    if not options.checkpoint:
        raise ConfigurationError("--streaming to a folder or a table needs --checkpoint DIR")


def _metrics_options(options: argparse.Namespace) -> tuple[object, ...]:
    return options.metrics_file, options.metrics_listener


def _check_checkpoint(folder: str | None) -> None:
    """Refuse to begin again if a stream of Spark has progressed."""
    if folder is not None and any((Path(folder) / name).exists() for name in _SPARKS_OWN):
        raise ConfigurationError(
            f"--checkpoint {folder} belongs to a stream to folders or tables: leave --checkpoint "
            "out; from topics to topics positions are kept in the cluster, and the stream begins "
            "at --from"
        )


def run_stream(
    options: argparse.Namespace, spark_job: SparkJob, targets: Mapping[str, RecordLocation]
) -> int:
    """Run a stream from topics to topics; return the exit code.

    Args:
        options: Of the command.
        targets: By the names of `penstock.jobs.tasks.writing_task`.
    """
    from penstock.spark.streams.figures import StreamFigures  # noqa: PLC0415

    figures = StreamFigures()
    with contextlib.ExitStack() as stack:
        ending = stack.enter_context(EndRequest())
        publish = stack.enter_context(publishing(options, figures))
        lines = StreamLines(figures, publish, is_terminal=sys.stderr.isatty())
        _run(options, spark_job, targets, ending, lines)
    _print_totals(options, figures)
    return ExitCode.DONE


def _run(
    options: argparse.Namespace,
    spark_job: SparkJob,
    targets: Mapping[str, RecordLocation],
    ending: EndRequest,
    lines: StreamLines,
) -> None:
    from penstock.jobs.topics.stored_topics import with_parked  # noqa: PLC0415
    from penstock.jobs.writing_job import id_of, known_job  # noqa: PLC0415
    from penstock.spark.streams.source import StreamSource  # noqa: PLC0415
    from penstock.spark.streams.stream import Stream  # noqa: PLC0415

    topics, there = spark_job.sources(tuple(targets.values())), spark_job.there
    requested = writing_job(options, targets)
    job = id_of(there, requested, topics)
    places = there.places()
    known_job(there, requested, topics, job, places, note=lines.note)
    work, settings = _work(options, spark_job, topics, requested, job)
    ending.listen()  # Spark has set its own handler
    connection, target_names = there.access.connect(), with_parked(requested.targets.values())
    source = StreamSource(
        spark_job.cluster,
        connection,
        options.topic,
        job,
        settings.run,
        target_names,
        topic_ids={topic.name: topic.topic_id for topic in topics},
        places=places,
    )
    stream = Stream(source, work, lines, settings, is_ended=ending.is_set, wait=ending.wait)
    starts = None
    if options.again or options.start != "earliest":
        starts = lambda: {  # noqa: E731
            offset_range.of: offset_range.start
            for offset_range in spark_job.cluster.ranges(topics, options.start)
        }
    partition_count = stream.begin(topics, starts)
    where = (
        f"goes on in {partition_count:,} partitions"
        if partition_count
        else f"begins at {options.start}"
    )
    lines.note(f"job {job}: {where}")
    with lines, lines.shown(spark_job.progress, f"splitting {options.topic}"):
        stream.run()


def _work(
    options: argparse.Namespace,
    spark_job: SparkJob,
    topics: Sequence[Topic],
    requested: WritingJob,
    job: str,
) -> tuple[StreamWork, StreamSettings]:
    from penstock.jobs.positions import KnownPositions  # noqa: PLC0415
    from penstock.jobs.tasks.planning import Limit, Sizes  # noqa: PLC0415
    from penstock.jobs.writing_job import writing_task  # noqa: PLC0415
    from penstock.kafka.cluster.errors import ClusterError  # noqa: PLC0415
    from penstock.spark.streams.stream import StreamSettings  # noqa: PLC0415
    from penstock.spark.streams.work import StreamWork  # noqa: PLC0415

    plan = spark_job.plan(topics)
    show_plans(plan.digests_of(topic.name for topic in topics), sys.stderr)
    task = writing_task(spark_job.there, requested, topics, (), plan, job, KnownPositions({}, {}))

    def plan_of(topics_by_name: Mapping[str, Topic]) -> RecordPlan:
        return _plan_of(options, spark_job, plan, topics_by_name)

    def sizes_of(topics_by_name: Mapping[str, Topic]) -> Sizes:
        try:
            return spark_job.there.sizes(tuple(topics_by_name.values()))
        except ClusterError:  # a partition that is away now
            return Sizes()

    settings = StreamSettings(
        task.run,
        Limit(records=options.batch_records or BATCH_RECORDS),
        every_s=options.every or _EVERY_S,
        strict=options.strict,
        available_now=options.available_now,
        again=options.again,
    )
    work = StreamWork(
        spark_job.spark, task, plan_of=plan_of, sizes_of=sizes_of, again=options.again
    )
    return work, settings


def _plan_of(
    options: argparse.Namespace, spark_job: SparkJob, plan: RecordPlan, topics: Mapping[str, Topic]
) -> RecordPlan:
    """Return the plan with new topics, and their topic level keys."""
    from penstock.kafka.cluster.compacted_topic import CompactedTopicError  # noqa: PLC0415
    from penstock.kafka.cluster.errors import ClusterError  # noqa: PLC0415

    try:
        index = kept_settings(load_configuration(options.file), spark_job.properties)
    except CompactedTopicError as error:
        raise ClusterError(str(error)) from None
    ids = {name: topic.topic_id for name, topic in topics.items()}
    settings = {name: index.of(name, topic_id) for name, topic_id in ids.items()}
    with policies_run():
        new_plan = plan.for_topics(ids, settings)
    for name in ids.keys() - plan.topic_ids.keys():
        if not new_plan.judges(name):
            warn(f"no policy of {plan.path} judges topic {name}")
    return new_plan


@contextlib.contextmanager
def publishing(options: argparse.Namespace, figures: StreamFigures) -> Iterator[Callable[[], None]]:
    """Serve metrics inside a `with` block; returns what writes them to the file."""
    if not any(_metrics_options(options)):
        yield lambda: None
        return
    from penstock.spark.streams.metrics import (  # noqa: PLC0415
        registry_of,
        serve_metrics,
        write_metrics,
    )

    registry, file = registry_of(figures), options.metrics_file
    with contextlib.ExitStack() as stack:
        if options.metrics_listener is not None:
            stack.callback(serve_metrics(registry, options.metrics_listener))
        yield lambda: write_metrics(registry, file) if file is not None else None


def _print_totals(options: argparse.Namespace, figures: StreamFigures) -> None:
    print(f"{options.topic}: {show_counts(by_outcome(figures.outcomes))}")
    reasons, others = figures.reasons.most_common(_REASONS_MAX)
    for reason, count in reasons:
        print(f"  {count:>9,}  {reason.policy}  {reason.code}  {one_line(reason.message or '')}")
    if others:
        print(f"  {others:>9,}  for other reasons")
    print(f"accepted in {options.accepted}, the others in {options.rejected}")


def duration(text: str) -> float:
    """Read a duration for argparse: a whole number and its unit; return seconds."""
    match = _DURATION.fullmatch(text.strip())
    seconds = int(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if not _EVERY_MIN_S <= seconds <= _EVERY_MAX_S:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a duration from 100ms to 24h, such as 500ms, 10s, 5m or 1h"
        )
    return seconds


def _address(text: str) -> Address:
    try:
        return address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be {error}") from None
