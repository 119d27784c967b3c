"""Decides about the intercepted batches of a request, with the state of their producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.produce.dead_letters.failures import LettersRefused
from penstock.gateway.produce.intercepted.error_responses import (
    NOT_KEPT,
    error_response,
    letters_not_stored,
)
from penstock.gateway.produce.partition import Decision
from penstock.gateway.produce.partition_state import PartitionState
from penstock.gateway.produce.producer_state.letters import LettersNotStored, Quarantined
from penstock.gateway.produce.producer_state.producer.batch import State
from penstock.kafka.records.header import is_intact
from penstock.kafka.wire.errors import REQUEST_TIMED_OUT, UNKNOWN_PRODUCER_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.gateway.produce.partition import BatchIdentity, ProducePartition
    from penstock.gateway.produce.request import ReceivedRequest

    Buffer = bytes | memoryview


class BatchDecisions:
    """The decisions about the batches of one request.

    Attributes:
        unwritten: How many decisions, or dead letters, have to be written before the batches go.
    """

    __slots__ = ("_producers", "_request", "unwritten")

    def __init__(self, request: ReceivedRequest) -> None:
        """Begin without a decision."""
        self._request = request
        self._producers = request.gateway.producers
        self.unwritten = 0

    def decide(
        self,
        partition: ProducePartition,
        identity: BatchIdentity,
        on_written: Callable[[], None],
    ) -> None:
        """Decide about a batch whose sequence numbers may have to be changed.

        If it cannot be sent, it gets its response.

        Args:
            partition: The partition of the batch.
            on_written: Called whenever `unwritten` has become less.
        """
        if self._has_to_be_judged_again(partition, identity):
            self._defer(identity)
            self._request.answer(partition, error_response(REQUEST_TIMED_OUT))
            return
        replacement = partition.replacement
        own: Buffer = partition.data if replacement is None else replacement.data
        at_once: list[str | None] = []

        def written(failure: str | None) -> None:
            if partition.decision is None:
                at_once.append(failure)
                return
            self.unwritten -= 1
            self._written(partition, failure)
            on_written()

        decided = self._producers.decide(
            *identity,
            partition.dropped,
            own,
            connection=self._request.connection.number,
            is_changed=_is_changed(partition),
            topic_id=partition.topic.topic_id,
            quarantined=_quarantined(partition, identity),
            callback=written,
        )
        if isinstance(decided, int):
            self._request.answer(partition, error_response(decided))
            return
        is_original = decided.is_whole or (replacement is None and decided.data is own)
        partition.decide(Decision(identity, decided.batch, decided.data, is_original))
        if at_once:
            self._written(partition, at_once[0])
        else:
            self.unwritten += 1

    def _has_to_be_judged_again(self, partition: ProducePartition, identity: BatchIdentity) -> bool:
        """Whether the first attempt of a batch was forgotten, or became known, since `expect`.

        In the second case another gateway has decided, and the same records have to be dropped.
        """
        batch = self._producers.find(identity.key, identity.epoch, identity.numbers)
        if batch is not None and batch.is_decided:
            return False
        if partition.state is PartitionState.PENDING:
            return True
        return batch is not None and not set(batch.dropped_again) <= set(partition.dropped)

    def _written(self, partition: ProducePartition, failure: str | None) -> None:
        decision = partition.decision
        if failure is None or decision is None:
            return
        identity = decision.identity
        self._producers.not_kept(identity.key, identity.epoch, decision.batch)
        if partition.refused_letters is not None:
            self._producers.refuse(*identity)
            self._request.answer(partition, letters_not_stored(partition.refused_letters))
        elif isinstance(failure, LettersNotStored):
            self._request.answer(partition, letters_not_stored(failure))
        else:
            self._request.answer(partition, NOT_KEPT)

    def store_letters(self, partition: ProducePartition, on_written: Callable[[], None]) -> None:
        """Store the dead letters of a batch whose producer is not known by its numbers.

        Args:
            partition: The partition of the batch.
            on_written: Called whenever `unwritten` has become less.
        """

        def stored(failure: str | None) -> None:
            self.unwritten -= 1
            if isinstance(failure, LettersRefused):
                partition.refused_letters = failure
            if failure is not None:
                self._request.answer(partition, letters_not_stored(failure))
            on_written()

        assert partition.store_letters is not None
        self.unwritten += 1
        partition.store_letters(partition.letters, stored, None)

    def refuse_unknown(self, partition: ProducePartition, identity: BatchIdentity) -> None:
        """Have a producer begin again whose dropped records are not known any more."""
        self._producers.forget(identity.key)
        self._request.answer(partition, error_response(UNKNOWN_PRODUCER_ID))

    def record_response(self, partition: ProducePartition, identity: BatchIdentity) -> None:
        """Record that the gateway responds to a batch with an error, and does not send it.

        The sequence numbers of a damaged batch may be wrong, and are not recorded.
        """
        if not is_intact(partition.data):
            return
        is_retried = self._request.is_retried(partition)
        record = self._producers.defer if is_retried else self._producers.refuse
        record(*identity)

    def withdraw(self, partition: ProducePartition) -> None:
        """Record that a batch is not sent after all: the client retries it."""
        decision = partition.decision
        if decision is not None and decision.batch.state is State.DECIDED:
            self._defer(decision.identity)

    def _defer(self, identity: BatchIdentity) -> None:
        self._producers.defer(*identity, connection=self._request.connection.number)

    def is_stored(self, partition: ProducePartition) -> bool:
        """Return whether a batch is a retry of a batch that was stored or acknowledged."""
        identity = partition.identity
        if identity is None:
            return False
        batch = (
            self._producers.find(identity.key, identity.epoch, identity.numbers)
            if partition.decision is None
            else partition.decision.batch
        )
        return batch is not None and batch.state in {State.STORED, State.ACKNOWLEDGED}


def _is_changed(partition: ProducePartition) -> bool:
    """Whether interceptors may have changed records that are left, not only headers (marks)."""
    plan = partition.topic.plan
    return bool(partition.replacement and plan is not None and plan.interceptors)


def _quarantined(partition: ProducePartition, identity: BatchIdentity) -> Quarantined | None:
    writer = partition.store_letters
    if writer is None:
        return None

    def store(
        letters: bytes, positions: Sequence[int], callback: Callable[[str | None], None]
    ) -> None:
        def stored(failure: str | None) -> None:
            partition.refused_letters = failure if isinstance(failure, LettersRefused) else None
            callback(failure)

        # The same in each attempt of the client, whose first may not be over.
        key = identity.key, identity.epoch, identity.numbers, hash(tuple(positions))
        writer(letters, stored, key)

    replacement = partition.replacement
    if replacement is None or not replacement.quarantined:
        return Quarantined((), None, store)
    return Quarantined(replacement.quarantined, replacement.letters, store)
