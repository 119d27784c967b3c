"""Rewrites records by the interceptors (KIP-905) of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.chain import remaining_positions
from penstock.jobs.batches.outgoing_records import OutgoingRecords
from penstock.kafka.cluster.ranges import Partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.jobs.batches.judge import BatchJudge
    from penstock.jobs.batches.targets import OutgoingBatch, Target
    from penstock.jobs.report.counts import RecordCounts
    from penstock.kafka.client.protocol.write_errors import RefusedBatchError
    from penstock.kafka.records.stored_batch import StoredBatch


class Redact:
    """Writes records with the keys and values that interceptors made, all else unchanged.

    What an interceptor dropped or failed on is not written. A large batch in which nothing changed
    keeps its bytes.

    Its counts are by outcome.
    """

    def __init__(self, judge: BatchJudge, topic: str, partition: int, *, target: Target) -> None:
        """Prepare for one source partition.

        Args:
            judge: The interceptors of the source topic, and nothing that refuses.
            topic: The source topic.
            partition: The source partition.
            target: Where records are written.
        """
        self._judge = judge
        self._source = Partition(topic, partition)
        self._outgoing = OutgoingRecords(self._source, target)

    def process(self, batch: StoredBatch, counts: RecordCounts) -> Iterable[OutgoingBatch]:
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
        return self._outgoing.add(batch, accepted_positions, batch_verdicts.replaced)

    def rest(self) -> Iterable[OutgoingBatch]:
        """Return the waiting records."""
        return self._outgoing.rest()

    def refuse(self, error: RefusedBatchError) -> bool:  # noqa: ARG002 - as in `BatchJob`
        """Return False: each record has to be written."""
        return False

    def forget(self) -> None:
        """Drop the waiting records."""
        self._outgoing.forget()
