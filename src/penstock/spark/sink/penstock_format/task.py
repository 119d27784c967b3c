"""What a task of `df.write.format("penstock")` does: its transaction is left open."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from penstock.jobs.evaluation import evaluator_of, task_ended
from penstock.kafka.client.errors import ClientError
from penstock.kafka.client.positions import PositionTask
from penstock.kafka.client.writing.decisions import BatchId, Decisions
from penstock.kafka.client.writing.limits import WriterLimits
from penstock.kafka.client.writing.prepared import Prepared, PreparingWriter
from penstock.spark.sink.penstock_format.source_order import SourceOrder
from penstock.spark.sink.rows import OutgoingRows, column_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from penstock.jobs.batches.targets import Target
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.topics.access import ClusterAccess
    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.client.writing.decisions import Decision
    from penstock.kafka.cluster.ranges import Partition
    from penstock.spark.sink.penstock_format.source_order import ReadOffsets

_PARTITIONS_ADDED_MAX = 64
"""If a target has at most so many partitions, all are added to a transaction at once."""


class Attempt(NamedTuple):
    """An attempt at a task.

    Attributes:
        job: The id of the job.
        run: The id of the run of the job.
        batch: The batch that is written.
        task: The number of the task.
        number: The number of the attempt.
    """

    job: str
    run: str
    batch: BatchId
    task: int
    number: int


class AttemptResult(NamedTuple):
    """What an attempt did.

    Attributes:
        prepared: Its open transaction; None where it wrote nothing.
        was_decided: Whether the batch was decided before: nothing was read nor written.
        counts: Records by outcome.
        read: The offsets that the rows are of, by partition, as far as they say it.
    """

    attempt: Attempt
    prepared: Prepared | None = None
    was_decided: bool = False
    counts: Counter[str] = Counter()  # noqa: RUF012 - it is not changed
    read: Mapping[Partition, ReadOffsets] = {}


@dataclass(frozen=True)
class SinkTask:
    """Judges the rows of a task and writes them, in a transaction that is left open.

    Attributes:
        plan: The policies; None to judge nothing.
        accepted: The topic that is written to.
        rejected: The topic for dead letters; None to fail with the first refused record.
        codec: Kafka's number of the compression codec.
        transaction_timeout_s: After which time brokers abort a transaction without a decision.
        fails_on_order_loss: Whether rows that are not in the order of their topics are an error.
    """

    access: ClusterAccess
    plan: RecordPlan | None
    accepted: Target
    topic_id: UUID
    rejected: Target | None
    codec: int = 0
    transaction_timeout_s: float = field(default=900.0)
    fails_on_order_loss: bool = True

    def decisions(self, job: str, connection: Connection | None = None) -> Decisions:
        """Return the decisions of a job that writes to the topic."""
        task = PositionTask(job, self.accepted.topic, self.topic_id, 0)
        return Decisions(connection or self.access.connect(), task)

    def write(self, attempt: Attempt, rows: Iterable[pa.RecordBatch]) -> AttemptResult:
        """Judge and write rows, unless their batch was decided by an attempt before.

        Raises:
            RefusedRecordsError: A record is refused, and there is no place for dead letters.
            RefusedBatchError: A record is too large for its topic.
            OrderLostError: The rows are not in the order of their topics.
            PostponedError: A policy cannot decide, even after a while.
            FencedError: A later run of the job, or attempt, has taken over.
            ClientError: The cluster does not respond in time, or denies it.
        """
        connection = self.access.connect()
        decisions = self.decisions(attempt.job, connection)
        decided: Decision = decisions.claim(attempt.run)
        if decided.covers(attempt.batch):
            return AttemptResult(attempt, was_decided=True)
        begin = partial(self._begun, connection, decisions, decided, attempt)
        outgoing, order = self._outgoing(attempt.task), SourceOrder(self.accepted.topic)
        writer: PreparingWriter | None = None
        try:
            for batch in map(_named_as_kafkas, rows):
                if self.fails_on_order_loss:
                    order.add(batch)
                for arguments in outgoing.add(batch):
                    writer = writer or begin()
                    writer.write(*arguments)
            for arguments in outgoing.rest():
                writer = writer or begin()
                writer.write(*arguments)
            prepared = None if writer is None else writer.prepare()
        except BaseException:
            if writer is not None:
                with contextlib.suppress(ClientError):
                    writer.abort()
            raise
        task_ended()
        return AttemptResult(attempt, prepared, counts=outgoing.counts, read=order.read)

    def _outgoing(self, task: int) -> OutgoingRows:
        judge, digest, topic = None, "", self.accepted.topic
        if self.plan is not None:
            evaluator = evaluator_of(self.plan)
            judge, digest = partial(evaluator.judge_records, topic), evaluator.digest(topic)
        return OutgoingRows(
            self.accepted, self.rejected, judge, codec=self.codec, task=task, digest=digest
        )

    def _begun(
        self, connection: Connection, decisions: Decisions, claim: Decision, attempt: Attempt
    ) -> PreparingWriter:
        name = decisions.free_id(claim, attempt.batch, attempt.task, attempt.number)
        limits = WriterLimits(transaction_timeout_s=self.transaction_timeout_s)
        writer = PreparingWriter(connection, name, limits)
        count = self.accepted.partitions
        if count <= _PARTITIONS_ADDED_MAX:
            writer.add((self.accepted.topic, number) for number in range(count))
        return writer


def _named_as_kafkas(rows: pa.RecordBatch) -> pa.RecordBatch:
    names = [column_of(name) for name in rows.schema.names]
    return pa.RecordBatch.from_arrays(rows.columns, names)
