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
from penstock.gateway.produce.lookups.last_sequences import not_read
from penstock.gateway.produce.partition_state import PartitionState
from penstock.gateway.produce.request import SLICE
from penstock.kafka.error_codes import INVALID_RECORD
from penstock.kafka.records.header import is_intact
from penstock.kafka.wire.errors import REQUEST_TIMED_OUT, RETRIABLE
from penstock.kafka.wire.requests.produce import PartitionResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.engine.verdict import PolicyVerdict
    from penstock.gateway.produce.partition import BatchIdentity, ProducePartition
    from penstock.gateway.produce.producer_state.producer.batch import Batch
    from penstock.gateway.produce.request import ReceivedRequest
    from penstock.kafka.wire.requests.produce_response import ProduceResponse
    from penstock.kafka.wire.requests.producers import LastSequence
    from penstock.kafka.wire.slices import Slices

    Buffer = bytes | memoryview

_FOR_IDEMPOTENT_PRODUCERS: Final = (
    "and its producer is idempotent (produce.request.interceptors.idempotence is refuse)"
)
# For each batch: to read the member of an Enum takes longer.
_UNJUDGED: Final = PartitionState.UNJUDGED
_DUE: Final = PartitionState.DUE
_SETS_ASIDE: Final = f"penstock.mode is quarantine, {_FOR_IDEMPOTENT_PRODUCERS}"
_DROPS: Final = f"An interceptor drops records of this batch, {_FOR_IDEMPOTENT_PRODUCERS}"


class InterceptedBatches:
    """The intercepted batches of one request.

    Attributes:
        doubted: The topics of which records may be stored though the leader does not have them.
        received: The batches that may be intercepted.
    """

    __slots__ = ("_batches", "_decisions", "_idempotence", "_producers", "_request", "_sent",
                 "_unknown_producers", "doubted", "received")  # fmt: skip

    def __init__(self, request: ReceivedRequest) -> None:
        self._request = request
        self._producers = request.gateway.producers
        self._idempotence = request.policies.idempotence
        self._batches: list[ProducePartition] = []
        # The batches whose producers are unknown, and have to begin again.
        self._unknown_producers: frozenset[ProducePartition] = frozenset()
        self.doubted: set[str] = set()
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
        if partition.arrival is None:  # it may not have been known that the topic is intercepted
            self.received.arrive(partition)
        if partition.idempotent_producer is None:
            return None
        if self._request.gateway.lane is not None:  # a reload may have been meanwhile
            self._request.gateway.lane.forget_numbered(partition.topic.known_name)
        self._batches.append(partition)
        first_attempt = self._first_attempt(partition)
        is_pending = has_policies or (first_attempt is not None and _has_known_drops(first_attempt))
        partition.transition_to(PartitionState.PENDING if is_pending else _UNJUDGED)
        return first_attempt

    def _first_attempt(self, partition: ProducePartition) -> Batch | None:
        """Identify a batch; return the batch of its first attempt if it is a retry."""
        if partition.arrival is None:
            return None
        identity = self.received.identify(partition, partition.arrival)
        partition.identity = identity
        self._producers.see_topic_id(
            identity.key,
            identity.arrival,
            identity.epoch,
            identity.numbers.first,
            partition.topic.topic_id,
        )
        first_attempt = self._producers.find(identity.key, identity.epoch, identity.numbers)
        if first_attempt is None or not is_intact(partition.data):
            return None  # damaged: its sequence numbers may be wrong, so it is judged
        return first_attempt

    def judged(self, partition: ProducePartition, verdict: PolicyVerdict) -> PolicyVerdict:
        """Record a verdict; return the effective one."""
        replacement = verdict.replacement
        if not partition.is_unchanged:
            partition.transition_to(PartitionState.JUDGED)
        elif replacement is None:
            return verdict
        else:
            # It has no sequence numbers, or records are marked: else it would be expected here.
            keeps_numbers = not replacement.dropped
            partition.transition_to(
                PartitionState.REPLACED if keeps_numbers else PartitionState.JUDGED
            )
            self._batches.append(partition)
        partition.replacement = replacement
        if (
            self._idempotence is Idempotence.REFUSE
            and partition.identity is not None
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

        Their topics are in `doubted` if the leader has to be requested, too.

        Yields:
            After each slice.

        Returns:
            The producer id by topic and partition.
        """
        unknown: dict[str, dict[int, int]] = {}
        for number, partition in enumerate(self._batches, 1):
            if number % SLICE == 0:
                yield
            identity = partition.identity
            if identity is None or partition.is_answered or _is_left_to_broker(partition):
                continue
            key = identity.key
            if self._producers.queries.is_needed(
                key,
                identity.epoch,
                identity.numbers,
                partition.dropped,
                connection=self._request.connection.number,
            ):
                unknown.setdefault(key.topic, {})[key.partition] = key.producer_id
                if key.topic not in self.doubted and self._producers.queries.are_doubted(
                    key, identity.epoch, identity.numbers, partition.dropped
                ):
                    self.doubted.add(key.topic)
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
            identity = partition.identity
            if identity is None or partition.is_answered:
                continue
            topic, number = identity.key.topic, partition.number
            if number in unknown.get(topic, ()):
                last = last_sequences.get((topic, number))
                self._on_last_sequence(partition, identity, last)

    def _on_last_sequence(
        self, partition: ProducePartition, identity: BatchIdentity, last: LastSequence | None
    ) -> None:
        if last is None or (last.code and last.code not in RETRIABLE):
            # The broker is too old, or the client is not authorized to read the topic.
            can_be_decided = self._producers.queries.without_last_sequence(
                *identity, partition.dropped
            )
            if can_be_decided:
                self._unknown_producers -= {partition}
            else:
                self._unknown_producers |= {partition}
        elif last.code:
            self._request.answer(partition, not_read(last.code))
        else:
            sequence = last.sequence if last.epoch == identity.epoch else -1
            can_be_decided = self._producers.queries.on_last_sequence(
                *identity,
                sequence if sequence >= 0 else None,
                partition.dropped,
                connection=self._request.connection.number,
                leader=last.leader,
            )
            if not can_be_decided:
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
            self._decide(partition, on_written)
        self.received.depart()
        if self._request.policies.whole_request:
            self._keep_back_all()

    def _decide(self, partition: ProducePartition, on_written: Callable[[], None]) -> None:
        identity = partition.identity
        if identity is None:
            if partition.letters and not partition.is_answered:
                self._decisions.store_letters(partition, on_written)
        elif partition.is_answered:
            self._decisions.record_response(partition, identity)
        elif _is_left_to_broker(partition):
            pass
        elif partition in self._unknown_producers:
            self._decisions.refuse_unknown(partition, identity)
        else:
            self._decisions.decide(partition, identity, on_written)

    @property
    def is_written(self) -> bool:
        """Whether nothing has to be written any more before the batches go."""
        return not self._decisions.unwritten

    def _keep_back_all(self) -> None:
        """Answer all batches of the request with a retriable error if one cannot be sent."""
        if not self._request.answered:
            return
        for partition in self._batches:
            if not partition.is_answered and not self.is_stored(partition):
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
            is_early = partition.is_answered and partition.identity is None
            if not is_early or partition.arrival is None:
                continue
            if self._request.is_intercepted(partition.topic):
                identity = self.received.identify(partition, partition.arrival)
                self._decisions.record_response(partition, identity)

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
            decision = partition.decision
            if partition.is_answered:
                self._decisions.withdraw(partition)
            elif decision is not None and decision.batch.is_done:
                partition.transition_to(_DUE)
            else:
                data = self._send(partition)
                if data is not None:
                    replaced[partition.position] = data
        return replaced

    def _send_all_or_none(self) -> None:
        """Send no batch of the request if one of them must not be sent now."""
        self._keep_back_all()
        if any(map(self._sent.is_held_up, self._batches)):
            if not self._batches[0].is_answered:
                self._request.answer(self._batches[0], error_response(REQUEST_TIMED_OUT))
            self._keep_back_all()

    def _send(self, partition: ProducePartition) -> Sequence[Buffer] | None:
        """Mark one batch as sent; return the bytes to send instead, if there are any."""
        data = self._sent.send(partition)
        if isinstance(data, PartitionResponse):
            self._request.answer(partition, data)
            return None
        partition.transition_to(PartitionState.SENT)
        if self._request.data.acks == 0:
            self._sent.on_no_response(partition)
        return data

    @property
    def due(self) -> Sequence[ProducePartition]:
        """The batches that are not sent to the broker, and get their response in `acknowledge`."""
        return [partition for partition in self._batches if partition.state is _DUE]

    # When it is answered

    def acknowledge(self) -> None:
        """Respond to the batches that were not sent; all batches before have a response."""
        for partition in self.due:
            self._sent.acknowledge(partition)

    @property
    def needs_response(self) -> bool:
        """Whether the broker's response is needed, for sequence numbers or record errors."""
        return any(
            partition.decision is not None or partition.dropped for partition in self._batches
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


def _is_left_to_broker(partition: ProducePartition) -> bool:
    """Return whether a batch is damaged and not judged: the broker refuses it."""
    return partition.state is _UNJUDGED and not is_intact(partition.data)


def _has_known_drops(batch: Batch) -> bool:
    """Return whether a batch lost records, and which they were is known.

    It is not known of a batch that was stored, and whose state was read from a record: its retry is
    a success, and nothing of it is sent.
    """
    return batch.dropped_count > 0 and (batch.is_decided or len(batch.dropped_again) > 0)
