"""What a task of `split`, `redact` and `redrive` does, in a worker of Spark or in this process.

Raw batches are read, judged and written. Each range is the job's complete part of a partition, in
order, and has one writer at a time: an attempt continues at the last commit of another. An
attempt that another has taken over from (speculation) waits until the other is done: its result
is the same.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.engine.verdict import PostponedError
from penstock.jobs.batches.at_cluster import keep_position, range_task
from penstock.jobs.batches.committed_counts import read_counts
from penstock.jobs.batches.judge import BatchJudge
from penstock.jobs.batches.letter_topics import LetterTopics
from penstock.jobs.batches.originals import StoredOriginals
from penstock.jobs.batches.redact import Redact
from penstock.jobs.batches.returning_letters import LOOKS_BACK, Redrive
from penstock.jobs.batches.split import Split
from penstock.jobs.batches.task import (
    TaskEnding,
    TaskLimits,
    TaskProgress,
    ignore,
    never,
    read_batch,
    run,
)
from penstock.jobs.evaluation import evaluator_of
from penstock.jobs.policy_retries import decided
from penstock.jobs.report.counts import RecordCounts
from penstock.jobs.report.encoding import add_document, as_document
from penstock.jobs.tasks.heartbeat_thread import HeartbeatThread
from penstock.jobs.tasks.together import Together
from penstock.kafka.client.errors import ClientError, TopicRecreatedError
from penstock.kafka.client.positions import PositionTask, read_positions
from penstock.kafka.client.protocol.write_errors import (
    AbortedError,
    FencedError,
    UnknownOutcomeError,
)
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.client.writing.place_records import PlaceRecords
from penstock.kafka.wire.names import NO_ID

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
    from uuid import UUID

    from penstock.engine.chain import Chain, RecordVerdicts
    from penstock.engine.columns import RecordColumns
    from penstock.engine.verdict import PolicyVerdict
    from penstock.jobs.batches.targets import OutgoingBatch, Target
    from penstock.jobs.batches.task import BatchJob, TaskResult
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.tasks.planning import Task
    from penstock.jobs.topics.access import ClusterAccess
    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.client.positions import Claim
    from penstock.kafka.client.protocol.write_errors import RefusedBatchError
    from penstock.kafka.cluster.ranges import OffsetRange
    from penstock.kafka.records.stored_batch import StoredBatch

ACCEPTED, REJECTED, PARKED = "accepted", "rejected", "parked"
_LOOKED_EVERY_S: Final = 1.0
_WAITED_S: Final = 300.0
_AT_A_TIME: Final = 4
_SMALL: Final = 5_000
"""Ranges of fewer offsets mostly wait for the responses of transactions: several run at a
time. Larger ranges run alone, since each keeps its records in memory."""


class UnfinishedRange(NamedTuple):
    """A range of a stream that is not at its end.

    Attributes:
        offset: Where it was stopped: all before is committed, and counted in the result. None
            where it is not known how far it has come; nothing of it is counted then.
        reason: Why it failed for now; empty if it did not fail.
    """

    topic: str
    partition: int
    offset: int | None = None
    reason: str = ""


@dataclass
class WritingResult:
    """The results of tasks.

    Attributes:
        counts: Of the records of this run.
        before: Offsets that an earlier run of the same job had done.
        unfinished: Ranges that are not at their end; of a stream.
    """

    counts: RecordCounts = field(default_factory=RecordCounts)
    before: int = 0
    unfinished: tuple[UnfinishedRange, ...] = ()

    @property
    def outcomes(self) -> Mapping[str, Counter[str]]:
        """Records by topic and outcome."""
        return self.counts.by_topic()

    @property
    def removed(self) -> Mapping[str, int]:
        """Offsets that were removed before they were read, by topic."""
        return self.counts.removed_by_topic()

    def add(self, other: WritingResult) -> None:
        """Add the results of other tasks."""
        self.counts.merge(other.counts)
        self.before += other.before
        self.unfinished += other.unfinished

    def encode(self) -> bytes:
        """Return it as bytes, which `WritingResult.decode` reads."""
        document = {
            **as_document(self.counts),
            "before": self.before,
            "unfinished": self.unfinished,
        }
        return json.dumps(document).encode()

    @classmethod
    def decode(cls, data: bytes) -> WritingResult:
        """Return the result that `encode` made bytes of."""
        document = json.loads(data)
        unfinished = tuple(UnfinishedRange(*fields) for fields in document["unfinished"])
        result = cls(before=document["before"], unfinished=unfinished)
        add_document(result.counts, document)
        return result


def merged(results: Iterable[bytes]) -> bytes:
    """Merge the results of tasks."""
    total = WritingResult()
    for result in map(WritingResult.decode, results):
        total.add(result)
    return total.encode()


@dataclass(frozen=True)
class WritingTask:
    """Judges the records of a task's ranges and writes them.

    Attributes:
        topic_ids: The ids of the topics that are read, by topic.
        targets: Where records are written: `ACCEPTED`; `REJECTED` for a split, and without it
            records are only rewritten; for `redrive` all three, with `REJECTED` as the source.
        job: The id of the job, which its positions belong to.
        run: The owner of counts: the id of this run, or of a micro-batch of it.
        claims: Of this run, by topic and partition.
        replays_max: For `redrive`: how often a record is judged again before it is parked.
        letter_topics: For `redrive`: the topics whose letters return.
        places: For `redrive`: the topic where positions last.
        budget_s: For a stream: a task that has worked for longer leaves the rest of its ranges,
            and a temporary failure of a range is part of the result, not an error.
        counted_as: For a stream: the owner of the counts of some ranges instead of `run`, by topic
            and partition: those that an earlier micro-batch has begun.
        turn: For a stream: which of its ranges a task begins with, so that each has its turn.
    """

    access: ClusterAccess
    plan: RecordPlan
    topic_ids: Mapping[str, UUID]
    targets: Mapping[str, Target]
    job: str
    run: str
    claims: Mapping[tuple[str, int], Claim]
    replays_max: int | None = None
    letter_topics: LetterTopics = LetterTopics()  # noqa: RUF009 - it cannot be changed
    places: str | None = None
    budget_s: float | None = None
    counted_as: Mapping[tuple[str, int], str] = field(default_factory=dict)
    turn: int = 0

    def __call__(self, task: Task) -> Iterator[bytes | None]:
        """Do a task; yields None while it is at work, and its result.

        Raises:
            ConfigurationError: The policies cannot be loaded here, or no connection be made.
            ClientError: The cluster cannot be reached in time, or refuses.
            UnreadableBatchError: A batch is damaged.
            PostponedError: A policy cannot decide, even after a while.
        """
        connection = self.access.connect()
        is_over = self._timer()
        first = self.turn % max(len(task.ranges), 1)
        ordered = (*task.ranges[first:], *task.ranges[:first])
        total, one_at_a_time = WritingResult(), threading.Lock()

        def working(
            offset_range: OffsetRange,
        ) -> Callable[[], Generator[None, None, WritingResult]]:
            return lambda: self._do(connection, offset_range, is_over, one_at_a_time)

        small = [
            working(offset_range) for offset_range in ordered if offset_range.offsets <= _SMALL
        ]
        for result in (yield from Together(small).run(_AT_A_TIME)):
            total.add(result)
        for offset_range in ordered:
            if offset_range.offsets > _SMALL:
                total.add((yield from working(offset_range)()))
        yield total.encode()

    def _do(
        self,
        connection: Connection,
        offset_range: OffsetRange,
        is_over: Callable[[], bool],
        judging: threading.Lock,
    ) -> Generator[None, None, WritingResult]:
        if is_over():
            unfinished = (UnfinishedRange(offset_range.topic, offset_range.partition),)
            return WritingResult(unfinished=unfinished)
        if not offset_range.offsets:
            return (yield from self._keep(connection, offset_range))
        return (yield from self._attempt(connection, offset_range, is_over, judging))

    def _timer(self) -> Callable[[], bool]:
        budget_s = self.budget_s
        if budget_s is None:
            return never
        deadline = time.monotonic() + budget_s
        return lambda: time.monotonic() >= deadline

    def _attempt(
        self,
        connection: Connection,
        offset_range: OffsetRange,
        is_over: Callable[[], bool],
        judging: threading.Lock,
    ) -> Generator[None, None, WritingResult]:
        """Process a range; for a stream, a temporary failure is part of the result."""
        try:
            progress = yield from self._range(connection, offset_range, is_over, judging)
        except (ClientError, PostponedError) as error:
            return self._failed(offset_range, error)
        unfinished: tuple[UnfinishedRange, ...] = ()
        if progress.offset < offset_range.end:
            unfinished = (
                UnfinishedRange(offset_range.topic, offset_range.partition, progress.offset),
            )
        earlier_offsets = max(progress.counts_start - offset_range.start, 0)
        return WritingResult(progress.counts, earlier_offsets, unfinished)

    def _failed(
        self, offset_range: OffsetRange, error: ClientError | PostponedError
    ) -> WritingResult:
        if self.budget_s is None or not _may_pass(error):
            raise error
        failed = UnfinishedRange(offset_range.topic, offset_range.partition, reason=str(error))
        return WritingResult(unfinished=(failed,))

    def _keep(
        self, connection: Connection, offset_range: OffsetRange
    ) -> Generator[None, None, WritingResult]:
        """Commit a position again; an empty range of a stream requests it."""
        heartbeat: HeartbeatThread[None] = HeartbeatThread()
        position = PositionTask(
            self.job, offset_range.topic, self.topic_ids[offset_range.topic], offset_range.partition
        )
        try:
            yield from heartbeat.run(
                lambda: keep_position(
                    connection,
                    position,
                    offset_range.start,
                    claim=self.claims[offset_range.of],
                )
            )
        except ClientError as error:
            return self._failed(offset_range, error)
        return WritingResult()

    @property
    def limits(self) -> TaskLimits:
        """The limits of a chunk, and of a batch that is read."""
        limits = TaskLimits(max_decompressed_bytes=self.plan.max_decompressed_bytes)
        return limits if self.budget_s is None else limits._replace(chunk_s=self.budget_s)

    def merges(self, work: BatchJob) -> bool:
        """Return whether small batches may be judged together."""
        return self.plan.may_merge and not isinstance(work, Redrive)

    def _range(
        self,
        connection: Connection,
        offset_range: OffsetRange,
        is_over: Callable[[], bool],
        judging: threading.Lock,
    ) -> Generator[None, None, TaskProgress]:
        topic_id = self.topic_ids[offset_range.topic]
        position = PositionTask(self.job, offset_range.topic, topic_id, offset_range.partition)
        heartbeat: HeartbeatThread[TaskResult] = HeartbeatThread()
        work = self.job_of(offset_range, heartbeat.beat, judging)
        job = _BeatingJob(work, heartbeat)
        counted_as = self.counted_as.get(offset_range.of, self.run)
        task = range_task(
            connection,
            WantedRange(*offset_range, topic_id),
            position,
            run=counted_as,
            claim=self.claims[offset_range.of],
            places=None if self.places is None else PlaceRecords(self.places),
            limits=self.limits,
            is_over=is_over,
            recall=work.recall if isinstance(work, Redrive) else None,
            looks_back=LOOKS_BACK,
            merges=self.merges(work),
        )
        result = yield from heartbeat.run(lambda: run(task, job))
        if result.ending is not TaskEnding.FENCED:
            return result.progress
        claimed_by = self.claims[offset_range.of].run
        return (
            yield from _done_by_another(connection, position, offset_range, claimed_by, counted_as)
        )

    def job_of(
        self, offset_range: OffsetRange, beat: Callable[[], None], judging: threading.Lock
    ) -> BatchJob:
        """Return the work on the batches of a range.

        Args:
            beat: Called now and then while policies are at work.
            judging: Held while policies are at work: they are called by one thread at a time.
        """
        accepted, rejected = self.targets[ACCEPTED], self.targets.get(REJECTED)
        if rejected is None:
            judge = self._judge(offset_range.topic, beat, judging)
            return Redact(judge, offset_range.topic, offset_range.partition, target=accepted)
        if self.replays_max is None:
            judge = self._judge(offset_range.topic, beat, judging)
            return Split(
                judge,
                offset_range.topic,
                offset_range.partition,
                accepted=accepted,
                rejected=rejected,
            )
        return Redrive(
            self._judge(accepted.topic, beat, judging),
            offset_range.topic,
            offset_range.partition,
            target=accepted,
            again=rejected,
            parked=self.targets[PARKED],
            replays_max=self.replays_max,
            topics=self.letter_topics,
            originals=StoredOriginals(self.access.connect(), self.limits),
        )

    def _judge(self, topic: str, beat: Callable[[], None], judging: threading.Lock) -> BatchJudge:
        # A stream reports records that its policies cannot decide about, and retries them.
        retry_s = self.plan.retry_for_s if self.budget_s is None else 0.0
        with judging:
            chain = evaluator_of(self.plan).chain(topic)
        return _RetryingJudge(
            chain,
            self.plan.topic_ids.get(topic, NO_ID),
            records_policy_batch=self.plan.records_policy_batch,
            for_s=retry_s,
            beat=beat,
            judging=judging,
        )


def _no_beat() -> None:
    """Do nothing: the task yields after each batch."""


@dataclass(frozen=True)
class CountingTask:
    """Counts the records that a writing task would write."""

    writing_task: WritingTask

    def __call__(self, task: Task) -> Iterator[bytes | None]:
        """Do a task; yields None while it is at work, and its result.

        Raises:
            ConfigurationError: The policies cannot be loaded here, or no connection be made.
            ClientError: The cluster cannot be reached in time, or refuses.
            UnreadableBatchError: A batch is damaged.
            PostponedError: A policy cannot decide, even after a while.
        """
        connection, counts = self.writing_task.access.connect(), RecordCounts()
        limits = self.writing_task.limits
        for offset_range, offsets in zip(
            task.ranges, task.wanted(self.writing_task.topic_ids), strict=True
        ):
            job = self.writing_task.job_of(offset_range, _no_beat, threading.Lock())
            merge_limits = limits.of_batch if self.writing_task.merges(job) else None
            for fetched in RangeReader(
                connection, offsets, on_lost=ignore, merged_within=merge_limits
            ):
                batch = read_batch(fetched, offsets, limits)
                if len(batch.records) and not batch.is_control:
                    for _ in job.process(batch, counts):
                        continue
                yield None
        yield WritingResult(counts).encode()


class _RetryingJudge(BatchJudge):
    """Waits a while for policies that cannot decide now."""

    def __init__(
        self,
        chain: Chain | PolicyVerdict,
        topic_id: UUID,
        *,
        records_policy_batch: int,
        for_s: float,
        beat: Callable[[], None],
        judging: threading.Lock,
    ) -> None:
        super().__init__(chain, topic_id, records_policy_batch=records_policy_batch)
        self._for_s = for_s
        self._beat = beat
        self._judging_lock = judging

    def verdicts(self, partition: int, records: RecordColumns) -> RecordVerdicts:
        judge = super().verdicts
        with self._judging_lock:
            return decided(lambda: judge(partition, records), self._for_s, beat=self._beat)


class _BeatingJob:
    """A job with heartbeats, which show that it continues."""

    def __init__(self, job: BatchJob, heartbeat: HeartbeatThread[Any]) -> None:
        self._job = job
        self._heartbeat = heartbeat

    def process(self, batch: StoredBatch, counts: RecordCounts) -> Iterator[OutgoingBatch]:
        self._heartbeat.beat()
        yield from self._job.process(batch, counts)

    def rest(self) -> Iterable[OutgoingBatch]:
        self._heartbeat.beat()
        return self._job.rest()

    def forget(self) -> None:
        self._job.forget()

    def refuse(self, error: RefusedBatchError) -> bool:
        return self._job.refuse(error)


def _may_pass(error: ClientError | PostponedError) -> bool:
    """Return whether it can be gone by itself, or with the topic.

    These are also lost transactions, a topic that does not exist, or not any more, and records that
    a policy cannot decide about now.
    """
    if isinstance(error, PostponedError):
        return True
    return error.retriable or isinstance(
        error, (AbortedError, UnknownOutcomeError, TopicRecreatedError)
    )


def _done_by_another(
    connection: Connection,
    task: PositionTask,
    offset_range: OffsetRange,
    claimed_by: str,
    counted_as: str,
) -> Generator[None, None, TaskProgress]:
    """Wait until the attempt that has taken over is done."""
    partition = (offset_range.topic, offset_range.partition)
    reached, deadline = -1, time.monotonic() + _WAITED_S
    while time.monotonic() < deadline:
        position = read_positions(
            connection, task.group, {offset_range.topic: [offset_range.partition]}
        ).get(partition)
        if position is not None:
            counts = read_counts(position.metadata, counted_as, offset_range.of)
            if position.run not in {"", claimed_by}:
                break
            if counts is not None and position.offset >= offset_range.end:
                return TaskProgress(position.offset, counts.start, counts.counts)
            if position.offset != reached:
                reached, deadline = position.offset, time.monotonic() + _WAITED_S
        yield
        time.sleep(_LOOKED_EVERY_S)
    raise FencedError(f"{offset_range.of}: another run of the job {task.job} has taken over")
