"""The batches of a Produce request out of which interceptors (KIP-905) may drop records.

What is decided here is decided when a request is next in turn for the broker: an earlier
batch of the same producer has been decided before, a later one has not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from penstock.engine.verdict import INVALID_RECORD, refused
from penstock.gateway.sequences import (
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    REQUEST_TIMED_OUT,
    RETRIED,
    UNKNOWN_PRODUCER_ID,
    Batch,
    Producer,
    Sequences,
    Stored,
)
from penstock.records.header import is_intact, read_producer, with_sequence
from penstock.wire.produce import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.verdict import Replacement, Verdict
    from penstock.records.header import Producer as BatchProducer
    from penstock.wire.produce import ProduceRequest, ProduceResponse

    Place = tuple[int, int]

_TEXTS: Final = {
    REQUEST_TIMED_OUT: "It is not known yet whether the broker has this batch",
    OUT_OF_ORDER_SEQUENCE_NUMBER: "A batch before this one is missing",
    UNKNOWN_PRODUCER_ID: (
        "It is not known here any more which of this producer's records were dropped"
    ),
}


class Idempotence(Enum):
    """What becomes of idempotent producers whose records are dropped."""

    TRANSLATE = "translate"
    """Their sequence numbers are changed, so that the broker sees no hole."""
    STRIP = "strip"
    """They lose idempotence, but for transactional ones."""
    REFUSE = "refuse"
    """A batch that loses a record is refused."""


@dataclass(slots=True, eq=False)
class _Sent:
    """One partition's batch: what came, and what was decided."""

    topic: str
    key: bytes
    number: int
    data: memoryview
    by: BatchProducer | None
    translated: bool
    awaits_verdict: bool
    judged: bool = False
    departed: bool = False
    replacement: Replacement | None = None
    batch: Batch | None = None

    @property
    def producer(self) -> Producer:
        assert self.by is not None
        return Producer(self.topic, self.number, self.by.producer_id)


class Interceptions:
    """The intercepted batches of one request, by position of topic and partition."""

    __slots__ = ("_idempotence", "_sent", "_sequences")

    def __init__(self, sequences: Sequences, idempotence: Idempotence) -> None:
        self._sequences = sequences
        self._idempotence = idempotence
        self._sent: dict[Place, _Sent] = {}

    def __bool__(self) -> bool:
        return bool(self._sent)

    def expect(
        self, place: Place, topic: str, request: ProduceRequest, *, awaits_verdict: bool
    ) -> Batch | None:
        """Take note of a batch; give what became of it when it came before.

        Args:
            place: Where it stands in the request.
            topic: The topic's name.
            request: The request.
            awaits_verdict: Whether the topic has policies: it may not go without a verdict.
        """
        of = request.topics[place[0]]
        partition = of.partitions[place[1]]
        data = request.records(partition)
        by = read_producer(data)
        translated = by is not None and by.producer_id >= 0
        if by is not None and self._idempotence is Idempotence.STRIP and not by.transactional:
            translated = False
        sent = self._sent[place] = _Sent(
            topic, of.key, partition.number, data, by, translated, awaits_verdict
        )
        if by is None or not translated:
            return None
        self._sequences.arrived(sent.producer, by.epoch, by.base_sequence)
        return self._sequences.find(sent.producer, by.epoch, by.base_sequence, by.record_count)

    def decided(self, place: Place, verdict: Verdict) -> Verdict:
        """Take a verdict; give the one that counts."""
        sent = self._sent.get(place)
        if sent is None:
            return verdict
        sent.judged = True
        sent.replacement = verdict.replacement
        if (
            self._idempotence is Idempotence.REFUSE
            and sent.translated
            and verdict.replacement is not None
            and verdict.replacement.dropped
        ):
            return refused(
                INVALID_RECORD,
                "An interceptor drops records of this batch, and its producer is idempotent "
                "(produce.request.interceptors.idempotence is refuse)",
                "",
            )
        return verdict

    def grown(self) -> dict[Place, tuple[str, int]]:
        """Give the topic and the new size of each batch that became larger."""
        return {
            place: (sent.topic, len(sent.replacement.data))
            for place, sent in self._sent.items()
            if sent.replacement is not None and len(sent.replacement.data) > len(sent.data)
        }

    def release(
        self, answers: dict[Place, Answer], *, acks: int
    ) -> dict[Place, Sequence[bytes | memoryview]]:
        """Decide what goes to the broker now.

        Args:
            answers: Those the client already has an answer for; what is not sent is added.
            acks: Of the request.

        Returns:
            The records to send in place of the client's.
        """
        replaced: dict[Place, Sequence[bytes | memoryview]] = {}
        self.depart()
        for place, sent in self._sent.items():
            if place in answers:
                self._refused(sent, answers[place].code)
                continue
            if not sent.awaits_verdict and not is_intact(sent.data):
                continue  # nobody looked at it: the broker refuses it as it is
            made = self._translate(sent) if sent.translated else self._plain(sent)
            if isinstance(made, Answer):
                answers[place] = made
            elif made is not None:
                replaced[place] = made
            if acks == 0 and sent.batch is not None and sent.by is not None:
                self._sequences.answered(sent.producer, sent.by.epoch, sent.batch, 0, Stored())
        return replaced

    def depart(self) -> None:
        """Let the batches that follow these no longer wait for them."""
        for sent in self._sent.values():
            if sent.translated and not sent.departed and sent.by is not None:
                sent.departed = True
                self._sequences.departed(sent.producer, sent.by.epoch, sent.by.base_sequence)

    def dropped_whole(self, answers: dict[Place, Answer]) -> list[tuple[str, int]]:
        """Give topic and partition of those of which no record is left."""
        return [
            (sent.topic, sent.number)
            for place, sent in self._sent.items()
            if place in answers and not answers[place].code
        ]

    @property
    def producer(self) -> BatchProducer | None:
        """The idempotent producer of the request."""
        return next((s.by for s in self._sent.values() if s.by and s.by.producer_id >= 0), None)

    @property
    def heed_response(self) -> bool:
        """Whether the broker's response has to be read: for numbers, or for positions."""
        return any(
            sent.batch is not None or (sent.replacement is not None and sent.replacement.dropped)
            for sent in self._sent.values()
        )

    def answered(self, response: ProduceResponse) -> None:
        """Learn from the broker's response, and correct what it tells the client."""
        for sent in self._sent.values():
            told = response.told(sent.key, sent.number)
            if told is None:
                continue
            dropped = sent.replacement.dropped if sent.replacement is not None else ()
            if sent.batch is not None and sent.by is not None:
                dropped = sent.batch.dropped
                stored = Stored(told.base_offset, told.log_append_time, told.log_start_offset)
                code = self._sequences.answered(
                    sent.producer, sent.by.epoch, sent.batch, told.code, stored
                )
                if code != told.code:
                    start = max(0, told.log_start_offset)
                    response.replace_error(sent.key, sent.number, code, start)
            if dropped and sent.by is not None:
                left_out = set(dropped)
                positions = [at for at in range(sent.by.record_count) if at not in left_out]
                response.move_record_errors(sent.key, sent.number, positions)

    def _refused(self, sent: _Sent, code: int) -> None:
        if sent.translated and sent.by is not None:
            self._sequences.refused(
                sent.producer,
                sent.by.epoch,
                sent.by.base_sequence,
                sent.by.record_count,
                retried=code in RETRIED,
            )

    def _plain(self, sent: _Sent) -> Answer | Sequence[bytes | memoryview] | None:
        """Without sequence numbers: what is left is sent."""
        data = sent.data if sent.replacement is None else sent.replacement.data
        if not data:
            return Answer(0)
        if sent.by is not None and sent.by.producer_id >= 0:
            return with_sequence(data, -1, -1, -1)
        return None if sent.replacement is None else [data]

    def _translate(self, sent: _Sent) -> Answer | Sequence[bytes | memoryview] | None:
        by = sent.by
        assert by is not None
        if sent.awaits_verdict and not sent.judged:
            known = self._sequences.find(sent.producer, by.epoch, by.base_sequence, by.record_count)
            if known is None or (known.data is None and not known.settled):
                # What was known when it came is not any more: when it comes again it is judged.
                self._refused(sent, REQUEST_TIMED_OUT)
                return Answer(REQUEST_TIMED_OUT, _TEXTS[REQUEST_TIMED_OUT])
        dropped: Sequence[int] = ()
        own: bytes | memoryview = sent.data
        if sent.replacement is not None:
            dropped, own = sent.replacement.dropped, sent.replacement.data
        decision = self._sequences.decide(
            sent.producer, by.epoch, by.base_sequence, by.record_count, dropped, own
        )
        if isinstance(decision, int):
            return Answer(decision, _TEXTS.get(decision))
        batch, data = decision
        if batch.settled:
            return Answer(0, None, (), *batch.stored)
        if data is None:
            self._sequences.forget(sent.producer)
            return Answer(UNKNOWN_PRODUCER_ID, _TEXTS[UNKNOWN_PRODUCER_ID], log_start_offset=0)
        sent.batch = batch
        if batch.broker_first != by.base_sequence:
            return with_sequence(data, by.producer_id, by.epoch, batch.broker_first)
        return None if data is sent.data else [data]
