"""Runs one task: a range of a source partition, in chunks that each are one transaction.

A task begins at its committed position. A failed attempt, a killed process,
an attempt that was assumed dead and an attempt that was started twice are the same case: the
writer that was opened last continues at the last commit, and all others are fenced.

For the counts, with or without interruptions, see `penstock.jobs.batches.committed_counts`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.jobs.batches.committed_counts import CommittedCounts, read_counts
from penstock.jobs.report.counts import RecordCounts
from penstock.kafka.client.errors import UnreadableBatchError
from penstock.kafka.client.positions import Position
from penstock.kafka.client.protocol.write_errors import (
    AbortedError,
    FencedError,
    RefusedBatchError,
    UnknownOutcomeError,
)
from penstock.kafka.client.reading.batches import read_fetched_batch
from penstock.kafka.cluster.ranges import Partition
from penstock.kafka.records.batch import MAX_RECORDS
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.merged import MergedBatches
from penstock.kafka.records.uncompressed import BatchLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.jobs.batches.targets import OutgoingBatch
    from penstock.kafka.client.reading.batches import FetchedBatch
    from penstock.kafka.client.reading.offset_ranges import LostOffsets, WantedRange
    from penstock.kafka.client.writing.transactional_writer import TransactionalWriter
    from penstock.kafka.records.stored_batch import StoredBatch

_ATTEMPTS: Final = 5
"""How often in a row a task begins again without a commit in between."""


class TaskLimits(NamedTuple):
    """The limits of a chunk, and of a batch that is read. A chunk has at least one batch.

    Attributes:
        chunk_bytes: Of stored batches, as they are stored.
        chunk_records: Of the source.
        chunk_s: Readers with `read_committed` see nothing of a chunk before its end, and brokers
            abort transactions after their timeout (`penstock.kafka.client.writing.limits`).
        max_decompressed_bytes: A batch that is larger, decompressed, ends the task.
        max_batch_records: A batch of more records ends the task.
    """

    chunk_bytes: int = 32 * 2**20
    chunk_records: int = 250_000
    chunk_s: float = 10.0
    max_decompressed_bytes: int = 128 * 2**20
    max_batch_records: int = MAX_RECORDS

    @property
    def of_batch(self) -> BatchLimits:
        """The limits of a batch that is read."""
        return BatchLimits(self.max_decompressed_bytes, self.max_batch_records)


class BatchJob(Protocol):
    """The work on batches: `Split`, `Redact` or `Redrive`."""

    def process(self, batch: StoredBatch, counts: RecordCounts) -> Iterable[OutgoingBatch]:
        """Judge the records of a batch; return the batches to write, in order.

        Args:
            batch: With at least one record.
            counts: Its records are added.

        Raises:
            RefusedBatchError: A record does not fit a target.
            PostponedError: A policy cannot decide now.
        """

    def rest(self) -> Iterable[OutgoingBatch]:
        """Return the records that have waited for more records; called before each commit.

        Raises:
            RefusedBatchError: A record does not fit a target.
        """

    def forget(self) -> None:
        """Drop the records that wait for more: their transaction is lost."""

    def refuse(self, error: RefusedBatchError) -> bool:
        """Take note that a target refuses a batch; return whether the next attempt differs."""


class Read(Protocol):
    """Reads a range of offsets, as `RangeReader` does."""

    def __call__(
        self, offsets: WantedRange, *, on_lost: Callable[[LostOffsets], None]
    ) -> Iterable[FetchedBatch]: ...


class TaskProgress(NamedTuple):
    """How far a task has come.

    Attributes:
        offset: The next offset to read.
        counts_start: The offset from which `counts` count: the first of the range, unless an
            operator moved the position in between.
        counts: Of all that was committed since, by this attempt and those before.
    """

    offset: int
    counts_start: int
    counts: RecordCounts


class TaskEnding(StrEnum):
    """How a task ended without an error."""

    DONE = "done"
    """All of the range is committed, by this attempt and those before."""
    STOPPED = "stopped"
    """The first part of the range is committed, and the rest is left: `RangeTask.is_over`."""
    FENCED = "fenced"
    """Another attempt has taken over, and is or was running. The caller has to wait for
    it, or to read the committed position; beginning again would fence it in turn."""


class TaskResult(NamedTuple):
    """The end of a task.

    Attributes:
        ending: How it ended.
        progress: How far this attempt knows it to have come; for `DONE` and `STOPPED` with all
            counts.
    """

    ending: TaskEnding
    progress: TaskProgress


def ignore(_: object) -> None:
    """Do nothing with the argument."""


def never() -> bool:
    """Return False."""
    return False


@dataclass(frozen=True)
class RangeTask:
    """A task to run.

    Attributes:
        offsets: The range. A position that is committed in it is gone on from.
        read: Reads a part of it.
        open_writer: Opens a writer, which fences all older writers of the task.
        run: The run that counts belong to: if it continues, they are added to; a text of
            at most 400 ASCII characters.
        limits: When a chunk ends.
        on_chunk: Called after each commit.
        on_lost: Called with offsets that retention removed, before they are counted; may raise,
            which ends the task.
        is_over: Called after each commit; returns whether the rest of the range is left to a later
            task.
        recall: Called with the batches of the offsets before that at which the first attempt
            begins, as many as `looks_back`, and again if another task has moved the
            position; None if they are not needed.
        looks_back: How many offsets before.
        merges: Whether small batches are given to the job as larger batches.
        clock: Returns seconds that never go back.
    """

    offsets: WantedRange
    read: Read
    open_writer: Callable[[], TransactionalWriter]
    run: str
    limits: TaskLimits = TaskLimits()  # noqa: RUF009 - it cannot be changed
    on_chunk: Callable[[TaskProgress], None] = ignore
    on_lost: Callable[[LostOffsets], None] = ignore
    is_over: Callable[[], bool] = never
    recall: Callable[[StoredBatch], None] | None = None
    looks_back: int = 0
    merges: bool = False
    clock: Callable[[], float] = time.monotonic


def run(task: RangeTask, job: BatchJob) -> TaskResult:
    """Run a task to its end, or until it is over, from its committed position on.

    After a transaction that was lost, or whose commit is unknown, it
    begins again at the committed position. So it does after a batch that a target refuses, if the
    job can continue without it.

    Returns:
        How it ended.

    Raises:
        AbortedError: Transactions are lost again and again.
        UnknownOutcomeError: It is not known whether a commit succeeded, several times in a row.
        UnreadableBatchError: A batch is damaged, or larger than allowed.
        RefusedBatchError: A target does not accept a batch or a record, and the job needs it.
        PostponedError: A policy cannot decide now; uncommitted records are aborted.
        ClientError: The cluster does not respond in time, or denies it.
    """
    task_run = _TaskRun(task, job)
    failures, reached = 0, -1
    while True:
        try:
            with task.open_writer() as writer:
                task_run.attempt(writer)
        except FencedError:
            return TaskResult(TaskEnding.FENCED, task_run.progress)
        except (AbortedError, UnknownOutcomeError):
            failures = failures + 1 if task_run.progress.offset == reached else 1
            reached = task_run.progress.offset
            if failures >= _ATTEMPTS:
                raise
        except RefusedBatchError as error:
            if not job.refuse(error):
                raise
            task_run.shorten_chunks()
        else:
            is_done = task_run.progress.offset >= task.offsets.end
            return TaskResult(TaskEnding.DONE if is_done else TaskEnding.STOPPED, task_run.progress)


def read_batch(fetched: FetchedBatch, offsets: WantedRange, limits: TaskLimits) -> StoredBatch:
    """Read a batch of a range.

    Raises:
        UnreadableBatchError: It is damaged, or larger than allowed.
    """
    try:
        return read_fetched_batch(
            fetched,
            max_decompressed_bytes=limits.max_decompressed_bytes,
            max_records=limits.max_batch_records,
        )
    except UnreadableRecords as wrong:
        place = f"topic {offsets.topic}, partition {offsets.partition}"
        raise UnreadableBatchError(fetched.base_offset, wrong.message, place) from None


class _TaskRun:
    """One task at work, with one writer after the other."""

    def __init__(self, task: RangeTask, job: BatchJob) -> None:
        self._task = task
        self._job = job
        self._partition = Partition(task.offsets.topic, task.offsets.partition)
        self._chunk = RecordCounts()
        self._batches_max: int | None = None
        self._small_batches = MergedBatches()
        first = task.offsets.first
        self.progress = TaskProgress(first, first, RecordCounts())
        self._is_known = False
        self._has_recalled = False

    def shorten_chunks(self) -> None:
        """Commit after the next batch, and after twice as many each time.

        Each batch that a target refuses costs the work since the last commit.
        """
        self._batches_max = 1

    def attempt(self, writer: TransactionalWriter) -> None:
        """Work to the end of the range, until it is over, or until a transaction is lost."""
        try:
            self._go_on(writer)
        except (AbortedError, UnknownOutcomeError):
            # Brokers may respond to a writer that was fenced that its transaction is lost.
            # Beginning again, it would fence the writer that took over; only the last gets a new
            # epoch.
            writer.abort()
            raise

    def _go_on(self, writer: TransactionalWriter) -> None:
        task, limits = self._task, self._task.limits
        self._find_progress(writer.position)
        self._job.forget()
        self._small_batches.forget()
        self._chunk = RecordCounts()
        offsets = task.offsets._replace(first=self.progress.offset)
        if offsets.first >= offsets.end:
            return
        self._recall(offsets)
        size, records, batches, ends_at = 0, 0, 0, task.clock() + limits.chunk_s
        for fetched in task.read(offsets, on_lost=self._lose):
            batch = read_batch(fetched, offsets, limits)
            if len(batch.records) and not batch.is_control:
                self._process(self._small_batches.add(batch) if task.merges else (batch,), writer)
            size, records = size + len(fetched.data), records + len(batch.records)
            batches += 1
            if (
                size >= limits.chunk_bytes
                or records >= limits.chunk_records
                or task.clock() >= ends_at
                or batches == self._batches_max
            ):
                self._commit(writer, fetched.end)
                if task.is_over():
                    return
                size, records, batches, ends_at = 0, 0, 0, task.clock() + limits.chunk_s
        if self.progress.offset < offsets.end:
            # Also without a record: the position shows that the range is done.
            self._commit(writer, offsets.end)

    def _process(self, batches: Iterable[StoredBatch], writer: TransactionalWriter) -> None:
        for batch in batches:
            for outgoing in self._job.process(batch, self._chunk):
                writer.write(*outgoing)

    def _recall(self, offsets: WantedRange) -> None:
        """Pass the job the batches before the offset at which it begins, unless it has them."""
        task = self._task
        history = offsets._replace(first=max(0, offsets.first - task.looks_back), end=offsets.first)
        if task.recall is None or self._has_recalled or history.first >= history.end:
            return
        for fetched in task.read(history, on_lost=ignore):
            batch = read_batch(fetched, history, task.limits)
            if len(batch.records) and not batch.is_control:
                task.recall(batch)
        self._has_recalled = True

    def _find_progress(self, position: Position | None) -> None:
        """Find out which position was committed, by this attempt or another."""
        first = self._task.offsets.first
        if position is None or position.offset < first:
            self.progress = TaskProgress(first, first, RecordCounts())
        elif not self._is_known or position.offset != self.progress.offset:
            run = self._task.run
            counts = read_counts(position.metadata, run, self._partition)
            if counts is None:
                counts = CommittedCounts(run, position.offset, RecordCounts())
            self.progress = TaskProgress(position.offset, counts.start, counts.counts)
            self._has_recalled = False  # another attempt has read earlier batches
        self._is_known = True

    def _lose(self, gap: LostOffsets) -> None:
        self._task.on_lost(gap)
        self._chunk.add_removed(self._partition, gap.end - gap.first)

    def _commit(self, writer: TransactionalWriter, offset: int) -> None:
        """Commit a chunk with the counts that include it."""
        self._process(self._small_batches.rest(), writer)
        rest = list(self._job.rest())
        writer.add((outgoing.topic, outgoing.partition) for outgoing in rest)
        for outgoing in rest:
            writer.write(*outgoing)
        counts_start = self.progress.counts_start
        counts = self.progress.counts.plus(self._chunk)
        text = CommittedCounts(self._task.run, counts_start, counts).text()
        writer.commit(Position(offset, text))
        self.progress = TaskProgress(offset, counts_start, counts)
        self._chunk = RecordCounts()
        if self._batches_max is not None:
            self._batches_max *= 2
        self._task.on_chunk(self.progress)
