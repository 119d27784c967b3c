"""Decides which decisions about batches are written for other gateways, and which of them fence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.gateway.produce.producer_state.producer.batch import State

if TYPE_CHECKING:
    from penstock.gateway.produce.producer_state.doubts import Doubts
    from penstock.gateway.produce.producer_state.producer.batch import Batch
    from penstock.gateway.produce.producer_state.producer.state_machine import Producer
    from penstock.gateway.produce.producer_state.records.encoding import ProducerKey

_TO_BE_WRITTEN: Final = frozenset({State.DECIDED, State.AWAITED})
"""States of a batch that, as far as is known, was not sent since it was decided."""


class WrittenDecisions:
    """The rules for decisions that are written before their batches are sent."""

    def __init__(self, doubts: Doubts, *, is_shared: bool) -> None:
        """Make the rules.

        Args:
            doubts: The changes of interceptors.
            is_shared: Whether the state is shared by gateways.
        """
        self._doubts = doubts
        self._is_shared = is_shared

    def fence(
        self,
        key: ProducerKey,
        producer: Producer,
        batch: Batch,
        connection: int,
        *,
        is_agreed: bool,
    ) -> bool:
        """Whether the decision about a batch has to be written, and then counts for all.

        Args:
            producer: Its state, which from then on says up to where gateways agree.
            batch: The decided batch.
            connection: The number of the connection on which it will be sent.
            is_agreed: Whether no other gateway could be writing another decision about it.
        """
        if is_agreed:
            fences = False
        elif not self._is_shared or (batch.is_done and batch.state not in _TO_BE_WRITTEN):
            return False
        else:
            is_unsure = producer.at_broker.begins_late or producer.record.begins_unknown
            fences = is_unsure or self._doubts.affect(key.topic)
        if is_agreed or fences:
            producer.record.agreed_at = batch.next, connection, self._doubts.generation
        return fences

    def include(self, key: ProducerKey, batch: Batch) -> bool:
        """Whether the decision about a batch has to be written, for every gateway.

        If another gateway may drop the records that are sent here, also that none is dropped: the
        broker does not know everything. Its leader may not have the records of a former leader.
        """
        if batch.state not in _TO_BE_WRITTEN:
            return False
        return bool(batch.dropped_count) or (self._is_shared and self._doubts.affect(key.topic))
