"""Stores the dead letters of batches, once the decisions about these batches are written."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.gateway.produce.producer_state.held_batches import HeldBatches
    from penstock.gateway.produce.producer_state.producer.batch import Batch
    from penstock.gateway.produce.producer_state.producer.state_machine import Producer
    from penstock.gateway.produce.producer_state.producers_in_use import ProducersInUse
    from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
    from penstock.gateway.produce.producer_state.records.writer import RecordWriter


class LettersNotStored(str):
    """Why the dead letters of a batch could not be stored."""

    __slots__ = ()


class Quarantined(NamedTuple):
    """The records of a batch that become dead letters.

    Attributes:
        letters: The dead letters; None where they are not known, because the batch was not judged.
        store: Stores the dead letters of records at some positions; its last argument is called
            with None, or with an error message.
    """

    positions: Sequence[int]
    letters: bytes | None
    store: Callable[[bytes, Sequence[int], Callable[[str | None], None]], None]

    def are_of(self, decision: Batch, first_attempt: Batch | None) -> bool:
        """Whether the dead letters made now are those of a decided batch.

        They are not if an earlier decision about other records stays.

        Args:
            decision: The decided batch.
            first_attempt: The batch of the first attempt, if this is a retry.
        """
        if self.letters is None or decision.is_lettered:
            return False
        if decision is not first_attempt:
            return True
        return list(decision.quarantined) == list(self.positions)


class Letters:
    """The dead letters of decided batches."""

    def __init__(
        self,
        held_batches: HeldBatches,
        writer: RecordWriter,
        in_use: ProducersInUse,
        *,
        is_shared: bool,
    ) -> None:
        """Begin without dead letters.

        Args:
            held_batches: The batches whose dead letters are held.
            writer: Writes for other gateways that dead letters are stored.
            is_shared: Whether records are shared by gateways.
        """
        self._held = held_batches
        self._writer = writer
        self._in_use = in_use
        self._is_shared = is_shared

    def store(
        self,
        batch: Batch,
        letters: bytes | None,
        quarantined: Quarantined | None,
        callback: Callable[[str | None], None],
        failure: str | None,
    ) -> None:
        """Store the dead letters of a batch whose decision has been written.

        A gateway that has judged it by other policies does not know its place: it must be retried.

        Args:
            letters: Its dead letters; None if they are not known.
            quarantined: The records that become dead letters now.
            callback: Called with None when they are stored, or with an error message.
            failure: Why the decision was not written; None if it was.
        """
        if failure is not None:
            callback(failure)
        elif batch.is_lettered:
            callback(None)  # an earlier attempt has stored them, while this decision was written
        elif letters is None or quarantined is None:
            callback(LettersNotStored("they have to be written again"))
        else:
            quarantined.store(letters, batch.quarantined, partial(self._stored, batch, callback))

    def _stored(
        self, batch: Batch, callback: Callable[[str | None], None], failure: str | None
    ) -> None:
        if failure is None:
            self._held.release_letters(batch)
            batch.is_lettered = True
        callback(None if failure is None else LettersNotStored(failure))

    def announce(
        self,
        key: ProducerKey,
        producer: Producer,
        batch: Batch,
        callback: Callable[[str | None], None],
        failure: str | None,
    ) -> None:
        """Let other gateways know that nothing is left to store of a batch, before its client does.

        One to which the batch came first would wait for it, though its client has a success.

        Args:
            callback: Called with `failure`, or why that was not written, or None.
            failure: Why its dead letters were not stored; None if they were.
        """
        is_current = self._in_use.of(key, producer.epoch) is producer
        if failure is None and self._is_shared and batch.loses_all and is_current:
            self._writer.write(key, producer, callback)
        else:
            callback(failure)
