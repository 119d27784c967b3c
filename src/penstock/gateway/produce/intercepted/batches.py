"""The batches of a Produce request that may not be sent as they are.

Interceptors (KIP-905) may change them and drop records. In quarantine, bad records are left out;
where policies mark records, only headers are added.

The methods are called in this order: `received.arrive` when the request has been received,
`expect` when its topics are known, `judged` with each verdict, `decide` when all requests before it
are decided, `send` when all requests before it have been sent, `on_response` with the broker's
response, `acknowledge` when all requests before it have responses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.engine.verdict import refused, refused_because
from penstock.gateway.produce.idempotence import Idempotence
from penstock.gateway.produce.intercepted.batch_decisions import BatchDecisions
from penstock.gateway.produce.intercepted.error_responses import MAY_BE_ELSEWHERE, error_response
from penstock.gateway.produce.intercepted.received_batches import ReceivedBatches
from penstock.gateway.produce.intercepted.sent_batches import SentBatches
from penstock.gateway.produce.last_sequences import not_read
from penstock.gateway.produce.partition import Judging
from penstock.gateway.produce.request import SLICE
from penstock.kafka.error_codes import INVALID_RECORD
from penstock.kafka.records.header import is_intact
from penstock.kafka.wire.errors import REQUEST_TIMED_OUT, RETRIABLE
from penstock.kafka.wire.requests.produce import PartitionResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.engine.verdict import PolicyVerdict
    from penstock.gateway.produce.partition import ProducePartition
    from penstock.gateway.produce.producer_state.arrivals import Arrival
    from penstock.gateway.produce.producer_state.producer.batch import Batch
    from penstock.gateway.produce.request import ReceivedRequest
    from penstock.kafka.wire.requests.produce_response import ProduceResponse
    from penstock.kafka.wire.requests.producers import LastSequence
    from penstock.kafka.wire.slices import Slices

    Buffer = bytes | memoryview

_FOR_IDEMPOTENT_PRODUCERS: Final = (
    "and its producer is idempotent (produce.request.interceptors.idempotence is refuse)"
)
_SETS_ASIDE: Final = f"penstock.mode is quarantine, {_FOR_IDEMPOTENT_PRODUCERS}"
_DROPS: Final = f"An interceptor drops records of this batch, {_FOR_IDEMPOTENT_PRODUCERS}"


class InterceptedBatches:
    """The intercepted batches of one request.

    Attributes:
        received: The batches that may be intercepted.
    """

    __slots__ = ("_batches", "_decisions", "_idempotence", "_producers", "_request", "_sent",
                 "received")  # fmt: skip

    def __init__(self, request: ReceivedRequest) -> None:
        self._request = request
        self._producers = request.gateway.producers
        self._idempotence = request.policies.idempotence
        self._batches: list[ProducePartition] = []
        self.received = ReceivedBatches(request)
        self._decisions = BatchDecisions(request)
        self._sent = SentBatches(request)

    def __bool__(self) -> bool:
        return bool(self._batches)

    # Before it is judged

    def expect(self, partition: ProducePartition, *, has_policies: bool) -> Batch | None:
        """Add a batch with a producer id; return the batch of its first attempt if it is a retry.

        Args:
            has_policies: Whether the topic has policies, so that the batch needs a verdict.
        """
        if not partition.is_registered:  # it was not known that the topic is intercepted
            self.received.arrive(partition)
        if partition.idempotent_producer is None:
            return None
        if self._request.gateway.lane is not None:  # a reload may have been meanwhile
            self._request.gateway.lane.forget(partition.topic.known_name)
        partition.identify(self.received.principal)
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
        first_attempt = self._producers.find(partition.key, partition.epoch, partition.numbers)
        if first_attempt is None or not is_intact(partition.data):
            return None  # damaged: its sequence numbers may be wrong, so it is judged
        if first_attempt.dropped_count:
            partition.judging = Judging.AWAITED
        return first_attempt

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
                return refused_because(_SETS_ASIDE, bad[0])
            return refused(INVALID_RECORD, _DROPS, "")
        return verdict

    def grown(self) -> Iterator[ProducePartition]:
        """Return the partitions whose batches were enlarged."""
        for partition in self._batches:
            replacement = partition.replacement
            if replacement is not None and len(replacement.data) > len(partition.data):
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
        last_sequences: Mapping[tuple[str, int], LastSequence],
    ) -> None:
        """Apply the last sequence numbers that the broker returned; respond to retriable errors.

        Args:
            unknown: The result of `unknown_last_sequences`.
            last_sequences: By topic and partition; empty if the broker does not support the
                request.
        """
        for partition in self._batches:
            if (
                partition.response is None
                and partition.arrival is not None
                and partition.number in unknown.get(partition.key.topic, ())
            ):
                last = last_sequences.get((partition.key.topic, partition.number))
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
            self._request.answer(partition, not_read(last.code))
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
                self._request.answer(partition, MAY_BE_ELSEWHERE)

    def decide(self, on_written: Callable[[], None]) -> Slices[None]:
        """Decide about every batch for the broker, in slices.

        Batches that cannot be sent get their response.

        Args:
            on_written: Called whenever `is_written` may have changed; it may be before the last
                slice.

        Yields:
            After each slice.
        """
        for number, partition in enumerate(self._batches, 1):
            if number % SLICE == 0:
                yield
            self.received.leave(partition)
            if not partition.is_translated:
                if partition.letters and partition.response is None:
                    self._decisions.store_letters(partition, on_written)
                continue
            if partition.response is not None:
                self._decisions.record_response(partition)
            elif partition.judging is Judging.NONE and not is_intact(partition.data):
                continue  # damaged and not judged: the broker refuses it
            else:
                self._decisions.decide(partition, on_written)
        self.received.depart()
        if self._request.policies.whole_request:
            self._postpone_all()

    @property
    def is_written(self) -> bool:
        """Whether nothing has to be written any more before the batches go."""
        return not self._decisions.unwritten

    def _postpone_all(self) -> None:
        """Answer all batches of the request with a retriable error if one cannot be sent."""
        if not self._request.answered:
            return
        for partition in self._batches:
            if partition.response is None and not self.is_stored(partition):
                self._request.answer(partition, error_response(REQUEST_TIMED_OUT))
                self._decisions.withdraw(partition)

    def is_stored(self, partition: ProducePartition) -> bool:
        """Return whether a batch is a retry of a batch that was stored or acknowledged."""
        return self._decisions.is_stored(partition)

    def on_early_responses(self) -> Slices[None]:
        """Record the batches that got a response before they were added.

        The batches after a batch that is retried must not be sent before it.

        Yields:
            After each slice.
        """
        for number, partition in enumerate(self.received.registered, 1):
            if number % SLICE == 0:
                yield
            if (
                partition.is_registered
                and partition.arrival is not None
                and partition.judging is None
                and partition.response is not None
                and self._request.is_intercepted(partition.topic)
            ):
                partition.identify(self.received.principal)
                self._decisions.record_response(partition)

    def cancel(self) -> None:
        """Record that the request is not sent: the client retries."""
        self.received.depart()
        for partition in self._batches:
            self._decisions.withdraw(partition)

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
                self._decisions.withdraw(partition)
                continue
            result = self._sent.send(partition)
            if isinstance(result, PartitionResponse):
                self._request.answer(partition, result)
                continue
            if result is not None:
                replaced[partition.position] = result
            if self._request.data.acks == 0:
                self._sent.on_no_response(partition)
        return replaced

    def _send_all_or_none(self) -> None:
        """Send no batch of the request if one of them must not be sent now."""
        self._postpone_all()
        if any(map(self._sent.is_held_up, self._batches)):
            if self._batches[0].response is None:
                self._request.answer(self._batches[0], error_response(REQUEST_TIMED_OUT))
            self._postpone_all()

    @property
    def due(self) -> Sequence[ProducePartition]:
        """The batches that are not sent to the broker, and get their response in `acknowledge`."""
        return self._sent.due

    # When it is answered

    def acknowledge(self) -> None:
        """Respond to the batches that were not sent; all batches before have a response."""
        self._sent.acknowledge()

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
            self._sent.on_response(partition, response)
