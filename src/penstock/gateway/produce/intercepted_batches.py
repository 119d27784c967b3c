"""The batches of a Produce request that are not sent as they are.

Interceptors (KIP-905) may change them and drop records; where policies mark records, only headers
are added.

The methods are called in this order: `arrive` when the request has been received, `expect` when
its topics are known, `judged` with each verdict, `decide` when all requests before it are decided,
`send` when all requests before it have been sent, `on_response` with the broker's response,
`acknowledge` when all requests before it have responses.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from penstock.engine.verdict import Outcome, bounded, refused
from penstock.error_codes import INVALID_RECORD
from penstock.gateway.produce.dead_letter_writer import LettersRefused
from penstock.gateway.produce.idempotence import Idempotence
from penstock.gateway.produce.producer_state.batch import State, Stored
from penstock.gateway.produce.producer_state.encoding import ProducerKey
from penstock.gateway.produce.producer_state.numbers import Range
from penstock.gateway.produce.producer_state.producers import (
    Arrival,
    LettersNotStored,
    Quarantined,
)
from penstock.records.header import checksum, is_intact, read_producer, with_sequence
from penstock.wire.errors import (
    INVALID_PRODUCER_EPOCH,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    REQUEST_TIMED_OUT,
    RETRIABLE,
    UNKNOWN_PRODUCER_ID,
)
from penstock.wire.produce import PartitionResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from uuid import UUID

    from penstock.engine.verdict import Replacement, Verdict
    from penstock.gateway.produce.producer_state.batch import Batch
    from penstock.gateway.produce.producer_state.producers import Producers
    from penstock.records.header import BatchProducer
    from penstock.wire.produce import ProduceRequest, ProduceResponse
    from penstock.wire.producers import LastSequence
    from penstock.wire.slices import Slices

    Position = tuple[int, int]
    """The indexes of a topic in a request, and of a partition in the topic."""
    Buffer = bytes | memoryview

_TEXTS: Final = {
    REQUEST_TIMED_OUT: "It is not known yet whether the broker has what comes before this batch",
    OUT_OF_ORDER_SEQUENCE_NUMBER: "A batch before this one is missing",
    INVALID_PRODUCER_EPOCH: "The producer has taken a newer epoch",
    UNKNOWN_PRODUCER_ID: (
        "It is not known here any more which of this producer's records were dropped"
    ),
}
_SLICE: Final = 250
"""So many batches are decided in one turn of the event loop."""
_NOT_KEPT: Final = "The producer's sequence numbers could not be kept"


class Judging(Enum):
    """Whether a batch is judged."""

    NONE = "none"
    """The topic has no policies; sequence numbers may have to be changed."""
    AWAITED = "awaited"
    """The batch needs a verdict, or the result of its first attempt, before it is sent."""
    JUDGED = "judged"
    """There is a verdict."""


class _Intercepted:
    """The batch of one partition: as received, and what was decided about it."""

    __slots__ = ("arrival", "batch", "by", "data", "epoch", "judging", "keeps_numbers", "key",
                 "number", "numbers", "outgoing", "producer", "refused_letters", "replacement",
                 "topic", "topic_id", "unknown")  # fmt: skip

    def __init__(
        self,
        topic: str,
        request: ProduceRequest,
        position: Position,
        by: BatchProducer | None,
        judging: Judging,
        arrival: Arrival | None,
        topic_id: UUID | None,
        principal: str = "",
    ) -> None:
        of = request.topics[position[0]]
        partition = of.partitions[position[1]]
        self.topic = topic
        self.key = of.key
        self.number = partition.number
        self.data = request.records(partition)
        self.by = by
        if by is not None:
            self.producer = ProducerKey(topic, partition.number, by.producer_id, principal)
            self.epoch = by.epoch
            self.numbers = Range(by.base_sequence, by.record_count, checksum(self.data))
        self.unknown = False
        self.keeps_numbers = False
        self.judging = judging
        self.arrival = arrival
        self.topic_id = topic_id
        self.replacement: Replacement | None = None
        self.batch: Batch | None = None
        self.outgoing: Buffer | None = None
        self.refused_letters: LettersRefused | None = None

    @property
    def is_translated(self) -> bool:
        return self.arrival is not None

    @property
    def dropped(self) -> Sequence[int]:
        return self.replacement.dropped if self.replacement is not None else ()

    @property
    def letters(self) -> bytes:
        return self.replacement.letters if self.replacement is not None else b""


class InterceptedBatches:
    """The intercepted batches of one request.

    Attributes:
        principal: The principal of the client; others cannot affect the state of its producers.
        connection: The number of the connection.
        letters: Stores the dead letters of a batch, by its position; see `Quarantined.store`.
    """

    __slots__ = ("_arrived", "_batches", "_due", "_idempotence", "_producers", "connection",
                 "letters", "principal")  # fmt: skip

    def __init__(self, producers: Producers, idempotence: Idempotence) -> None:
        self._producers = producers
        self._idempotence = idempotence
        self.principal = ""
        self.connection = 0
        self.letters: dict[Position, Callable[[bytes, Callable[[str | None], None]], None]] = {}
        self._arrived: dict[Position, tuple[Arrival | None, BatchProducer | None]] = {}
        self._batches: dict[Position, _Intercepted] = {}
        self._due: dict[Position, None] = {}

    def __bool__(self) -> bool:
        return bool(self._batches)

    # Before it is judged

    def arrive(self, position: Position, request: ProduceRequest) -> None:
        """Register a received batch that may be intercepted, since others may overtake it."""
        topic = request.topics[position[0]]
        partition = topic.partitions[position[1]]
        by = read_producer(request.records(partition))
        identity = topic.name if topic.name is not None else topic.topic_id
        arrival = None
        if by is not None and self._translates(by) and identity is not None:
            arrival = Arrival(identity, partition.number, by.producer_id, self.principal)
            self._producers.arrived(arrival, by.epoch, by.base_sequence)
        self._arrived[position] = arrival, by

    def _translates(self, by: BatchProducer) -> bool:
        if by.producer_id < 0:
            return False
        return self._idempotence is not Idempotence.STRIP or by.transactional

    def follows_undecided(self, position: Position) -> bool:
        """Whether it is not decided yet what an earlier batch of the same producer loses.

        Then the sequence number of this one may have to be changed, whatever judges its topic by
        now.
        """
        arrival, _ = self._arrived.get(position, (None, None))
        return arrival is not None and self._producers.undecided(arrival) > 1

    def unknown_producers(self, position: Position, topic: str) -> bool:
        """Whether another gateway may have newer state of the batch's producer."""
        arrival, by = self._arrived.get(position, (None, None))
        if arrival is None or by is None:
            return False
        key = ProducerKey(topic, arrival.partition, by.producer_id, self.principal)
        numbers = Range(by.base_sequence, by.record_count)
        return self._producers.needs_reading(key, by.epoch, numbers)

    def depends_on_topic_id(
        self, position: Position, topic: str, topic_id: UUID | None, request: ProduceRequest
    ) -> bool:
        """Whether a batch is a retry, unless its topic was deleted and created again.

        Then the topic's id has to be looked up: it may have changed since it was.
        """
        arrival, by = self._arrived.get(position, (None, None))
        if arrival is None or by is None:
            return False
        data = request.records(request.topics[position[0]].partitions[position[1]])
        key = ProducerKey(topic, arrival.partition, by.producer_id, self.principal)
        numbers = Range(by.base_sequence, by.record_count, checksum(data))
        return self._producers.depends_on_topic_id(key, by.epoch, numbers, topic_id)

    def expect(
        self,
        position: Position,
        topic: str,
        topic_id: UUID | None,
        request: ProduceRequest,
        *,
        has_policies: bool,
    ) -> Batch | None:
        """Add a batch with a producer id; return the batch of its first attempt if it is a retry.

        Args:
            position: The position of the batch in the request.
            topic: The name of the topic.
            topic_id: The id of the topic; None if it is not known.
            request: The request.
            has_policies: Whether the topic has policies, so that the batch needs a verdict.
        """
        if position not in self._arrived:  # it was not known that the topic is intercepted
            self.arrive(position, request)
        arrival, by = self._arrived[position]
        if by is None or by.producer_id < 0:
            return None
        one = self._batches[position] = _Intercepted(
            topic,
            request,
            position,
            by,
            Judging.AWAITED if has_policies else Judging.NONE,
            arrival,
            topic_id,
            self.principal,
        )
        if arrival is None:
            return None
        self._producers.see_topic_id(one.producer, arrival, one.epoch, one.numbers.first, topic_id)
        known = self._producers.find(one.producer, one.epoch, one.numbers)
        if known is None or not is_intact(one.data):
            return None  # damaged: its sequence numbers may be wrong, so it is judged
        if known.dropped_count:
            one.judging = Judging.AWAITED
        return known

    def judged(
        self, position: Position, topic: str, request: ProduceRequest, verdict: Verdict
    ) -> Verdict:
        """Record a verdict; return the effective one."""
        one = self._batches.get(position)
        if one is None:
            if verdict.replacement is None:
                return verdict
            _, by = self._arrived.get(position, (None, None))
            one = _Intercepted(
                topic, request, position, by, Judging.JUDGED, None, None, self.principal
            )
            # Nothing may be dropped out of it, so it was not expected here: records are marked.
            one.keeps_numbers = not verdict.replacement.dropped
            self._batches[position] = one
        one.judging = Judging.JUDGED
        one.replacement = verdict.replacement
        if self._idempotence is Idempotence.REFUSE and one.is_translated and one.dropped:
            for diverted in verdict.diverted:
                if diverted.verdict.outcome is Outcome.QUARANTINED:
                    return replace(diverted.verdict, outcome=Outcome.REFUSED)
            return refused(
                INVALID_RECORD,
                "An interceptor drops records of this batch, and its producer is idempotent "
                "(produce.request.interceptors.idempotence is refuse)",
                "",
            )
        return verdict

    def grown(self) -> dict[Position, tuple[str, int]]:
        """Return the topic and the size in bytes of each batch that was enlarged."""
        return {
            position: (one.topic, len(one.replacement.data))
            for position, one in self._batches.items()
            if one.replacement is not None and len(one.replacement.data) > len(one.data)
        }

    # When it is decided

    def unknown_last_sequences(
        self, responses: Mapping[Position, PartitionResponse]
    ) -> Slices[dict[str, dict[int, int]]]:
        """Return the producers whose last sequence number has to be requested from the broker.

        Yields:
            After each slice.

        Returns:
            The producer id by topic and partition.
        """
        unknown: dict[str, dict[int, int]] = {}
        for number, (position, one) in enumerate(self._batches.items(), 1):
            if number % _SLICE == 0:
                yield
            if position in responses or not one.is_translated:
                continue
            if one.judging is Judging.NONE and not is_intact(one.data):
                continue
            if self._producers.needs_last_sequence(
                one.producer, one.epoch, one.numbers, one.dropped, connection=self.connection
            ):
                unknown.setdefault(one.topic, {})[one.number] = one.producer.producer_id
        return unknown

    def on_last_sequences(
        self,
        unknown: Mapping[str, Mapping[int, int]],
        found: Mapping[tuple[str, int], LastSequence],
        responses: dict[Position, PartitionResponse],
    ) -> None:
        """Apply the last sequence numbers that the broker returned.

        Args:
            unknown: The result of `unknown_last_sequences`.
            found: By topic and partition; empty if the broker does not support the request.
            responses: The partitions' responses; retriable errors of the broker are added.
        """
        for position, one in self._batches.items():
            if (
                position in responses
                or one.arrival is None
                or one.number not in unknown.get(one.topic, ())
            ):
                continue
            last = found.get((one.topic, one.number))
            if last is None or (last.code and last.code not in RETRIABLE):
                # The broker is too old, or the client is not authorized to read the topic.
                one.unknown = not self._producers.without_last_sequence(
                    one.producer, one.arrival, one.epoch, one.numbers, one.dropped
                )
            elif last.code:
                responses[position] = PartitionResponse(last.code)
            else:
                sequence = last.sequence if last.epoch == one.epoch else -1
                self._producers.on_last_sequence(
                    one.producer,
                    one.arrival,
                    one.epoch,
                    one.numbers,
                    sequence if sequence >= 0 else None,
                    one.dropped,
                    connection=self.connection,
                )

    def decide(
        self,
        responses: dict[Position, PartitionResponse],
        *,
        whole_request: bool,
        done: Callable[[], None],
    ) -> Slices[int]:
        """Decide for every batch what is sent to the broker, in slices.

        Args:
            responses: The partitions' responses; those of batches that cannot be sent are added.
            whole_request: Whether no batch is sent if one cannot be.
            done: Called when a decision has been written, once for each that has to be; it may be
                before the last slice.

        Yields:
            After each slice.

        Returns:
            The number of calls of `done` to expect.
        """
        waiting = 0
        for number, (position, one) in enumerate(self._batches.items(), 1):
            if number % _SLICE == 0:
                yield
            self.leave(position)
            if not one.is_translated:
                if one.letters and position not in responses:
                    waiting += self._store_letters(position, one, responses, done)
                continue
            if position in responses:
                self._record_local_response(one, responses[position].code)
            elif one.judging is Judging.NONE and not is_intact(one.data):
                continue  # damaged and not judged: the broker refuses it
            else:
                waiting += self._decide(position, one, responses, done)
        self.depart()
        if whole_request:
            self._hold_back_all(responses)
        return waiting

    def _store_letters(
        self,
        position: Position,
        one: _Intercepted,
        responses: dict[Position, PartitionResponse],
        done: Callable[[], None],
    ) -> int:
        """Store the dead letters of a batch whose producer is not known by its numbers."""
        ended: list[None] = []
        waits: list[None] = []

        def stored(failure: str | None) -> None:
            ended.append(None)
            if isinstance(failure, LettersRefused):
                one.refused_letters = failure
            if failure is not None:
                responses[position] = _not_stored(failure)
            if waits:
                done()

        self.letters[position](one.letters, stored)
        if ended:
            return 0
        waits.append(None)
        return 1

    def _decide(
        self,
        position: Position,
        one: _Intercepted,
        responses: dict[Position, PartitionResponse],
        done: Callable[[], None],
    ) -> int:
        """Decide about one batch; return 1 if the decision has to be written first."""
        assert one.arrival is not None
        if one.unknown:
            self._producers.forget(one.producer)
            responses[position] = _error_response(UNKNOWN_PRODUCER_ID)
            return 0
        if self._has_to_be_judged_again(one):
            self._producers.defer(one.producer, one.arrival, one.epoch, one.numbers)
            responses[position] = _error_response(REQUEST_TIMED_OUT)
            return 0
        own: Buffer = one.data if one.replacement is None else one.replacement.data
        kept: list[str | None] = []
        waits: list[None] = []

        def written(failure: str | None) -> None:
            kept.append(failure)
            if waits:
                self._written(position, one, responses, failure)
                done()

        decided = self._producers.decide(
            one.producer,
            one.arrival,
            one.epoch,
            one.numbers,
            one.dropped,
            own,
            connection=self.connection,
            topic_id=one.topic_id,
            quarantined=self._quarantined(position, one),
            done=written,
        )
        if isinstance(decided, int):
            responses[position] = _error_response(decided)
            return 0
        one.batch = decided.batch
        one.outgoing = one.data if decided.batch.is_whole else decided.data
        if kept:
            self._written(position, one, responses, kept[0])
            return 0
        waits.append(None)
        return 1

    def _quarantined(self, position: Position, one: _Intercepted) -> Quarantined | None:
        writer = self.letters.get(position)
        if writer is None:
            return None

        def store(letters: bytes, done: Callable[[str | None], None]) -> None:
            def stored(failure: str | None) -> None:
                one.refused_letters = failure if isinstance(failure, LettersRefused) else None
                done(failure)

            writer(letters, stored)

        made = one.replacement
        if made is None or not made.quarantined:
            return Quarantined((), None, store)
        return Quarantined(made.quarantined, made.letters, store)

    def _has_to_be_judged_again(self, one: _Intercepted) -> bool:
        """Whether the first attempt of a batch was forgotten, or became known, since `expect`.

        In the second case another gateway has decided, and the same records have to be dropped.
        """
        known = self._producers.find(one.producer, one.epoch, one.numbers)
        if known is not None and known.is_decided:
            return False
        if one.judging is Judging.AWAITED:
            return True
        return known is not None and not set(known.dropped_again) <= set(one.dropped)

    def _written(
        self,
        position: Position,
        one: _Intercepted,
        responses: dict[Position, PartitionResponse],
        failure: str | None,
    ) -> None:
        if failure is not None and one.batch is not None:
            self._producers.not_kept(one.producer, one.epoch, one.batch)
            if one.refused_letters is not None and one.arrival is not None:
                self._producers.refuse(one.producer, one.arrival, one.epoch, one.numbers)
                responses[position] = _not_stored(one.refused_letters)
            elif isinstance(failure, LettersNotStored):
                responses[position] = _not_stored(failure)
            else:
                responses[position] = PartitionResponse(REQUEST_TIMED_OUT, _NOT_KEPT)

    def _record_local_response(self, one: _Intercepted, code: int) -> None:
        """Record that the gateway responds to a batch with an error, and does not send it.

        The sequence numbers of a damaged batch may be wrong, and are not recorded.
        """
        assert one.arrival is not None
        if not is_intact(one.data):
            return
        record = self._producers.defer if code in RETRIABLE else self._producers.refuse
        record(one.producer, one.arrival, one.epoch, one.numbers)

    def _hold_back_all(self, responses: dict[Position, PartitionResponse]) -> None:
        """Send no batch of the request if one of them cannot be sent."""
        if not responses:
            return
        for position, one in self._batches.items():
            if position not in responses and not self.is_stored(position):
                responses[position] = _error_response(REQUEST_TIMED_OUT)
                self._withdraw(one)

    def is_stored(self, position: Position) -> bool:
        """Whether a batch is a retry of one that was stored or acknowledged."""
        one = self._batches.get(position)
        if one is None or one.arrival is None:
            return False
        known = one.batch or self._producers.find(one.producer, one.epoch, one.numbers)
        return known is not None and known.state in {State.STORED, State.ACKNOWLEDGED}

    def _withdraw(self, one: _Intercepted) -> None:
        if one.arrival is not None and one.batch is not None and one.batch.state is State.DECIDED:
            self._producers.defer(one.producer, one.arrival, one.epoch, one.numbers)

    def on_early_responses(
        self,
        responses: Mapping[Position, PartitionResponse],
        request: ProduceRequest,
        intercepted: Callable[[str | UUID], str | None],
    ) -> Slices[None]:
        """Record the batches that got a response before they were added.

        The batches after one that is retried must not be sent before it.

        Args:
            responses: The partitions' responses.
            request: The request.
            intercepted: Returns the name of a topic, given by name or id, if it has interceptors.

        Yields:
            After each slice.
        """
        for number, (position, (arrival, by)) in enumerate(self._arrived.items(), 1):
            if number % _SLICE == 0:
                yield
            if position in self._batches or position not in responses or arrival is None:
                continue
            topic = intercepted(arrival.topic)
            if topic is not None:
                one = _Intercepted(
                    topic, request, position, by, Judging.NONE, arrival, None, self.principal
                )
                self._record_local_response(one, responses[position].code)

    def depart(self) -> None:
        """Unregister the batches: they are decided, so others no longer wait for them."""
        for position in list(self._arrived):
            self.leave(position)

    def leave(self, position: Position) -> None:
        """Unregister one batch, if it is registered."""
        arrival, by = self._arrived.pop(position, (None, None))
        if arrival is not None and by is not None:
            self._producers.departed(arrival, by.epoch, by.base_sequence)

    def cancel(self) -> None:
        """Record that the request is not sent: the client retries."""
        self.depart()
        for one in self._batches.values():
            self._withdraw(one)

    @property
    def with_refused_letters(self) -> Sequence[Position]:
        """The batches whose dead letters their topic does not take; they get a final error."""
        return [
            position for position, one in self._batches.items() if one.refused_letters is not None
        ]

    # When it goes

    def send(
        self, responses: dict[Position, PartitionResponse], *, acks: int, whole_request: bool
    ) -> dict[Position, Sequence[Buffer]]:
        """Mark the batches as sent, except those that may not be sent now.

        Args:
            responses: The partitions' responses; those of batches that are not sent are added.
            acks: The `acks` of the request.
            whole_request: Whether no batch is sent if one cannot be.

        Returns:
            The batches to send in place of the client's.
        """
        if whole_request and responses:
            self._hold_back_all(responses)
        if whole_request and any(
            self._producers.obstacle(one.producer, one.epoch, one.batch)
            for position, one in self._batches.items()
            if position not in responses and one.batch is not None and not one.batch.is_done
        ):
            responses.setdefault(next(iter(self._batches)), _error_response(REQUEST_TIMED_OUT))
            self._hold_back_all(responses)
        replaced: dict[Position, Sequence[Buffer]] = {}
        for position, one in self._batches.items():
            if position in responses:
                self._withdraw(one)
                continue
            made = self._send(position, one)
            if isinstance(made, PartitionResponse):
                responses[position] = made
                continue
            if made is not None:
                replaced[position] = made
            if acks == 0 and one.batch is not None and not one.batch.is_done:
                self._producers.on_response(one.producer, one.epoch, one.batch, NONE, Stored())
        return replaced

    def _send(
        self, position: Position, one: _Intercepted
    ) -> PartitionResponse | Sequence[Buffer] | None:
        """Mark one batch as sent.

        Returns:
            An error response, or the bytes to send; None to send the original batch, or nothing
            if the batch is in `due`.
        """
        if one.batch is None:
            return self._plain(one) if not one.is_translated else None
        if one.batch.is_done:
            self._due[position] = None
            return None
        code = self._producers.send(one.producer, one.epoch, one.batch)
        if code:
            return _error_response(code)
        data = one.outgoing
        assert data is not None
        if one.batch.broker_first != one.batch.first:
            producer_id = one.producer.producer_id
            self._producers.translated += 1
            return with_sequence(data, producer_id, one.epoch, one.batch.broker_first)
        return None if data is one.data else [data]

    def _plain(self, one: _Intercepted) -> PartitionResponse | Sequence[Buffer] | None:
        """Return what is sent for a batch whose sequence numbers are not changed."""
        if one.judging is Judging.NONE:
            return None  # not judged: the broker stores or refuses the original
        data = one.data if one.replacement is None else one.replacement.data
        if not data:
            return PartitionResponse(NONE)
        if one.by is not None and one.by.producer_id >= 0 and not one.keeps_numbers:
            return with_sequence(data, -1, -1, -1)
        return None if one.replacement is None else [data]

    @property
    def due(self) -> Collection[Position]:
        """The batches that are not sent to the broker, and get their response in `acknowledge`."""
        return self._due

    # When it is answered

    def acknowledge(self, responses: dict[Position, PartitionResponse]) -> None:
        """Respond to the batches that were not sent; all batches before have a response."""
        for position in self._due:
            one = self._batches[position]
            batch = one.batch
            if batch is None or position in responses:
                continue
            code = self._producers.acknowledge(one.producer, one.epoch, batch)
            responses[position] = (
                PartitionResponse(NONE, None, (), *batch.stored)
                if not code
                else _error_response(code)
            )

    @property
    def needs_response(self) -> bool:
        """Whether the broker's response is needed, for sequence numbers or record errors."""
        return any(one.batch is not None or one.dropped for one in self._batches.values())

    def on_response(self, response: ProduceResponse) -> Slices[None]:
        """Update the producers' state from the broker's response, and correct the response.

        Yields:
            After each slice.
        """
        for number, one in enumerate(self._batches.values(), 1):
            if number % _SLICE == 0:
                yield
            partition = response.partition_response(one.key, one.number)
            if partition is None:
                continue
            dropped = one.dropped
            if one.batch is not None:
                dropped = one.batch.dropped
                stored = Stored(
                    partition.base_offset, partition.log_append_time, partition.log_start_offset
                )
                code = self._producers.on_response(
                    one.producer, one.epoch, one.batch, partition.code, stored
                )
                if code != partition.code:
                    start = max(0, partition.log_start_offset)
                    response.replace_error(one.key, one.number, code, start)
            if dropped and one.by is not None:
                left_out = set(dropped)
                positions = [at for at in range(one.by.record_count) if at not in left_out]
                response.move_record_errors(one.key, one.number, positions)


def _not_stored(failure: str) -> PartitionResponse:
    code = INVALID_RECORD if isinstance(failure, LettersRefused) else REQUEST_TIMED_OUT
    text = f"The dead letters of this batch could not be stored: {failure}"
    return PartitionResponse(code, bounded(text))


def _error_response(code: int) -> PartitionResponse:
    if code == UNKNOWN_PRODUCER_ID:
        return PartitionResponse(code, _TEXTS[code], log_start_offset=0)
    return PartitionResponse(code, _TEXTS.get(code))
