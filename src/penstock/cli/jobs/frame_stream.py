"""`split --streaming` to folders and tables: a query of Spark, with its checkpoint."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.cli.failures import ExitCode
from penstock.cli.jobs.job import show_counts, show_plans, warn
from penstock.cli.jobs.row_jobs import only
from penstock.cli.jobs.split_stream import BATCH_RECORDS, publishing
from penstock.cli.process.background import in_background, is_done
from penstock.cli.process.ending import EndRequest
from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.cli.jobs.query_watch import QueryWatch
    from penstock.cli.jobs.spark_job import SparkJob
    from penstock.kafka.cluster.offset_requests import Answers
    from penstock.kafka.cluster.offsets import Topic
    from penstock.spark.sink.stream_checkpoints import PlannedBatch
    from penstock.spark.streams.figures import StreamFigures

_STARTS_MAX: Final = 4
"""As often as Spark tries a task on a cluster."""


def run_frame_stream(options: argparse.Namespace, spark_job: SparkJob) -> int:
    """Run a stream to folders or tables; return the exit code.

    Args:
        options: Of the command.
    """
    from penstock.spark.streams.figures import StreamFigures  # noqa: PLC0415

    stopping, figures = threading.Event(), StreamFigures()
    with EndRequest() as ending, publishing(options, figures) as publish:
        prepared = _prepared(options, spark_job, stopping, figures, publish)
        ending.listen()  # Spark has set its own handler
        if options.available_now:
            _run_to_end(prepared, ending, stopping)
        elif options.every is None:
            _run_query(prepared, False, ending, stopping)
        else:
            _run_at_intervals(prepared, options.every, ending, stopping)
    return ExitCode.DONE


class _PreparedStream(NamedTuple):
    """A stream that can be started.

    Attributes:
        start: Starts the query. With True, it stops at the current end of the topics.
        ends: Returns the topics, and where they end now; it may wait for the cluster.
        stops_early: Returns whether the query would stop after a micro-batch that it repeats.
        watch: Shows its lag.
    """

    start: Callable[[bool], StreamingQuery]
    ends: Callable[[], tuple[Sequence[Topic], Answers]]
    stops_early: Callable[[], bool]
    watch: QueryWatch | None = None


def _prepared(
    options: argparse.Namespace,
    spark_job: SparkJob,
    stopping: threading.Event,
    figures: StreamFigures,
    publish: Callable[[], None],
) -> _PreparedStream:
    from penstock.cli.jobs.query_watch import QueryWatch  # noqa: PLC0415
    from penstock.jobs.tasks.writing_task import ACCEPTED, REJECTED  # noqa: PLC0415
    from penstock.spark.jobs.split import split_stream  # noqa: PLC0415
    from penstock.spark.sink.stream_checkpoints import is_interrupted  # noqa: PLC0415
    from penstock.spark.source.range_frames import read_stream  # noqa: PLC0415
    from penstock.spark.source.stream import BOUNDS_BATCHES  # noqa: PLC0415

    topics = spark_job.sources((options.accepted, options.rejected))
    plan = spark_job.plan(topics)
    show_plans(plan.digests_of(topic.name for topic in topics), sys.stderr)
    starts = spark_job.cluster.ranges(topics, options.start)
    locations = {ACCEPTED: options.accepted, REJECTED: options.rejected}
    sinks = spark_job.sinks(locations, letters=(REJECTED,))
    sinks.check_stream(options.checkpoint, starts)
    planned = _planned(options, spark_job, {topic.name for topic in topics})
    frame = read_stream(
        spark_job.spark,
        options.file,
        spark_job.cluster.servers,
        starts,
        batch_records=options.batch_records,
        default_batch_records=BATCH_RECORDS,
    )

    def ends() -> tuple[Sequence[Topic], Answers]:
        current_topics = spark_job.cluster.existing_topics(",".join(topic.name for topic in topics))
        partitions = [partition for topic in current_topics for partition in topic.all_partitions]
        return current_topics, spark_job.cluster.log_ends(partitions)

    positions = planned.ends if planned else {place.of: place.start for place in starts}
    log_ends = spark_job.cluster.log_ends
    watch = QueryWatch(figures, publish, log_ends, only(topics) or "", positions)

    def done(number: int, counts: Mapping[str, int], seconds: float) -> None:
        report(number, counts)
        watch.done(number, counts, seconds)

    def start(available_now: bool) -> StreamingQuery:
        return split_stream(
            frame,
            plan,
            sinks,
            options.checkpoint,
            topic=only(topics),
            available_now=available_now,
            on_batch=done,
            is_ending=stopping.is_set,
        )

    def stops_early() -> bool:
        return not BOUNDS_BATCHES and is_interrupted(spark_job.spark, options.checkpoint)

    return _PreparedStream(start, ends, stops_early, watch)


def _planned(
    options: argparse.Namespace, spark_job: SparkJob, topics: Collection[str]
) -> PlannedBatch | None:
    """Return the last micro-batch of the checkpoint; note which of its topics were deleted.

    Raises:
        ConfigurationError: `--topic` does not name one that exists.
        ClusterError: The principal may not describe one.
    """
    from penstock.spark.sink.stream_checkpoints import planned_batch  # noqa: PLC0415
    from penstock.spark.streams.stream import note_of_deleted  # noqa: PLC0415

    planned = planned_batch(spark_job.spark, options.checkpoint)
    left_out = (
        {partition.topic for partition in planned.ends}.difference(topics) if planned else set()
    )
    deleted_topics = spark_job.cluster.missing(left_out)
    for name in sorted(left_out):
        if name not in deleted_topics:
            raise ConfigurationError(
                f"--topic {options.topic} leaves out topic {name}, which --checkpoint "
                f"{options.checkpoint} has: name it, too, or use a new --checkpoint and new folders"
            )
        print(note_of_deleted(name), file=sys.stderr)
    return planned


def _run_to_end(prepared: _PreparedStream, ending: EndRequest, stopping: threading.Event) -> None:
    """Run the stream to the current end of the topics.

    Before PySpark 4.2, a query that stops there has a single micro-batch: the interrupted one, if
    there is any. The next query has the rest.
    """
    stops_early = prepared.stops_early()
    _run_query(prepared, True, ending, stopping)
    if stops_early and not ending.is_set():
        _run_query(prepared, True, ending, stopping)


def _run_at_intervals(
    prepared: _PreparedStream,
    every_s: float,
    ending: EndRequest,
    stopping: threading.Event,
) -> None:
    """Look for new records at intervals; a query then ends where the topics end at its start.

    Spark's trigger would write one micro-batch for each interval, so that its bound would also
    bound how many records the stream writes in a second. A query starts a process of Python, so
    none starts where the topics are as they were before the last one.
    """
    previous_state = None
    while not ending.is_set():
        began = time.monotonic()
        looking = in_background(prepared.ends)
        if not is_done(looking, ending.is_set):
            break
        now = looking.result()
        if prepared.watch is not None:
            prepared.watch.looked(now[1])
        if now != previous_state:
            _run_to_end(prepared, ending, stopping)
            previous_state = now
        ending.wait(max(began + every_s - time.monotonic(), 0))


def _run_query(
    prepared: _PreparedStream, available_now: bool, ending: EndRequest, stopping: threading.Event
) -> None:
    """Run a query until its end.

    Each starts a process of Python, for which Spark waits 10 seconds, and only once. Where that was
    too short, the query is started again: it continues from its checkpoint.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from penstock.spark.execution.failures import is_late_worker  # noqa: PLC0415

    for starts_left in reversed(range(_STARTS_MAX)):
        try:
            _wait(prepared.start(available_now), ending, stopping, prepared.watch)
        except Exception as error:
            # The signal may have ended workers, too; the micro-batch is repeated by the next start.
            if ending.is_set() and isinstance(error, PySparkException):
                return
            if not starts_left or not is_late_worker(error):
                raise
            warn("a Python worker did not start in time; the stream starts again")
        else:
            return


def _wait(
    query: StreamingQuery, ending: EndRequest, stopping: threading.Event, watch: QueryWatch | None
) -> None:
    try:
        while not query.awaitTermination(1):
            if ending.is_set():
                stopping.set()
                query.stop()
                return
            if watch is not None:
                watch.look(query)
        if watch is not None:
            watch.finish(query, ending.is_set)
    finally:
        if watch is not None:
            watch.end(query)


def report(number: int, counts: Mapping[str, int]) -> None:
    """Print what a micro-batch was split into, unless it has no records.

    Args:
        counts: Records by outcome.
    """
    if sum(counts.values()):
        print(f"batch {number}: {show_counts(counts)}", file=sys.stderr, flush=True)
