"""`df.write.format("penstock")` and `writeStream`: each record that is accepted, once.

Tasks leave their transactions open; Spark's driver decides, and commits them. See
`penstock.kafka.client.writing.decisions` for the state after a crash in between, and how the cases
are distinguished.
"""

from __future__ import annotations

import sys
import uuid
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)

from penstock.configuration import ConfigurationError
from penstock.jobs.batches.targets import Target
from penstock.jobs.report.counts import by_outcome
from penstock.kafka.client.writing.decisions import BatchId
from penstock.kafka.cluster.errors import ClusterError
from penstock.spark.execution.failures import SparkError
from penstock.spark.execution.worker_errors import in_one_line
from penstock.spark.sink.penstock_format import commit as sink_commit
from penstock.spark.sink.penstock_format.frames import record_batches
from penstock.spark.sink.penstock_format.options import SinkOptions
from penstock.spark.sink.penstock_format.task import Attempt, SinkTask
from penstock.spark.sink.rows import check_columns
from penstock.spark.sink.stream_queries import QUERY_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from penstock.kafka.cluster.offsets import Cluster, Topic
    from penstock.spark.sink.penstock_format.task import AttemptResult

_BATCH: Final = "streaming.sql.batchId"
_RUN: Final = "spark.jobGroup.id"
_ONE_BATCH: Final = BatchId("", 0)
_ARROW_STREAM: Final[Any] = getattr(datasource, "DataSourceStreamArrowWriter", None)
"""Since PySpark 4.1; before, rows are separate objects."""


@dataclass
class SinkMessage(WriterCommitMessage):
    """The result of a task, for the driver."""

    written: AttemptResult


class BatchSink(DataSourceArrowWriter):
    """Writes a frame: all of it, or nothing."""

    def __init__(self, task: SinkTask, job: str | None) -> None:
        """Set the job.

        Args:
            task: The work of tasks.
            job: The name of the job: once written, it is not written again.
        """
        self._task = task
        self._run = uuid.uuid4().hex
        self._job = job or f"write-{self._run}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkMessage:
        """Judge and write the rows of a task."""
        context = _context()
        # In `foreachBatch`, tasks see the micro-batch: a new query's number is another batch.
        batch = _micro_batch(context) or _ONE_BATCH
        attempt = Attempt(
            self._job, self._run, batch, context.partitionId(), context.attemptNumber()
        )
        with in_one_line():
            return SinkMessage(self._task.write(attempt, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the transactions of the tasks."""
        results = _written(messages)
        with in_one_line():
            sink_commit.commit(self._task, results)
        _report(self._task, results)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the transactions of the tasks."""
        sink_commit.abort(self._task, _written(messages))


class StreamSink(_ARROW_STREAM or DataSourceStreamWriter):  # type: ignore[misc]
    """Writes the micro-batches of a streaming query, each once."""

    def __init__(self, task: SinkTask, job: str | None, schema: StructType) -> None:
        """Set the query.

        Args:
            task: The work of tasks.
            job: The name of the query in the cluster; None for the id of Spark.
            schema: The columns, if rows are separate objects.
        """
        self._task = task
        self._job = job
        self._schema = None if _ARROW_STREAM else schema

    def write(self, iterator: Iterator[Any]) -> SinkMessage:
        """Judge and write the rows of a task."""
        context = _context()
        batch, run = _micro_batch(context), context.getLocalProperty(_RUN)
        if batch is None or run is None:
            raise SparkError(
                "Spark does not tell tasks the micro-batch that they write; use foreachBatch"
            )
        attempt = Attempt(
            self._job or f"stream-{batch.query}",
            run,
            batch,
            context.partitionId(),
            context.attemptNumber(),
        )
        rows = iterator if self._schema is None else record_batches(iterator, self._schema)
        with in_one_line():
            return SinkMessage(self._task.write(attempt, rows))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's name
        """Commit the transactions of the tasks; each knows the batch."""
        results = _written(messages)
        with in_one_line():
            sink_commit.commit(self._task, results)
        _report(self._task, results)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Abort the transactions of the tasks."""
        sink_commit.abort(self._task, _written(messages))


def batch_sink(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchSink:
    """Return the writer of a frame; the cluster describes its topics.

    Raises:
        ConfigurationError: An option, the file, a column or a topic is not usable.
        ClusterError: The cluster does not answer.
    """
    if overwrite:
        raise ConfigurationError(
            'format("penstock"): a topic cannot be overwritten: use mode("append")'
        )
    _check(schema)
    sink_options = SinkOptions.read(options)
    return BatchSink(_task(sink_options), sink_options.job)


def stream_sink(options: Mapping[str, str], schema: StructType) -> StreamSink:
    """Return the writer of a stream: the same for all micro-batches of a query.

    Raises:
        ConfigurationError: An option, the file, a column or a topic is not usable.
        ClusterError: The cluster does not answer.
    """
    _check(schema)
    job = SinkOptions.read(options).job
    return StreamSink(_kept_task(frozenset(options.items())), job, schema)


@lru_cache(maxsize=64)
def _kept_task(options: frozenset[tuple[str, str]]) -> SinkTask:
    """Read the file and the topics once: Spark creates the sink of each micro-batch twice."""
    return _task(SinkOptions.read(dict(options)))


def _task(options: SinkOptions) -> SinkTask:
    # Imported here: executors do without the client and the model of the configuration.
    from penstock.spark.source.access import ClusterOfPlan  # noqa: PLC0415

    there = ClusterOfPlan(options.plan, options.client)
    accepted, rejected = _topic(there.cluster, "topic", options.topic), None
    if options.rejected is not None:
        rejected = _target(there.cluster, _topic(there.cluster, "rejected", options.rejected))
    return SinkTask(
        there.access,
        there.plan([accepted], options.records_policy_batch),
        _target(there.cluster, accepted),
        accepted.topic_id,
        rejected,
        options.codec,
        options.transaction_timeout_s,
        options.fails_on_order_loss,
    )


def _topic(cluster: Cluster, option: str, name: str) -> Topic:
    """Describe a topic that is written to; an error says so."""
    try:
        return cluster.topic(name)
    except ConfigurationError as error:
        raise ConfigurationError(f"{option} {name}, the target: {error}") from None
    except ClusterError as error:
        raise ClusterError(f"{option} {name}, the target: {error}") from None


def _target(cluster: Cluster, topic: Topic) -> Target:
    return Target(topic.name, len(topic.partitions), cluster.max_message_bytes(topic.name))


def _check(schema: StructType) -> None:
    check_columns((field.name, field.dataType.simpleString()) for field in schema.fields)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("tasks write where Spark runs them")
    return context


def _micro_batch(context: TaskContext) -> BatchId | None:
    """Return the micro-batch that a task belongs to; None where Spark does not name it."""
    query, number = context.getLocalProperty(QUERY_ID), context.getLocalProperty(_BATCH)
    return None if query is None or number is None else BatchId(query, int(number))


def _report(task: SinkTask, results: Sequence[AttemptResult]) -> None:
    """Write what became of a batch in the log of the driver: Spark takes no metrics from Python."""
    counts: Counter[str] = sum((result.counts for result in results), Counter())
    if not counts:
        return
    first = results[0].attempt
    number = f", batch {first.batch.number}" if first.batch.query else ""
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in by_outcome(counts).items())
    letters = "" if task.rejected is None else f"; dead letters in {task.rejected.topic}"
    sys.stderr.write(
        f"penstock: {first.job}{number}: {outcomes}; accepted in {task.accepted.topic}{letters}\n"
    )
    sys.stderr.flush()


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[AttemptResult]:
    return [message.written for message in messages if isinstance(message, SinkMessage)]
