"""A topic and a partition of a Produce request, from the request to its response.

The state of a partition's batch is only here: its producer, its verdict, its
replacement, its response. `verdicts` applies a verdict, and
`intercepted.batches` decides what is sent.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.kafka.records.header import checksum, read_producer
from penstock.kafka.wire.names import NO_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from uuid import UUID

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.verdict import PolicyVerdict, Replacement
    from penstock.gateway.produce.dead_letters.failures import LettersRefused
    from penstock.gateway.produce.producer_state.arrivals import Arrival
    from penstock.gateway.produce.producer_state.producer.batch import Batch
    from penstock.kafka.records.header import BatchProducer
    from penstock.kafka.wire.requests.produce import (
        PartitionData,
        PartitionResponse,
        ProduceRequest,
    )

    StoreLetters = Callable[[bytes, Callable[[str | None], None], Hashable], None]
    """Stores dead letters; see `dead_letters.writer.DeadLetterWriter.store`."""


class Judging(Enum):
    """Whether a batch that may not be sent as it is has been judged."""

    NONE = "none"
    """The topic has no policies; sequence numbers may have to be changed."""
    AWAITED = "awaited"
    """The batch needs a verdict, or the result of its first attempt, before it is sent."""
    JUDGED = "judged"
    """There is a verdict."""


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


class ProducePartition:
    """A partition of a request, and its batch.

    Attributes:
        index: Its position in the topic's part of the request.
        number: The partition's number.
        response: The gateway's own response, such as of a batch that a verdict refuses; None if
            it has none.
        verdict: The verdict that accepts the batch, if it is counted or reported; None otherwise.
        is_retry: Whether an earlier attempt of the batch is known.
        lost_before: Whether that attempt lost records.
        store_letters: Stores dead letters of the batch; None if it has none.
        refused_letters: Why their topic does not take its dead letters; None if it does.
        arrival: Its producer as in the request, if sequence numbers may have to be changed.
        is_registered: Whether later batches of the producer wait for the decision.
        judging: Whether it is judged; None for a batch that is sent as it is.
        replacement: The batch that is sent instead, because of policies.
        keeps_numbers: Whether it is sent with its sequence numbers, since nothing is dropped.
        key: Its producer; only for a batch of a producer that may not be sent unchanged.
        numbers: The producer's sequence numbers; as `key`.
        is_unknown: Whether the producer is unknown, so that it has to begin again.
        decided: The decision about the batch; None if its numbers are not changed.
        outgoing: The bytes for the broker, as they were decided.
        is_unchanged: Whether the broker gets the client's bytes instead.
    """

    __slots__ = ("_part", "_producer", "arrival", "decided", "index", "is_registered", "is_retry",
                 "is_unchanged", "is_unknown", "judging", "keeps_numbers", "key", "lost_before",
                 "number", "numbers", "outgoing", "refused_letters", "replacement", "response",
                 "store_letters", "topic", "verdict")  # fmt: skip

    key: ProducerKey
    numbers: Range

    def __init__(self, topic: ProduceTopic, index: int, part: PartitionData) -> None:
        self.topic = topic
        self.index = index
        self.number = part.number
        self._part = part
        self._producer: object = _NOT_READ
        self.response: PartitionResponse | None = None
        self.verdict: PolicyVerdict | None = None
        self.is_retry = False
        self.lost_before = False
        self.store_letters: StoreLetters | None = None
        self.refused_letters: LettersRefused | None = None
        self.arrival: Arrival | None = None
        self.is_registered = False
        self.judging: Judging | None = None
        self.replacement: Replacement | None = None
        self.keeps_numbers = False
        self.is_unknown = False
        self.decided: Batch | None = None
        self.outgoing: bytes | memoryview | None = None
        self.is_unchanged = False

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
    def epoch(self) -> int:
        """The epoch of the producer, if there is a producer."""
        assert self.producer is not None
        return self.producer.epoch

    def identify(self, principal: str) -> None:
        """Set `key` and `numbers`: the topic's name is known, and there is a producer."""
        producer = self.producer
        assert producer is not None
        self.key = ProducerKey(self.topic.known_name, self.number, producer.producer_id, principal)
        self.numbers = Range(producer.base_sequence, producer.record_count, checksum(self.data))

    @property
    def is_translated(self) -> bool:
        """Whether its sequence numbers may have to be changed."""
        return self.arrival is not None

    @property
    def dropped(self) -> Sequence[int]:
        """The positions of the records that are dropped now."""
        return self.replacement.dropped if self.replacement is not None else ()

    @property
    def removed_count(self) -> int:
        """How many records of the client's batch the broker does not get."""
        return len(self.dropped) if self.decided is None else self.decided.dropped_count

    @property
    def letters(self) -> bytes:
        """Its dead letters."""
        return self.replacement.letters if self.replacement is not None else b""
