"""A task of an audit, in a worker of Spark or in this process: raw batches in, counts out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.engine.stored_columns import StoredColumns
from penstock.engine.verdict import Outcome
from penstock.jobs.evaluation import evaluator_of
from penstock.jobs.plan import MAX_DECOMPRESSED_BYTES
from penstock.jobs.report.counts import AuditCounts, Reason
from penstock.jobs.report.encoding import decode, encode
from penstock.jobs.tasks.batch_counts import StoredCounts
from penstock.jobs.tasks.retention import RangeResult
from penstock.kafka.client.reading.batches import read_fetched_batch
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.cluster.ranges import OffsetRange
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.merged import MergedBatches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.jobs.batches.task import Read
    from penstock.jobs.evaluation import Evaluator
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.tasks.planning import Task
    from penstock.jobs.topics.access import ClusterAccess
    from penstock.kafka.client.reading.batches import FetchedBatch
    from penstock.kafka.client.reading.offset_ranges import WantedRange
    from penstock.kafka.records.stored_batch import StoredBatch


class AuditResult(NamedTuple):
    """The results of tasks.

    Attributes:
        ranges: The part of each range that was read.
    """

    counts: AuditCounts
    ranges: list[RangeResult]

    def encode(self) -> bytes:
        """Return it as bytes, which `AuditResult.decode` reads."""
        ranges = [
            [*result.offsets, [[gap.start, gap.end] for gap in result.gaps]]
            for result in self.ranges
        ]
        return json.dumps(ranges, separators=(",", ":")).encode() + b"\n" + encode(self.counts)

    @classmethod
    def decode(cls, data: bytes) -> AuditResult:
        """Return the result that `encode` made bytes of."""
        ranges, _, counts = data.partition(b"\n")
        return cls(decode(counts), [_range_result(*fields) for fields in json.loads(ranges)])


def merged(results: Iterable[bytes]) -> bytes:
    """Merge the results of tasks."""
    total = AuditResult(AuditCounts(), [])
    for result in map(AuditResult.decode, results):
        total.counts.merge(result.counts)
        total.ranges.extend(result.ranges)
    return total.encode()


@dataclass(frozen=True)
class AuditTask:
    """Judges the records of a task's ranges and counts the verdicts.

    Attributes:
        plan: The plan whose verdicts are counted.
        other: A plan to compare it with, or None.
    """

    access: ClusterAccess
    plan: RecordPlan
    other: RecordPlan | None = None

    def __call__(self, task: Task) -> Iterator[bytes | None]:
        """Do a task; yields None while it is at work, and its result.

        Raises:
            ConfigurationError: The policies cannot be loaded here, or no connection be made.
            ClientError: The cluster cannot be reached in time, or refuses.
            UnreadableBatchError: The end of a damaged batch is unknown.
        """
        plans = [self.plan] if self.other is None else [self.plan, self.other]
        merges, limits = all(plan.may_merge for plan in plans), self.plan.batch_limits
        reader = partial(
            RangeReader, self.access.connect(), merged_within=limits if merges else None
        )
        counting = RangeCounting(
            reader, list(map(evaluator_of, plans)), limits.decompressed_bytes, merges=merges
        )
        for offsets in task.wanted(self.plan.topic_ids):
            for _ in counting.add(offsets):
                yield None
        yield counting.result().encode()


class RangeCounting:
    """Judges and counts the records of ranges."""

    def __init__(
        self,
        reader: Read,
        evaluators: list[Evaluator],
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
        *,
        merges: bool = True,
    ) -> None:
        """Set the reader and the judge.

        Args:
            reader: Returns the batches of a range, and reports offsets that the log does not have
                any more.
            evaluators: The policies, and those to compare them with if there are any.
            max_decompressed_bytes: Records of a larger batch have failed.
            merges: Whether small batches that follow each other are judged together, which gives
                the same counts unless a policy is given several records at a time.
        """
        self._reader = reader
        self._max_decompressed_bytes = max_decompressed_bytes
        self._evaluators = evaluators
        self._merges = merges
        evaluators[0].take_path_counts()  # of other work that this process did
        self._counts = StoredCounts()
        self._ranges: list[RangeResult] = []

    def add(self, offsets: WantedRange) -> Iterator[None]:
        """Judge and count the records of a range; yields after each batch."""
        gaps: list[OffsetRange] = []
        merged = MergedBatches()
        for fetched in self._reader(offsets, on_lost=lambda gap: gaps.append(OffsetRange(*gap))):
            batch = self._read_batch(offsets, fetched)
            if batch is not None and len(batch.records):
                self._judge(offsets, merged.add(batch) if self._merges else (batch,))
            yield
        self._judge(offsets, merged.rest())
        planned = OffsetRange(offsets.topic, offsets.partition, offsets.first, offsets.end)
        self._ranges.append(RangeResult(planned, tuple(gaps)))

    def result(self) -> AuditResult:
        """Return the result of all ranges that were added."""
        counts = self._counts.counts()
        counts.paths.add(self._evaluators[0].take_path_counts())
        return AuditResult(counts, self._ranges)

    def _read_batch(self, offsets: WantedRange, fetched: FetchedBatch) -> StoredBatch | None:
        """Read a batch; one that cannot be read is counted, and None is returned."""
        try:
            return read_fetched_batch(fetched, max_decompressed_bytes=self._max_decompressed_bytes)
        except UnreadableRecords as wrong:
            reason = Reason(offsets.topic, Outcome.FAILED.value, "", wrong.code, wrong.message)
            count = _announced(fetched)
            self._counts.add_unreadable(reason, offsets.partition, fetched.first, count)
            return None

    def _judge(self, offsets: WantedRange, batches: Iterable[StoredBatch]) -> None:
        for batch in batches:
            columns = StoredColumns(batch.records)
            verdicts, *others = (
                evaluator.judge_records(offsets.topic, offsets.partition, columns).verdicts
                for evaluator in self._evaluators
            )
            self._counts.add(offsets.topic, offsets.partition, batch, verdicts, *others)


def _announced(fetched: FetchedBatch) -> int:
    """Return how many records an unreadable batch has in the range by its header; at least one."""
    return max(min(fetched.record_count, fetched.end - fetched.first), 1)


def _range_result(
    topic: str, partition: int, start: int, end: int, gap_bounds: list[list[int]]
) -> RangeResult:
    def part(bounds: Any) -> OffsetRange:
        return OffsetRange(topic, partition, *bounds)

    return RangeResult(part((start, end)), tuple(map(part, gap_bounds)))
