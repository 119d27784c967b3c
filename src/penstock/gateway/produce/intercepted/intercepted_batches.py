"""The batches of a Produce request that may not be sent as they are.

Interceptors (KIP-905) may change them and drop records. In quarantine, bad records are left out;
where policies mark records, only headers are added.

The methods are called in this order: `arrive` when the request has been received, `expect` when
its topics are known, `judged` with each verdict, `decide` when all requests before it are decided,
`send` when all requests before it have been sent, `on_response` with the broker's response,
`acknowledge` when all requests before it have responses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.engine.verdict import Outcome, bounded, refused
from penstock.error_codes import INVALID_RECORD
from penstock.gateway.produce.dead_letters.writer import LettersRefused
from penstock.gateway.produce.idempotence import Idempotence
from penstock.gateway.produce.partition import Judging
from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.letters import LettersNotStored, Quarantined
from penstock.gateway.produce.producer_state.producer.batch import State, Stored
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.gateway.produce.request import SLICE
from penstock.records.header import checksum, is_intact, with_sequence
from penstock.wire.errors import (
    INVALID_PRODUCER_EPOCH,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    REQUEST_TIMED_OUT,
    RETRIABLE,
    UNKNOWN_PRODUCER_ID,
)
from penstock.wire.requests.produce import PartitionResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from uuid import UUID

    from penstock.engine.verdict import PolicyVerdict
    from penstock.gateway.produce.partition import ProducePartition
    from penstock.gateway.produce.producer_state.producer.batch import Batch
    from penstock.gateway.produce.request import ReceivedRequest
    from penstock.records.header import BatchProducer
    from penstock.wire.requests.produce import ProduceResponse
    from penstock.wire.requests.producers import LastSequence
    from penstock.wire.slices import Slices

    Buffer = bytes | memoryview

_TEXTS: Final = {
    REQUEST_TIMED_OUT: "It is not known yet whether the broker has what comes before this batch",
    OUT_OF_ORDER_SEQUENCE_NUMBER: "A batch before this one is missing",
    INVALID_PRODUCER_EPOCH: "The producer has taken a newer epoch",
    UNKNOWN_PRODUCER_ID: (
        "It is not known here any more which of this producer's records were dropped"
    ),
}
_ELSEWHERE: Final = "It is not known yet whether a former leader of the partition has this batch"
_NOT_KEPT: Final = "The producer's sequence numbers could not be kept"


class InterceptedBatches:
    """The intercepted batches of one request.

    Attributes:
        unwritten: How many decisions, or dead letters, have to be written before the batches go.
    """

    __slots__ = ("_arrived", "_batches", "_due", "_idempotence", "_producers", "_request",
                 "unwritten")  # fmt: skip

    def __init__(self, request: ReceivedRequest) -> None:
        self._request = request
        self._producers = request.gateway.producers
        self._idempotence = request.policies.idempotence
        self._arrived: list[ProducePartition] = []
        self._batches: list[ProducePartition] = []
        self._due: list[ProducePartition] = []
        self.unwritten = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def _principal(self) -> str:
        """The principal of the client; others cannot affect the state of its producers."""
        return self._request.connection.authentication.principal or ""

    # Before it is judged

    def arrive(self, partition: ProducePartition) -> None:
        """Register a received batch that may be intercepted, since others may overtake it."""
        producer = partition.producer
        data = partition.topic.data
        identity = data.name if data.name is not None else data.topic_id
        partition.is_registered = True
        self._arrived.append(partition)
        if producer is not None and self._translates(producer) and identity is not None:
            partition.arrival = Arrival(
                identity, partition.number, producer.producer_id, self._principal
            )
            self._producers.arrivals.add(partition.arrival, producer.epoch, producer.base_sequence)

    def _translates(self, producer: BatchProducer) -> bool:
        if producer.producer_id < 0:
            return False
        return self._idempotence is not Idempotence.STRIP or producer.transactional

    def follows_drops(self, topic: str, partitions: Sequence[ProducePartition]) -> bool:
        """Return whether the sequence numbers of batches may have to be changed.

        Records of the topic were dropped before, or it is undecided which records an earlier batch
        of the same producer loses, under any policies of the topic now.
        """
        return self._producers.has_topic(topic) or any(map(self._follows_undecided, partitions))

    def _follows_undecided(self, partition: ProducePartition) -> bool:
        return (
            partition.is_registered
            and partition.arrival is not None
            and self._producers.arrivals.count(partition.arrival) > 1
        )

    def is_unknown_producer(self, partition: ProducePartition) -> bool:
        """Return whether another gateway may have newer state of the batch's producer."""
        producer = partition.producer
        if not partition.is_registered or partition.arrival is None or producer is None:
            return False
        key = ProducerKey(
            partition.topic.known_name, partition.number, producer.producer_id, self._principal
        )
        numbers = Range(producer.base_sequence, producer.record_count)
        return self._producers.needs_reading(key, producer.epoch, numbers)

    def depends_on_topic_id(self, partition: ProducePartition, topic: str, topic_id: UUID) -> bool:
        """Return whether a batch is a retry, unless its topic was deleted and created again.

        Then the topic's id has to be looked up: it may have changed since it was.
        """
        if not partition.is_registered or partition.arrival is None:
            return False
        producer = partition.producer
        assert producer is not None
        key = ProducerKey(topic, partition.number, producer.producer_id, self._principal)
        numbers = Range(producer.base_sequence, producer.record_count, checksum(partition.data))
        return self._producers.depends_on_topic_id(key, producer.epoch, numbers, topic_id)

    def expect(self, partition: ProducePartition, *, has_policies: bool) -> Batch | None:
        """Add a batch with a producer id; return the batch of its first attempt if it is a retry.

        Args:
            partition: The partition.
            has_policies: Whether the topic has policies, so that the batch needs a verdict.
        """
        if not partition.is_registered:  # it was not known that the topic is intercepted
            self.arrive(partition)
        if partition.idempotent_producer is None:
            return None
        if self._request.gateway.lane is not None:  # a reload may have been meanwhile
            self._request.gateway.lane.forget(partition.topic.known_name)
        partition.identify(self._principal)
        partition.judging = Judging.AWAITED if has_policies else Judging.NONE
        self._batches.append(partition)
        if partition.arrival is None:
            return None
        self._producers.see_topic_id(
            partition.key,
            partition.arrival,
            partition.epoch,
            partition.numbers.first,
            partition.topic.topic_id,
        )
        known = self._producers.find(partition.key, partition.epoch, partition.numbers)
        if known is None or not is_intact(partition.data):
            return None  # damaged: its sequence numbers may be wrong, so it is judged
        if known.dropped_count:
            partition.judging = Judging.AWAITED
        return known

    def judged(self, partition: ProducePartition, verdict: PolicyVerdict) -> PolicyVerdict:
        """Record a verdict; return the effective one."""
        if partition.judging is None:
            if verdict.replacement is None:
                return verdict
            # Nothing may be dropped out of it, so it was not expected here: records are marked.
            partition.keeps_numbers = not verdict.replacement.dropped
            self._batches.append(partition)
        partition.judging = Judging.JUDGED
        partition.replacement = verdict.replacement
        if (
            self._idempotence is Idempotence.REFUSE
            and partition.is_translated
            and partition.dropped
        ):
            if bad := verdict.quarantined:
                return replace(bad[0].verdict, outcome=Outcome.REFUSED)
            return refused(
                INVALID_RECORD,
                "An interceptor drops records of this batch, and its producer is idempotent "
                "(produce.request.interceptors.idempotence is refuse)",
                "",
            )
        return verdict

    def grown(self) -> Iterator[ProducePartition]:
        """Return the partitions whose batches were enlarged."""
        for partition in self._batches:
            made = partition.replacement
            if made is not None and len(made.data) > len(partition.data):
                yield partition

    # When it is decided

    def unknown_last_sequences(self) -> Slices[dict[str, dict[int, int]]]:
        """Return the producers whose last sequence number has to be requested from the broker.

        Yields:
            After each slice.

        Returns:
            The producer id by topic and partition.
        """
        unknown: dict[str, dict[int, int]] = {}
        for number, partition in enumerate(self._batches, 1):
            if number % SLICE == 0:
                yield
            if partition.response is not None or not partition.is_translated:
                continue
            if partition.judging is Judging.NONE and not is_intact(partition.data):
                continue
            key = partition.key
            if self._producers.queries.is_needed(
                key,
                partition.epoch,
                partition.numbers,
                partition.dropped,
                connection=self._request.connection.number,
            ):
                unknown.setdefault(key.topic, {})[key.partition] = key.producer_id
        return unknown

    def on_last_sequences(
        self,
        unknown: Mapping[str, Mapping[int, int]],
        found: Mapping[tuple[str, int], LastSequence],
    ) -> None:
        """Apply the last sequence numbers that the broker returned; respond to retriable errors.

        Args:
            unknown: The result of `unknown_last_sequences`.
            found: By topic and partition; empty if the broker does not support the request.
        """
        for partition in self._batches:
            if (
                partition.response is None
                and partition.arrival is not None
                and partition.number in unknown.get(partition.key.topic, ())
            ):
                last = found.get((partition.key.topic, partition.number))
                self._on_last_sequence(partition, partition.arrival, last)

    def _on_last_sequence(
        self, partition: ProducePartition, arrival: Arrival, last: LastSequence | None
    ) -> None:
        key, epoch, numbers = partition.key, partition.epoch, partition.numbers
        if last is None or (last.code and last.code not in RETRIABLE):
            # The broker is too old, or the client is not authorized to read the topic.
            partition.is_unknown = not self._producers.queries.without_last_sequence(
                key, arrival, epoch, numbers, partition.dropped
            )
        elif last.code:
            self._request.answer(partition, PartitionResponse(last.code))
        else:
            sequence = last.sequence if last.epoch == epoch else -1
            is_known = self._producers.queries.on_last_sequence(
                key,
                arrival,
                epoch,
                numbers,
                sequence if sequence >= 0 else None,
                partition.dropped,
                connection=self._request.connection.number,
                leader=last.leader,
            )
            if not is_known:
                self._request.answer(partition, PartitionResponse(REQUEST_TIMED_OUT, _ELSEWHERE))

    def decide(self, on_written: Callable[[], None]) -> Slices[None]:
        """Decide about every batch for the broker, in slices.

        Batches that cannot be sent get their response.

        Args:
            on_written: Called whenever `unwritten` has become less; it may be before the last
                slice.

        Yields:
            After each slice.
        """
        for number, partition in enumerate(self._batches, 1):
            if number % SLICE == 0:
                yield
            self.leave(partition)
            if not partition.is_translated:
                if partition.letters and partition.response is None:
                    self._store_letters(partition, on_written)
                continue
            if partition.response is not None:
                self._record_local_response(partition)
            elif partition.judging is Judging.NONE and not is_intact(partition.data):
                continue  # damaged and not judged: the broker refuses it
            else:
                self._decide(partition, on_written)
        self.depart()
        if self._request.policies.whole_request:
            self._postpone_all()

    def _store_letters(self, partition: ProducePartition, on_written: Callable[[], None]) -> None:
        """Store the dead letters of a batch whose producer is not known by its numbers."""

        def stored(failure: str | None) -> None:
            self.unwritten -= 1
            if isinstance(failure, LettersRefused):
                partition.refused_letters = failure
            if failure is not None:
                self._request.answer(partition, _not_stored(failure))
            on_written()

        assert partition.store_letters is not None
        self.unwritten += 1
        partition.store_letters(partition.letters, stored)

    def _decide(self, partition: ProducePartition, on_written: Callable[[], None]) -> None:
        """Decide about one batch."""
        key, epoch, numbers = partition.key, partition.epoch, partition.numbers
        assert partition.arrival is not None
        if partition.is_unknown:
            self._producers.forget(key)
            self._request.answer(partition, _error_response(UNKNOWN_PRODUCER_ID))
            return
        if self._has_to_be_judged_again(partition):
            self._producers.defer(
                key, partition.arrival, epoch, numbers, connection=self._request.connection.number
            )
            self._request.answer(partition, _error_response(REQUEST_TIMED_OUT))
            return
        made = partition.replacement
        own: Buffer = partition.data if made is None else made.data
        at_once: list[str | None] = []

        def written(failure: str | None) -> None:
            if partition.decided is None:
                at_once.append(failure)
                return
            self.unwritten -= 1
            self._written(partition, failure)
            on_written()

        decided = self._producers.decide(
            key,
            partition.arrival,
            epoch,
            numbers,
            partition.dropped,
            own,
            connection=self._request.connection.number,
            is_changed=_is_changed(partition),
            topic_id=partition.topic.topic_id,
            quarantined=_quarantined(partition),
            done=written,
        )
        if isinstance(decided, int):
            self._request.answer(partition, _error_response(decided))
            return
        partition.decided = decided.batch
        partition.outgoing = decided.data
        is_own = made is None and decided.data is own
        partition.is_unchanged = is_own or decided.batch.is_whole
        if at_once:
            self._written(partition, at_once[0])
        else:
            self.unwritten += 1

    def _has_to_be_judged_again(self, partition: ProducePartition) -> bool:
        """Whether the first attempt of a batch was forgotten, or became known, since `expect`.

        In the second case another gateway has decided, and the same records have to be dropped.
        """
        known = self._producers.find(partition.key, partition.epoch, partition.numbers)
        if known is not None and known.is_decided:
            return False
        if partition.judging is Judging.AWAITED:
            return True
        return known is not None and not set(known.dropped_again) <= set(partition.dropped)

    def _written(self, partition: ProducePartition, failure: str | None) -> None:
        if failure is None or partition.decided is None:
            return
        self._producers.not_kept(partition.key, partition.epoch, partition.decided)
        if partition.refused_letters is not None and partition.arrival is not None:
            self._producers.refuse(
                partition.key, partition.arrival, partition.epoch, partition.numbers
            )
            self._request.answer(partition, _not_stored(partition.refused_letters))
        elif isinstance(failure, LettersNotStored):
            self._request.answer(partition, _not_stored(failure))
        else:
            self._request.answer(partition, PartitionResponse(REQUEST_TIMED_OUT, _NOT_KEPT))

    def _record_local_response(self, partition: ProducePartition) -> None:
        """Record that the gateway responds to a batch with an error, and does not send it.

        The sequence numbers of a damaged batch may be wrong, and are not recorded.
        """
        assert partition.arrival is not None
        if not is_intact(partition.data):
            return
        is_retried = self._request.is_retried(partition)
        record = self._producers.defer if is_retried else self._producers.refuse
        record(partition.key, partition.arrival, partition.epoch, partition.numbers)

    def _postpone_all(self) -> None:
        """Answer all batches of the request with a retriable error if one cannot be sent."""
        if not self._request.answered:
            return
        for partition in self._batches:
            if partition.response is None and not self.is_stored(partition):
                self._request.answer(partition, _error_response(REQUEST_TIMED_OUT))
                self._withdraw(partition)

    def is_stored(self, partition: ProducePartition) -> bool:
        """Return whether a batch is a retry of a batch that was stored or acknowledged."""
        if partition.judging is None or partition.arrival is None:
            return False
        known = partition.decided or self._producers.find(
            partition.key, partition.epoch, partition.numbers
        )
        return known is not None and known.state in {State.STORED, State.ACKNOWLEDGED}

    def _withdraw(self, partition: ProducePartition) -> None:
        decided = partition.decided
        if partition.arrival is not None and decided is not None and decided.state is State.DECIDED:
            self._producers.defer(
                partition.key,
                partition.arrival,
                partition.epoch,
                partition.numbers,
                connection=self._request.connection.number,
            )

    def on_early_responses(self) -> Slices[None]:
        """Record the batches that got a response before they were added.

        The batches after a batch that is retried must not be sent before it.

        Yields:
            After each slice.
        """
        for number, partition in enumerate(self._arrived, 1):
            if number % SLICE == 0:
                yield
            if (
                partition.is_registered
                and partition.arrival is not None
                and partition.judging is None
                and partition.response is not None
                and self._request.is_intercepted(partition.topic)
            ):
                partition.identify(self._principal)
                self._record_local_response(partition)

    def depart(self) -> None:
        """Unregister the batches: they are decided, so others no longer wait for them."""
        for partition in self._arrived:
            self.leave(partition)
        self._arrived.clear()

    def leave(self, partition: ProducePartition) -> None:
        """Unregister one batch, if it is registered."""
        if not partition.is_registered:
            return
        partition.is_registered = False
        producer = partition.producer
        if partition.arrival is not None and producer is not None:
            self._producers.arrivals.remove(
                partition.arrival, producer.epoch, producer.base_sequence
            )
        if partition.judging is None:
            partition.arrival = None

    def cancel(self) -> None:
        """Record that the request is not sent: the client retries."""
        self.depart()
        for partition in self._batches:
            self._withdraw(partition)

    @property
    def with_refused_letters(self) -> Sequence[ProducePartition]:
        """The batches whose dead letters their topic does not take; they get a final error."""
        return [partition for partition in self._batches if partition.refused_letters is not None]

    # When it goes

    def send(self) -> dict[tuple[int, int], Sequence[Buffer]]:
        """Mark the batches as sent; those that may not be sent now get their response.

        Returns:
            The batches to send instead of the client's, by position.
        """
        if self._request.policies.whole_request:
            self._send_all_or_none()
        replaced: dict[tuple[int, int], Sequence[Buffer]] = {}
        for partition in self._batches:
            if partition.response is not None:
                self._withdraw(partition)
                continue
            made = self._send(partition)
            if isinstance(made, PartitionResponse):
                self._request.answer(partition, made)
                continue
            if made is not None:
                replaced[partition.position] = made
            decided = partition.decided
            if self._request.data.acks == 0 and decided is not None and not decided.is_done:
                self._producers.on_response(partition.key, partition.epoch, decided, NONE, Stored())
        return replaced

    def _send_all_or_none(self) -> None:
        """Send no batch of the request if one of them must not be sent now."""
        self._postpone_all()
        if any(
            self._producers.obstacle(partition.key, partition.epoch, partition.decided)
            for partition in self._batches
            if partition.response is None
            and partition.decided is not None
            and not partition.decided.is_done
        ):
            if self._batches[0].response is None:
                self._request.answer(self._batches[0], _error_response(REQUEST_TIMED_OUT))
            self._postpone_all()

    def _send(self, partition: ProducePartition) -> PartitionResponse | Sequence[Buffer] | None:
        """Mark one batch as sent.

        Returns:
            An error response, or the bytes to send; None to send the original batch, or nothing
            if the batch is in `due`.
        """
        decided = partition.decided
        if decided is None:
            return _plain(partition) if not partition.is_translated else None
        if decided.is_done:
            self._due.append(partition)
            return None
        code = self._producers.send(partition.key, partition.epoch, decided)
        if code:
            return _error_response(code)
        data = partition.data if partition.is_unchanged else partition.outgoing
        assert data is not None
        if decided.broker_first != decided.first:
            self._producers.translated += 1
            producer_id = partition.key.producer_id
            return with_sequence(data, producer_id, partition.epoch, decided.broker_first)
        return None if partition.is_unchanged else [data]

    @property
    def due(self) -> Sequence[ProducePartition]:
        """The batches that are not sent to the broker, and get their response in `acknowledge`."""
        return self._due

    # When it is answered

    def acknowledge(self) -> None:
        """Respond to the batches that were not sent; all batches before have a response."""
        for partition in self._due:
            batch = partition.decided
            if batch is None or partition.response is not None:
                continue
            code = self._producers.acknowledge(partition.key, partition.epoch, batch)
            self._request.answer(
                partition,
                PartitionResponse(NONE, None, (), *batch.stored)
                if not code
                else _error_response(code),
            )

    @property
    def needs_response(self) -> bool:
        """Whether the broker's response is needed, for sequence numbers or record errors."""
        return any(
            partition.decided is not None or partition.dropped for partition in self._batches
        )

    def on_response(self, response: ProduceResponse) -> Slices[None]:
        """Update the producers' state from the broker's response, and correct the response.

        Yields:
            After each slice.
        """
        for number, partition in enumerate(self._batches, 1):
            if number % SLICE == 0:
                yield
            topic = partition.topic.data.key
            found = response.partition_response(topic, partition.number)
            if found is None:
                continue
            dropped = partition.dropped
            if partition.decided is not None:
                dropped = partition.decided.dropped
                code = self._producers.on_response(
                    partition.key,
                    partition.epoch,
                    partition.decided,
                    found.code,
                    Stored(found.base_offset, found.log_append_time, found.log_start_offset),
                )
                if code != found.code:
                    start = max(0, found.log_start_offset)
                    response.replace_error(topic, partition.number, code, start)
            if dropped and partition.producer is not None:
                left_out = set(dropped)
                count = partition.producer.record_count
                positions = [at for at in range(count) if at not in left_out]
                response.move_record_errors(topic, partition.number, positions)


def _plain(partition: ProducePartition) -> PartitionResponse | Sequence[Buffer] | None:
    """Return the bytes to send for a batch whose sequence numbers are not changed."""
    if partition.judging is Judging.NONE:
        return None  # not judged: the broker stores or refuses the original
    made = partition.replacement
    data: Buffer = partition.data if made is None else made.data
    if not data:
        return PartitionResponse(NONE)
    if partition.idempotent_producer is not None and not partition.keeps_numbers:
        return with_sequence(data, -1, -1, -1)
    return None if made is None else [data]


def _is_changed(partition: ProducePartition) -> bool:
    """Whether interceptors may have changed records that are left, not only headers (marks)."""
    plan = partition.topic.plan
    return bool(partition.replacement and plan is not None and plan.interceptors)


def _quarantined(partition: ProducePartition) -> Quarantined | None:
    writer = partition.store_letters
    if writer is None:
        return None

    def store(letters: bytes, done: Callable[[str | None], None]) -> None:
        def stored(failure: str | None) -> None:
            partition.refused_letters = failure if isinstance(failure, LettersRefused) else None
            done(failure)

        writer(letters, stored)

    made = partition.replacement
    if made is None or not made.quarantined:
        return Quarantined((), None, store)
    return Quarantined(made.quarantined, made.letters, store)


def _not_stored(failure: str) -> PartitionResponse:
    code = INVALID_RECORD if isinstance(failure, LettersRefused) else REQUEST_TIMED_OUT
    text = f"The dead letters of this batch could not be stored: {failure}"
    return PartitionResponse(code, bounded(text))


def _error_response(code: int) -> PartitionResponse:
    if code == UNKNOWN_PRODUCER_ID:
        return PartitionResponse(code, _TEXTS[code], log_start_offset=0)
    return PartitionResponse(code, _TEXTS.get(code))
