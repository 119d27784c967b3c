"""A dead letter topic as brokers keep it: with the numbers of its producer (KIP-98)."""

import asyncio
import datetime as dt
import io
from collections import deque
from concurrent.futures import Future

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32Timedelta

from penstock.gateway.produce.dead_letters.dead_letter_topic import DeadLetterTopic
from penstock.kafka.client.connections.metadata import PartitionLeader, TopicLeaders
from penstock.kafka.client.errors import BrokerUnreachableError
from penstock.kafka.client.protocol.produce import ProduceResult
from penstock.kafka.client.protocol.raw_requests import RawResponse
from penstock.kafka.error_codes import INVALID_RECORD
from penstock.kafka.records.header import read_producer
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.kafka.wire.errors import (
    DUPLICATE_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    UNKNOWN_SERVER_ERROR,
)
from penstock.kafka.wire.names import NO_ID
from penstock.kafka.wire.schemas import load_request_schema
from penstock.policy import Record
from tests.kafka.records.encoding import encode_batch

PRODUCE, INIT_PRODUCER_ID = 0, 22
REMEMBERED = 5
TO = DeadLetterTopic("orders.dead", "orders", 0, 3)


class PartitionLog:
    """The batches of a partition, and what its leader knows of their producer.

    Attributes:
        values: The values of the records.
        headers: What the batches say of their producer.
        refuses: Whether a value is never taken.
    """

    def __init__(self):
        self.values = []
        self.headers = []
        self.refuses = lambda value: False
        self._epoch = -1
        self._last = deque(maxlen=REMEMBERED)

    def append(self, data):
        """Append a batch as a leader does; return the error code."""
        producer = read_producer(data)
        batch = read_stored_batch(data, max_decompressed_bytes=2**30)
        values = [bytes(value) for value in batch.records.values]
        if any(map(self.refuses, values)):
            return INVALID_RECORD
        if producer.producer_id >= 0:
            code = self._check(producer)
            if code:
                return code
        self.headers.append(producer)
        self.values += values
        return 0

    def _check(self, producer):
        numbers = producer.base_sequence, producer.base_sequence + producer.record_count
        if producer.epoch < self._epoch:
            return INVALID_PRODUCER_EPOCH
        if producer.epoch > self._epoch:
            if self._epoch >= 0 and producer.base_sequence:
                return OUT_OF_ORDER_SEQUENCE_NUMBER
            self._last.clear()
        elif numbers in self._last:
            return DUPLICATE_SEQUENCE_NUMBER
        elif self._last and self._last[-1][1] != producer.base_sequence:
            return OUT_OF_ORDER_SEQUENCE_NUMBER
        self._epoch = producer.epoch
        self._last.append(numbers)
        return 0

    def forget(self):
        """Lose the producer's last batch, as in an unclean leader election."""
        self._last.pop()
        self.values.pop()


class LetterLog:
    """A connection to a topic of two partitions.

    Attributes:
        faults: For each Produce request from now on: None, "lost" (before it is appended), "unsaid"
            (after it), "unknown" (-1, after it), or an error code: a positive number instead of
            appending, a negative number after appending.
        breaks: The error of requests with a value, instead of appending: by the value. It is raised
            or, if it is a number, the response to the partition.
        refused: The error code of requests for producer ids; 0 for none.
    """

    def __init__(self, *faults):
        self.faults = list(faults)
        self.breaks = {}
        self.partitions = {0: PartitionLog(), 1: PartitionLog()}
        self.leaders = {0: PartitionLeader(1, 0), 1: PartitionLeader(2, 0)}
        self.refused = 0
        self.producers = 0
        self.requests = 0
        self.pending = None

    def known_leaders(self, topic):
        return self.leaders

    def refresh(self, topic):
        pass

    def begin_describe(self, topics):
        (topic,) = topics
        (found := Future()).set_result({topic: TopicLeaders(topic, 0, NO_ID, self.leaders)})
        return found

    def begin_with_any(self, request):
        assert request.api_key == INIT_PRODUCER_ID
        self.producers += 1
        (response := Future()).set_result(producer_id_response(1000 + self.producers, self.refused))
        return response

    async def exchange(self, node, request, *, channel):
        self.requests += 1
        fault = self.faults.pop(0) if self.faults else None
        if fault == "lost":
            raise BrokerUnreachableError("lost")
        codes = {}
        broken = next((how for value, how in self.breaks.items() if value in request.body), None)
        if isinstance(broken, Exception):
            raise broken
        sent, _ = entity_reader(load_request_schema(PRODUCE, request.version))(request.body, 0)
        for topic in sent.topic_data:
            for partition in topic.partition_data:
                code = fault if isinstance(fault, int) and fault > 0 else 0
                for value, how in self.breaks.items():
                    if value in bytes(partition.records):
                        code = how
                if not code:
                    log = self.partitions[partition.index]
                    assert self.leaders[partition.index].node == node
                    code = log.append(bytes(partition.records))
                codes[topic.name, partition.index] = code
        if self.pending is not None:
            await asyncio.shield(self.pending)
        if fault == "unsaid":
            raise BrokerUnreachableError("unsaid")
        if fault == "unknown":
            codes = dict.fromkeys(codes, UNKNOWN_SERVER_ERROR)
        if isinstance(fault, int) and fault < 0:
            codes = dict.fromkeys(codes, -fault)
        return {place: ProduceResult(code, 0, "", ()) for place, code in codes.items()}


def producer_id_response(producer_id=1000, code=0):
    """Return a broker's response to a request for a producer id."""
    response = InitProducerIdResponse(
        throttle_time=i32Timedelta.parse(dt.timedelta()),
        error_code=ErrorCode(code),
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(0),
    )
    buffer = io.BytesIO()
    entity_writer(InitProducerIdResponse)(buffer, response)
    return RawResponse(bytes(5) + buffer.getvalue())


def letter(*values):
    return encode_batch([Record(1, None, value, ()) for value in values])


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


async def store(writer, letters, key=None, to=TO):
    """Store letters; return what their client gets."""
    result = asyncio.get_running_loop().create_future()
    writer.store(to, letters, result.set_result, key)
    return await asyncio.wait_for(result, 5)
