"""Random histories of Produce requests, without sockets: clients, verdicts, a broker, dead letters.

Two connections share a gateway. Everything that their clients and brokers get is recorded.
"""

import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kio.schema.types import ProducerId
from kio.serial import entity_reader
from kio.static.primitive import i32

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, PolicyVerdict, postponed, refused, replaced
from penstock.gateway.context.topic_names import TopicNames
from penstock.gateway.produce.bad_shares import BadShares
from penstock.gateway.produce.dead_letters.failures import LettersRefused
from penstock.gateway.produce.idempotence import Idempotence
from penstock.gateway.produce.lookups.max_message_bytes import MaxMessageBytes
from penstock.gateway.produce.missing_batches import MissingBatches
from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.kafka.records.header import read_producer
from penstock.kafka.wire.requests.produce import ProduceRequest
from penstock.kafka.wire.schemas import load_request_schema
from penstock.policy import RetriableException
from tests.gateway.admin.talk import broker_frame
from tests.gateway.produce.intercepted import frames_of
from tests.gateway.produce.quarantining import Letters, diverted
from tests.gateway.sessions.talk import Talk, answer
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import produce_request, request_frame

INTERCEPTED, QUARANTINED, MARKED, FREE = "intercepted", "quarantined", "marked", "free"
TOPICS = (INTERCEPTED, INTERCEPTED, QUARANTINED, MARKED, FREE)
IDS = {name: UUID(int=number) for number, name in enumerate(dict.fromkeys(TOPICS), 1)}
PRODUCERS = (5, 5, 6, -1)
LIMIT_BYTES = 130
"""The `max.message.bytes` of each topic; the largest batches do not fit."""
STEPS = 60


class Connection(Talk):
    """A connection whose topics have policies of each kind; those of some may be taken away."""

    has_interceptors = True
    may_quarantine = True
    keeps_decisions = True

    def __init__(
        self,
        producers: Producers,
        missing_batches: MissingBatches,
        *,
        describes_producers: bool,
    ) -> None:
        super().__init__(judged=frozenset(TOPICS) - {FREE})
        self.producers = producers
        self.missing_batches = missing_batches
        self.dead_letters = Letters()
        self.bad_shares = BadShares(_clock)
        self.max_message_bytes = MaxMessageBytes(_clock)
        self.session.topics = TopicNames(_clock)
        self.session._supports_describe_producers = describes_producers
        self.to_answer: list[bytes] = []

    def merged(self, topic: str, own: object) -> dict[str, str]:
        return {}

    def intercepts(self, topic: str) -> bool:
        return topic in self.judged and topic in {INTERCEPTED, QUARANTINED}

    def for_topic(self, topic: str, own: object = None) -> TopicPlan | None:
        if topic not in self.judged:
            return None
        if topic == INTERCEPTED:
            return TopicPlan(topic=topic, interceptors=("i",))
        mode = "quarantine" if topic == QUARANTINED else "enforce"
        return TopicPlan(topic=topic, validators=("v",), mode=mode)


class History:
    """The life of two connections.

    Attributes:
        record: Everything that clients and brokers got, and the counts after each step.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        held = self._random.choice((0, 10**6))  # without memory, batches are judged again
        producers = Producers(now=_clock, held_max_bytes=held)
        batches = MissingBatches(_clock)
        is_new = self._random.random() < 0.5  # the broker supports DescribeProducers
        self._talks = [Connection(producers, batches, describes_producers=is_new) for _ in range(2)]
        self._acks = self._random.choice((1, 1, 1, 1, 0))
        policies = {
            "whole_request": self._random.random() < 0.4,
            "idempotence": self._random.choice([Idempotence.TRANSLATE, *Idempotence]),
        }
        for talk in self._talks:
            talk.policies = talk.policies._replace(**policies)
        self._number = 0
        self._sent: dict[tuple[str, int, int], list[bytes]] = {}
        self.record: list[object] = []

    def play(self) -> None:
        """Take some steps, and close the connections."""
        for _ in range(STEPS):
            active = self._random.choice(self._talks)
            if not active.done:
                self._step(active)
            for number, talk in enumerate(self._talks):
                self._note(number, talk)
        for talk in self._talks:
            talk.session.closed()
            self._end_letters(talk)

    def _step(self, talk: Connection) -> None:
        step = self._random.random()
        if step < 0.02:
            talk.judged = talk.judged ^ {INTERCEPTED}
        elif step < 0.023:
            talk.session.closed()
        elif step < 0.4 and talk.verdicts:
            self._judge(talk)
        elif step < 0.7 and talk.to_answer:
            talk.session.upstream_data(self._response(talk.to_answer.pop(0)))
        elif step < 0.75 and talk.dead_letters.stored:
            self._end_letters(talk)
        else:
            self._produce(talk)

    def _note(self, number: int, talk: Connection) -> None:
        data = talk.broker.take()
        talk.to_answer += [frame for frame in frames_of(data) if self._acks or frame[5]]
        self.record.append((number, data, talk.client.take(), talk.done, len(talk.refusals)))
        self.record.append(
            (len(talk.verdicts), len(talk.dead_letters.stored), len(talk.missing_batches))
        )
        self.record.append((bool(talk.producers.arrivals), talk.producers.translated))

    # The client

    def _produce(self, talk: Connection) -> None:
        self._number += 1
        count = self._random.choice((1, 1, 2, 3))
        topics = [(topic, [self._batch(topic)]) for topic in self._random.choices(TOPICS, k=count)]
        talk.session.client_data(
            request_frame(produce_request(topics, acks=self._acks), self._number)
        )

    def _batch(self, topic: str) -> tuple[int, bytes]:
        """The next batch of a producer for a partition, or an earlier batch, or a damaged batch."""
        partition = self._random.choice((0, 0, 1))
        producer_id = self._random.choice(PRODUCERS)
        sent = self._sent.setdefault((topic, partition, producer_id), [])
        if sent and self._random.random() < 0.35:
            return partition, self._random.choice(sent[-3:])
        first = -1
        if producer_id >= 0:
            last = read_producer(sent[-1]) if sent else None
            first = 0 if last is None else last.base_sequence + last.record_count
            first += self._random.random() < 0.03  # a gap
        data = _encoded(self._random.choice((1, 2, 2)), producer_id, first, self._number)
        sent.append(data)
        if self._random.random() < 0.05:
            data = data[:-1] + b"!"
        return partition, data

    # The policies

    def _judge(self, talk: Connection) -> None:
        which = self._random.randrange(len(talk.verdicts))
        topic, _, data, _ = talk.verdicts[which]
        talk.decide(self._verdict(topic, data), which=which)

    def _verdict(self, topic: str, data: bytes) -> PolicyVerdict:
        """A verdict as the policies of a topic may return it."""
        producer = read_producer(data)
        choice = self._random.random()
        if choice < 0.3 or producer is None:
            return ACCEPTED
        if choice < 0.4:
            if self._random.random() < 0.5:
                return postponed("v", RetriableException("not now"))
            return refused(44, "no", "v")
        count, producer_id, first = (
            producer.record_count, producer.producer_id, producer.base_sequence
        )  # fmt: skip
        if topic == MARKED or choice < 0.55:
            return replaced(_encoded(count, producer_id, first, 0, b"marked" * (count + 1)), [])
        lost = list(range(count if choice < 0.75 else 1))
        left = count - len(lost)
        rest = _encoded(left, producer_id, first, 1) if left else b""
        return diverted(rest, *lost) if topic == QUARANTINED else replaced(rest, lost)

    def _end_letters(self, talk: Connection) -> None:
        while talk.dead_letters.stored:
            failures = (None, None, "it took too long", LettersRefused("they are too large"))
            talk.dead_letters.end(self._random.choice(failures))

    # The broker

    def _response(self, frame: bytes) -> bytes:
        key, version = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big")
        number = int.from_bytes(frame[8:12], "big")
        if key == 0:
            return answer(number, self._produced(ProduceRequest(frame)))
        if key in {2, 61}:
            topics = self._offsets(frame) if key == 2 else self._described(frame)
            return broker_frame(key, version, number, topics=topics)
        if key == 23:
            return broker_frame(key, version, number, topics=self._epochs(frame))
        if key == 32:
            return broker_frame(key, version, number, results=_limits())
        if key == 3:
            ids = [{"name": name, "topic_id": topic_id} for name, topic_id in IDS.items()]
            return broker_frame(key, version, number, topics=ids)
        return answer(number)

    def _offsets(self, frame: bytes) -> Sequence[dict[str, Any]]:
        """The response to ListOffsets: the broker leads all partitions."""
        return [
            {"name": topic.name, "partitions": [
                {"partition_index": partition.partition_index, "error_code": self._code(),
                 "leader_epoch": 0, "offset": 20}
                for partition in topic.partitions
            ]}
            for topic in _entity(frame).topics
        ]  # fmt: skip

    def _epochs(self, frame: bytes) -> Sequence[dict[str, Any]]:
        """The response to OffsetForLeaderEpoch."""
        return [
            {"topic": topic.topic, "partitions": [
                {"partition": partition.partition, "error_code": self._code(), "end_offset": 10}
                for partition in topic.partitions
            ]}
            for topic in _entity(frame).topics
        ]  # fmt: skip

    def _described(self, frame: bytes) -> Sequence[dict[str, Any]]:
        """The response to DescribeProducers."""
        return [
            {"name": topic.name, "partitions": [
                {"partition_index": number, "error_code": self._code(),
                 "active_producers": self._active(topic.name, number)}
                for number in topic.partition_indexes
            ]}
            for topic in _entity(frame).topics
        ]  # fmt: skip

    def _code(self) -> int:
        return self._random.choice((0,) * 9 + (6, 29))

    def _active(self, topic: str, partition: int) -> Sequence[dict[str, Any]]:
        """The producers of which the broker has stored some batches."""
        producers = []
        for producer_id in sorted({*PRODUCERS} - {-1}):
            sent = self._sent.get((topic, partition, producer_id))
            if sent and self._random.random() < 0.8:
                last = read_producer(self._random.choice(sent))
                assert last is not None
                producers.append({
                    "producer_id": ProducerId(producer_id), "producer_epoch": i32(0),
                    "last_sequence": i32(last.base_sequence + last.record_count - 1),
                    "coordinator_epoch": i32(0),
                })  # fmt: skip
        return producers

    def _produced(self, request: ProduceRequest) -> bytes:
        """The body of a response that accepts most batches."""
        body = bytes([0, len(request.topics) + 1])
        for topic in request.topics:
            assert topic.name is not None
            body += bytes([len(topic.name) + 1]) + topic.name.encode()
            body += bytes([len(topic.partitions) + 1])
            for partition in topic.partitions:
                code = self._random.choice((0,) * 9 + (6, 45, 59, 87))
                offset = -1 if code else self._random.randrange(1_000)
                body += partition.number.to_bytes(4, "big") + code.to_bytes(2, "big")
                body += offset.to_bytes(8, "big", signed=True) + b"\xff" * 8 + bytes(8)
                body += bytes([1, 0, 0])
            body += bytes(1)
        return body + bytes(5)


def _clock() -> float:
    """The time, which stands still: a slow machine must not let caches expire."""
    return 1_000.0


def _encoded(
    count: int, producer_id: int, first: int, number: int, value: bytes = b"value"
) -> bytes:
    records = values(*(value + b"%d" % number for _ in range(count)))
    epoch = 0 if producer_id >= 0 else -1
    return encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=first)


def _entity(frame: bytes) -> Any:
    """Read a request of the gateway."""
    schema = load_request_schema(
        int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big")
    )
    _, size = entity_reader(schema.__header_schema__)(frame, 4)
    return entity_reader(schema)(frame, 4 + size)[0]


def _limits() -> Sequence[dict[str, Any]]:
    configs = [{"name": "max.message.bytes", "value": str(LIMIT_BYTES)}]
    return [{"resource_name": topic, "error_code": 0, "configs": configs} for topic in IDS]
