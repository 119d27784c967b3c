"""The policies of one topic, which judge the records of stored batches."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING

from penstock.engine.chain import Chain, RecordVerdicts
from penstock.engine.stored_columns import StoredColumns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from penstock.engine.columns import RecordColumns
    from penstock.engine.verdict import PolicyVerdict
    from penstock.kafka.records.stored import StoredRecords


class BatchJudge:
    """Judges each record by itself, as if it had been sent alone."""

    def __init__(
        self, chain: Chain | PolicyVerdict, topic_id: UUID, *, records_policy_batch: int = 1
    ) -> None:
        """Take the policies.

        Args:
            chain: The policies of the topic; or the verdict on all its records where its policies
                cannot be configured (`penstock.engine.chain.unusable`).
            topic_id: The id of the topic, for policies that use it; or zero.
            records_policy_batch: How many consecutive records of a stored batch a `RecordsPolicy`
                is given at most at a time.
        """
        self._chain = chain
        self._topic_id = topic_id
        self._records_policy_batch = records_policy_batch

    def verdicts(self, partition: int, records: RecordColumns) -> RecordVerdicts:
        """Return the verdicts on some records of a partition.

        The replaced values are None if interceptors left all records unchanged.

        Raises:
            PostponedError: A policy cannot decide now.
        """
        if not isinstance(self._chain, Chain):
            return RecordVerdicts([(index, self._chain) for index in range(records.count)], None)
        if self._chain.is_empty:
            return _ALL_ACCEPTED
        return self._chain.judge_each(
            partition,
            self._topic_id,
            records,
            records_policy_batch=self._records_policy_batch,
        )

    @property
    def digest(self) -> str:
        """The digest of the topic's plan; empty if it is unknown."""
        return self._chain.plan.digest if isinstance(self._chain, Chain) else ""

    def of_batch(self, partition: int, records: StoredRecords) -> RecordVerdicts:
        """Return the verdicts on the records of a stored batch."""
        result = self.verdicts(partition, StoredColumns(records))
        if result.replaced is None:
            return result
        keys, values = (_listed(column) for column in result.replaced)
        if not result.verdicts and _same(keys, records.keys) and _same(values, records.values):
            return result._replace(replaced=None)
        return result._replace(replaced=(keys, values))


_ALL_ACCEPTED = RecordVerdicts((), None)


def _listed(column: Sequence[bytes | None]) -> Sequence[bytes | None]:
    return column if isinstance(column, (list, tuple)) else list(column)


def _same(first: Sequence[bytes | None], other: Sequence[bytes | None]) -> bool:
    """Return whether two columns are equal; columns of the same objects in C."""
    return all(map(is_, first, other)) or list(first) == list(other)
