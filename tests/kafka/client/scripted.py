"""Brokers that respond by a script: connections without sockets, for rare events.

The leader keeps a log as Kafka's does (ProducerAppendInfo): it checks epochs and sequence numbers,
and knows the last five batches of a producer. A script is a list for each API: an error code that
is returned instead of handling the request, `LOST` (the connection breaks before the broker
has it), `UNANSWERED` (it is handled, and the response is lost), or None (the normal response).
"""

from __future__ import annotations

import struct
import time
from collections import defaultdict
from typing import Any

from kio.schema.errors import ErrorCode

from penstock.kafka.client.connections.metadata import PartitionLeader, TopicLeaders
from penstock.kafka.client.connections.retries import Retries
from penstock.kafka.client.errors import BrokerUnreachableError
from penstock.kafka.client.protocol.raw_requests import RawResponse
from penstock.kafka.records.header import HEADER, is_intact, read_producer
from penstock.kafka.wire.names import NO_ID
from penstock.kafka.wire.primitives import read_varint, varint
from tests.kafka.client.settings import SETTINGS

LOST, UNANSWERED = "lost", "unanswered"
PRODUCE, INIT, ADD_PARTITIONS, ADD_OFFSETS, END, OFFSET_COMMIT = 0, 22, 24, 25, 26, 28
GROUP_COMMIT, GROUP_FETCH = 8, 9
OUT_OF_ORDER = int(ErrorCode.out_of_order_sequence_number)
DUPLICATE = int(ErrorCode.duplicate_sequence_number)


class Clock:
    """Time that passes only in `sleep`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Pending:
    """A response that is available as soon as `ready` is set."""

    def __init__(self, outcome: RawResponse | Exception) -> None:
        self.outcome = outcome
        self.ready = True
        self.is_abandoned = False

    def is_done(self) -> bool:
        return self.ready

    def is_done_within(self, timeout_s: float) -> bool:
        self.ready = True
        return True

    def wait(self) -> RawResponse:
        self.ready = True
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def abandon(self) -> None:
        self.is_abandoned = True


class SilentPending(Pending):
    """A response that does not come."""

    def is_done(self) -> bool:
        return False

    def is_done_within(self, timeout_s: float) -> bool:
        time.sleep(timeout_s)
        return False


class PartitionLog:
    """A leader's log of one partition."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.epoch = -1
        self.recent: list[tuple[int, int]] = []

    def append(self, batch: bytes) -> int:
        """Return the error code."""
        assert is_intact(batch)
        found = read_producer(batch)
        assert found is not None
        if found.epoch < self.epoch:
            return int(ErrorCode.invalid_producer_epoch)
        if found.epoch > self.epoch:
            self.epoch, self.recent = found.epoch, []
        numbers = (found.base_sequence, (found.base_sequence + found.record_count - 1) % 2**31)
        if numbers in self.recent:
            return 0  # a broker answers with the offset that the batch has got before
        expected = (self.recent[-1][1] + 1) % 2**31 if self.recent else 0
        if numbers[0] != expected:
            return OUT_OF_ORDER
        self.recent = [*self.recent[-4:], numbers]
        self.batches.append(batch)
        return 0


class ScriptedConnection:
    """A cluster with one broker."""

    settings = SETTINGS

    def __init__(self, **settings: Any) -> None:
        self.settings = SETTINGS._replace(**settings)
        self.script: defaultdict[int, list[Any]] = defaultdict(list)
        self.logs: defaultdict[tuple[str, int], PartitionLog] = defaultdict(PartitionLog)
        self.sent_requests: list[tuple[int, Any]] = []
        """API keys, and the entities; of Produce, topic, partition and base sequence."""
        self.requests: list[list[tuple[str, int]]] = []
        """The topics and partitions of each Produce request."""
        self.pending: list[Pending] = []
        self.slow = False
        """Responses arrive only when they are waited for."""
        self.is_silent = False
        """Requests are handled, and no response arrives."""
        self.refreshed: list[str] = []
        self.forgotten: list[tuple[str, bool]] = []
        self.leaders: list[Any] = []
        self.leaders_of_topic = {0: PartitionLeader(1, 0)}
        self.epoch = 0
        self.offset = 0
        """Of the first record of a batch, in responses."""
        self.committed: dict[tuple[str, str, int], tuple[int, str]] = {}
        self.outstanding: dict[tuple[str, str, int], tuple[int, str]] = {}
        self.ended: list[bool] = []
        self.is_unstable = False
        """A writer was killed while it committed; the next one fences it."""

    # The requests of the writer to a connection.

    def leader(
        self, topic: str, partition: int, *, timeout_s: float | None = None
    ) -> PartitionLeader:
        step = self.leaders.pop(0) if self.leaders else None
        if step is not None:
            raise step
        return PartitionLeader(1, 0)

    def topic(self, name: str, *, timeout_s: float | None = None) -> TopicLeaders:
        return TopicLeaders(name, 0, NO_ID, self.leaders_of_topic)

    def refresh(self, topic: str) -> None:
        self.refreshed.append(topic)

    def forget_coordinator(self, key: str, *, transaction: bool = False) -> None:
        self.forgotten.append((key, transaction))

    def begin(
        self, node: int, request: Any, *, channel: str = "", has_deadline: bool = False
    ) -> Pending:
        assert channel.split(maxsplit=1)[0] in {"produce", "write", "audit"}
        results, is_lost = [], False
        sent = read_produce(request.body)
        self.requests.append([(topic, partition) for topic, partition, _ in sent])
        for topic, partition, batch in sent:
            producer = read_producer(batch)
            self.sent_requests.append((PRODUCE, (topic, partition, producer.base_sequence)))
            step = self.script[PRODUCE].pop(0) if self.script[PRODUCE] else None
            code, text = step if isinstance(step, tuple) else (step, None)
            is_lost |= code in {LOST, UNANSWERED}
            if code in {None, UNANSWERED}:
                code = self.logs[topic, partition].append(batch)
            results.append((topic, partition, 0 if code == LOST else int(code), text))
        outcome: RawResponse | Exception = RawResponse(produce_response(results, self.offset))
        if is_lost:
            outcome = BrokerUnreachableError("the connection to 127.0.0.1:9092 was lost")
        pending = SilentPending(outcome) if self.is_silent else Pending(outcome)
        pending.ready = not self.slow
        self.pending.append(pending)
        return pending

    def send_to_any(self, request: Any, response: Any, *, timeout_s: float | None = None) -> Any:
        return self.send_to_coordinator("", request, response)

    def send_to_coordinator(
        self, key: str, request: Any, response: Any, *, transaction: bool = False
    ) -> Any:
        api = int(request.__api_key__)
        self.sent_requests.append((api, request))
        step = self.script[api].pop(0) if self.script[api] else None
        if step == LOST:
            raise BrokerUnreachableError("the connection to 127.0.0.1:9092 was lost")
        if step in {None, UNANSWERED}:
            found = self._done(api, key, request, response)
        else:
            found = self._refused(api, request, response, int(step))
        if step == UNANSWERED:
            raise BrokerUnreachableError("the connection to 127.0.0.1:9092 was lost")
        return found

    def retries(self, limit_s: float | None = None) -> Retries:
        return Retries(self.settings, limit_s=limit_s)

    # The broker.

    def _done(self, api: int, key: str, request: Any, response: Any) -> Any:
        if api == INIT:
            self.is_unstable = False
            self.epoch += 1
            return answer(response, producer_id=7, producer_epoch=self.epoch)
        if api == END:
            if request.committed:
                self.committed.update(self.outstanding)
            self.outstanding.clear()
            self.ended.append(request.committed)
        if api in {OFFSET_COMMIT, GROUP_COMMIT}:
            into = self.outstanding if api == OFFSET_COMMIT else self.committed
            for topic in request.topics:
                for partition in topic.partitions:
                    place = (str(request.group_id), str(topic.name), int(partition.partition_index))
                    into[place] = (int(partition.committed_offset), partition.committed_metadata)
        return self._refused(api, request, response, 0)

    def _refused(self, api: int, request: Any, response: Any, code: int) -> Any:
        if api == ADD_PARTITIONS:
            return partitions_added(request, response, code)
        if api in {OFFSET_COMMIT, GROUP_COMMIT}:
            return offsets_committed(request, response, code)
        if api == GROUP_FETCH:
            if self.is_unstable and request.require_stable:
                code = int(ErrorCode.unstable_offset_commit)
            return self._fetched(request, response, code)
        if api == INIT:
            return answer(response, code, producer_id=-1, producer_epoch=-1)
        return answer(response, code)

    def _fetched(self, request: Any, response: Any, code: int) -> Any:
        module = __import__(response.__module__, fromlist=["x"])
        topics = []
        for topic in request.topics:
            partitions = []
            for index in topic.partition_indexes:
                place = (str(request.group_id), str(topic.name), int(index))
                offset, metadata = self.committed.get(place, (-1, ""))
                partitions.append(
                    module.OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=offset, metadata=metadata,
                        error_code=ErrorCode(code),
                    )
                )  # fmt: skip
            topics.append(
                module.OffsetFetchResponseTopic(name=topic.name, partitions=tuple(partitions))
            )
        return response(throttle_time=NO_TIME, topics=tuple(topics))


def answer(response: Any, code: int = 0, **fields: Any) -> Any:
    return response(throttle_time=NO_TIME, error_code=ErrorCode(code), **fields)


def partitions_added(request: Any, response: Any, code: int) -> Any:
    module = __import__(response.__module__, fromlist=["x"])
    return response(
        throttle_time=NO_TIME,
        results_by_topic_v3_and_below=tuple(
            module.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    module.AddPartitionsToTxnPartitionResult(
                        partition_index=partition, partition_error_code=ErrorCode(code)
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        ),
    )


def offsets_committed(request: Any, response: Any, code: int) -> Any:
    module = __import__(response.__module__, fromlist=["x"])
    kind = response.__name__
    topic_kind, one_kind = getattr(module, f"{kind}Topic"), getattr(module, f"{kind}Partition")
    return response(
        throttle_time=NO_TIME,
        topics=tuple(
            topic_kind(
                name=topic.name,
                partitions=tuple(
                    one_kind(partition_index=partition.partition_index, error_code=ErrorCode(code))
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def read_produce(body: bytes) -> list[tuple[str, int, bytes]]:
    """The topic, the partition and the batch of each that is in a request."""
    found = []
    size, position = read_varint(body, 0)
    position += max(0, size - 1)
    acks, _ = struct.unpack_from(">hi", body, position)
    assert acks == -1
    topics, position = read_varint(body, position + 6)
    for _ in range(topics - 1):
        size, position = read_varint(body, position)
        topic = body[position : position + size - 1].decode()
        partitions, position = read_varint(body, position + size - 1)
        for _ in range(partitions - 1):
            (partition,) = struct.unpack_from(">i", body, position)
            size, position = read_varint(body, position + 4)
            found.append((topic, partition, body[position : position + size - 1]))
            position += size  # and the tagged fields
        position += 1
    assert body[position:] == b"\0"
    return found


def produce_response(results: list[tuple[str, int, int, str | None]], offset: int = 0) -> bytes:
    """A response of version 9, correlation id included: topic, partition, error code, message."""
    parts = [b"\0\0\0\1\0", varint(len(results) + 1)]
    for topic, partition, code, text in results:
        name = topic.encode()
        parts += (
            varint(len(name) + 1), name, varint(2),
            struct.pack(">ihqqq", partition, code, -1 if code else offset, -1, 0),
            varint(1), varint(0) if text is None else varint(len(text) + 1) + text.encode(),
            b"\0", b"\0",
        )  # fmt: skip
    return b"".join((*parts, b"\0\0\0\0", b"\0"))


def records_of(log: PartitionLog) -> int:
    """How many records a log has."""
    return sum(HEADER.unpack_from(batch)[-1] for batch in log.batches)


def _no_time() -> Any:
    import datetime as dt

    from kio.static.primitive import i32Timedelta

    return i32Timedelta.parse(dt.timedelta())


NO_TIME = _no_time()
