"""A topic and a partition of a Produce request, from the request to its response.

All that is known of a partition's batch is only here: its state (`partition_state`), its producer,
its verdict, its replacement, the decision about it, its response. `verdicts` applies a verdict, and
`intercepted.batches` decides what is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.gateway.produce.partition_state import PartitionState
from penstock.kafka.records.header import read_producer
from penstock.kafka.wire.names import NO_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from uuid import UUID

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.verdict import PolicyVerdict, Replacement
    from penstock.gateway.produce.dead_letters.failures import LettersRefused
    from penstock.gateway.produce.producer_state.arrivals import Arrival
    from penstock.gateway.produce.producer_state.producer.batch import Batch
    from penstock.gateway.produce.producer_state.producer.numbers import Range
    from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
    from penstock.kafka.records.header import BatchProducer
    from penstock.kafka.wire.requests.produce import (
        PartitionData,
        PartitionResponse,
        ProduceRequest,
    )

    Buffer = bytes | memoryview

    StoreLetters = Callable[[bytes, Callable[[str | None], None], Hashable], None]
    """Stores dead letters; see `dead_letters.writer.DeadLetterWriter.store`."""


class BatchIdentity(NamedTuple):
    """Identifies a batch of a producer whose sequence numbers may have to be changed.

    The first parameters of several methods of `Producers`, in order.

    Attributes:
        key: Its producer, by the name of the topic.
        arrival: Its producer, by the name or id of the topic as in the request.
        epoch: The producer epoch.
        numbers: The producer's sequence numbers.
    """

    key: ProducerKey
    arrival: Arrival
    epoch: int
    numbers: Range


class Decision(NamedTuple):
    """The decision about a batch whose sequence numbers may have to be changed.

    Attributes:
        identity: Identifies the batch.
        batch: The batch in the state of its producer.
        data: The bytes for the broker, except for the sequence numbers; None if nothing is left.
        is_original: Whether these are the client's bytes.
    """

    identity: BatchIdentity
    batch: Batch
    data: Buffer | None
    is_original: bool


class ProduceTopic:
    """A topic of a request.

    Attributes:
        index: Its position in the request.
        data: Its part of the request.
        first: The index of its first partition among all of the request.
        name: The name; None as long as only the id is known.
        topic_id: The id; None if it is not known, or not needed.
        plan: The policies whose verdicts the request waits for; None if there are none, or not yet.
        is_observed: Whether policies only observe it.
    """

    __slots__ = ("data", "first", "index", "is_observed", "name", "plan", "request", "topic_id")

    def __init__(self, request: ProduceRequest, index: int, first: int) -> None:
        self.request = request
        self.index = index
        self.first = first
        self.data = data = request.topics[index]
        self.name = data.name
        self.topic_id = data.topic_id
        self.plan: TopicPlan | None = None
        self.is_observed = False

    @property
    def known_name(self) -> str:
        """The name; empty if it is not known."""
        return self.name or ""

    @property
    def known_id(self) -> UUID:
        """The id as policies and topic configs know it: zeros if it is not known."""
        return self.topic_id or NO_ID


_NOT_READ: Final = object()
# For each batch: to read the member of an Enum takes longer.
_UNCHANGED: Final = PartitionState.UNCHANGED
_ANSWERED: Final = PartitionState.ANSWERED


class ProducePartition:
    """A partition of a request, and its batch.

    Attributes:
        index: Its position in the topic's part of the request.
        number: The partition's number.
        state: The state of the batch.
        arrival: Its producer as in the request, while later batches of the producer wait for the
            decision about it; None otherwise.
        dropped_before: The positions of the records that its first attempt lost; None if no earlier
            attempt is known.
        store_letters: Stores dead letters of the batch; None if it has none.
        refused_letters: Why their topic does not take its dead letters; None if it does.
        identity: Identifies the batch where its sequence numbers may have to be changed; None
            otherwise.
        verdict: The verdict that accepts the batch, if it is counted or reported; None otherwise.
        replacement: The batch that is sent instead, because of policies.
        decision: The decision about the batch; None if its numbers are not changed.
        response: The gateway's own response, such as of a batch that a verdict refuses; None if
            it has none.
    """

    __slots__ = ("_part", "_producer", "arrival", "decision", "dropped_before", "identity", "index",
                 "number", "refused_letters", "replacement", "response", "state", "store_letters",
                 "topic", "verdict")  # fmt: skip

    def __init__(self, topic: ProduceTopic, index: int, part: PartitionData) -> None:
        self.topic = topic
        self.index = index
        self.number = part.number
        self._part = part
        self._producer: object = _NOT_READ
        self.state: PartitionState = _UNCHANGED
        self.arrival: Arrival | None = None
        self.dropped_before: Sequence[int] | None = None
        self.store_letters: StoreLetters | None = None
        self.refused_letters: LettersRefused | None = None
        self.identity: BatchIdentity | None = None
        self.verdict: PolicyVerdict | None = None
        self.replacement: Replacement | None = None
        self.decision: Decision | None = None
        self.response: PartitionResponse | None = None

    def transition_to(self, state: PartitionState) -> None:
        """Change the state.

        Raises:
            AssertionError: The transition is illegal: an error of the gateway.
        """
        if state not in self.state.following:
            raise AssertionError(f"{self.state.name} to {state.name}")
        self.state = state

    def decide(self, decision: Decision) -> None:
        """Set the decision about its records and its sequence numbers."""
        self.transition_to(PartitionState.DECIDED)
        self.decision = decision

    def answer(self, response: PartitionResponse) -> None:
        """Set the gateway's own response, or replace it."""
        if not self.is_answered:
            self.transition_to(_ANSWERED)
        self.response = response

    @property
    def is_unchanged(self) -> bool:
        """Whether it is sent as it is, unless a verdict refuses or replaces it."""
        return self.state is _UNCHANGED

    @property
    def is_answered(self) -> bool:
        """Whether it has a response of the gateway's own, and is not sent to the broker."""
        return self.state is _ANSWERED

    @property
    def position(self) -> tuple[int, int]:
        """The indexes of the topic and of the partition in the request."""
        return self.topic.index, self.index

    @property
    def data(self) -> memoryview:
        """The batch, as the client sent it."""
        return self.topic.request.records(self._part)

    @property
    def producer(self) -> BatchProducer | None:
        """The batch's place in the sequence of its producer; None if it has no readable header."""
        if self._producer is _NOT_READ:
            self._producer = read_producer(self.data)
        return self._producer  # type: ignore[return-value]

    @property
    def idempotent_producer(self) -> BatchProducer | None:
        """The same; None without a producer id."""
        producer = self.producer
        return producer if producer is not None and producer.producer_id >= 0 else None

    @property
    def dropped(self) -> Sequence[int]:
        """The positions of the records that are dropped now."""
        return self.replacement.dropped if self.replacement is not None else ()

    @property
    def removed_count(self) -> int:
        """How many records of the client's batch the broker does not get."""
        decision = self.decision
        return len(self.dropped) if decision is None else decision.batch.dropped_count

    @property
    def letters(self) -> bytes:
        """Its dead letters."""
        return self.replacement.letters if self.replacement is not None else b""
