"""Splits records into accepted records and dead letters."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.engine.chain import remaining_positions
from penstock.engine.modes.dead_letters import LetterHeaders, Origin, of_plan
from penstock.engine.verdict import REJECTED
from penstock.jobs.batches.buffers import DeadLetterBuffer
from penstock.jobs.batches.outgoing_records import OutgoingRecords
from penstock.kafka.cluster.ranges import Partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.engine.verdict import PolicyVerdict
    from penstock.jobs.batches.judge import BatchJudge
    from penstock.jobs.batches.targets import OutgoingBatch, Target
    from penstock.jobs.report.counts import RecordCounts
    from penstock.kafka.client.protocol.write_errors import RefusedBatchError
    from penstock.kafka.records.stored_batch import StoredBatch


class Split:
    """Writes accepted records as interceptors left them, and the others as dead letters.

    Dead letters have key, value and headers as they were, headers with their origin and the
    reason, and the time of now: with old timestamps retention would remove them. A record that is
    a dead letter already keeps the place that it first came from. What an interceptor dropped is
    not written.

    Its counts are by outcome.
    """

    def __init__(
        self,
        judge: BatchJudge,
        topic: str,
        partition: int,
        *,
        accepted: Target,
        rejected: Target,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare for one source partition.

        Args:
            judge: The policies of the source topic.
            topic: The source topic.
            partition: The source partition.
            accepted: Where accepted records are written.
            rejected: Where dead letters are written.
            clock: Returns seconds since the epoch.
        """
        self._judge = judge
        self._source = Partition(topic, partition)
        self._outgoing = OutgoingRecords(self._source, accepted)
        self._headers = LetterHeaders()
        self._letters = DeadLetterBuffer(self._source, rejected, clock)

    def process(self, batch: StoredBatch, counts: RecordCounts) -> Iterator[OutgoingBatch]:
        """Return the batches to write for a batch; see `penstock.jobs.batches.task.BatchJob`."""
        count = len(batch.records)
        batch_verdicts = self._judge.of_batch(self._source.number, batch.records)
        accepted_positions: Sequence[int] = range(count)
        if batch_verdicts.verdicts:
            accepted_positions = remaining_positions(count, batch_verdicts.verdicts)
        counts.add_verdicts(
            self._source,
            (verdict for _, verdict in batch_verdicts.verdicts),
            accepted=len(accepted_positions),
        )
        yield from self._outgoing.add(batch, accepted_positions, batch_verdicts.replaced)
        if not batch_verdicts.verdicts:
            return
        rejected = sorted(
            (pair for pair in batch_verdicts.verdicts if pair[1].outcome in REJECTED),
            key=lambda pair: pair[0],
        )
        yield from self._letters.add(
            batch,
            [position for position, _ in rejected],
            [self._headers_of(batch, position, verdict) for position, verdict in rejected],
        )

    def rest(self) -> Iterator[OutgoingBatch]:
        """Return the waiting records."""
        yield from self._outgoing.rest()
        yield from self._letters.rest()

    def refuse(self, error: RefusedBatchError) -> bool:  # noqa: ARG002 - as in `BatchJob`
        """Return False: each record has to be written."""
        return False

    def forget(self) -> None:
        """Drop the waiting records."""
        self._outgoing.forget()
        self._letters.forget()

    def _headers_of(
        self, batch: StoredBatch, position: int, verdict: PolicyVerdict
    ) -> list[tuple[str, bytes | None]]:
        records = batch.records
        here = Origin(
            self._source.topic,
            self._source.number,
            batch.offsets[position],
            records.timestamps[position],
        )
        headers = self._headers.of_record(verdict, records.headers[position], here)
        return [*headers, *of_plan(self._judge.digest)]
