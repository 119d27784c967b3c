"""Errors of Kafka without a gateway; see `stale_verification` and `unrecognized`."""

import datetime
import time

import pytest
from kio.schema.add_partitions_to_txn.v3.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kio.schema.end_txn.v3.request import EndTxnRequest
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i8, i16, i32, i32Timedelta

from tests.chaos.stale_verification import Refusal, refused_in_order
from tests.chaos.unrecognized import Unrecognized, unrecognized_batches
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, produced

WITHIN_S = 60
OUT_OF_ORDER = 45
PRODUCER_ID = 4711
REMEMBERED = 5
PRODUCE_VERSION = 11
"""Later versions add partitions to transactions automatically (KIP-890)."""


class TransactionalProducer:
    """A producer with its own id for a topic, over a connection to its only broker."""

    def __init__(self, client: RawClient, topic: str) -> None:
        self._client, self.topic = client, topic
        self._transactional_id = TransactionalId(topic)
        self._call(FindCoordinatorRequest(key_type=i8(1), coordinator_keys=(topic,)))
        timeout = i32Timedelta.parse(datetime.timedelta(minutes=1))
        found = self._call(
            InitProducerIdRequest(
                transactional_id=self._transactional_id, transaction_timeout=timeout
            )
        )
        self.id, self._epoch = found.producer_id, found.producer_epoch

    def _call(self, request):
        """Call the coordinator until it has loaded its state, and ended earlier transactions."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            response = self._client.call(request)
            [code] = _codes(response)
            if code == 0:
                return response
            assert time.monotonic() < deadline, response
            time.sleep(0.1)

    def add_partition(self) -> None:
        self._call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._transactional_id,
                v3_and_below_producer_id=ProducerId(self.id),
                v3_and_below_producer_epoch=i16(self._epoch),
                v3_and_below_topics=(
                    AddPartitionsToTxnTopic(name=TopicName(self.topic), partitions=(i32(0),)),
                ),
            )
        )

    def commit(self) -> None:
        self._call(
            EndTxnRequest(
                transactional_id=self._transactional_id,
                producer_id=ProducerId(self.id),
                producer_epoch=i16(self._epoch),
                committed=True,
            )
        )

    def produce(self, sequence: int) -> int:
        """Send a batch of a single record; return the error code."""
        batch = encode_batch(
            values(b"v"),
            producer_id=self.id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional=True,
        )
        request = produce_request(
            [(self.topic, [(0, batch)])],
            version=PRODUCE_VERSION,
            transactional_id=self._transactional_id,
        )
        return produced(self._client.call(request))[self.topic, 0].error_code


def _codes(response) -> set[int]:
    """Return the only error code that a response has."""
    if hasattr(response, "error_code"):
        return {response.error_code}
    if hasattr(response, "coordinators"):
        return {coordinator.error_code for coordinator in response.coordinators}
    [topic] = response.results_by_topic_v3_and_below
    return {partition.partition_error_code for partition in topic.results_by_partition}


@pytest.fixture
def producer(kafka, topic):
    with RawClient(kafka.bootstrap_servers) as client:
        yield TransactionalProducer(client, topic())


def test_after_a_late_retry_a_batch_in_sequence_is_refused(kafka, producer):
    producer.add_partition()
    assert producer.produce(0) == 0
    producer.commit()

    producer.add_partition()
    assert producer.produce(0) == 0, "a retry of what is stored"
    assert producer.produce(1) == OUT_OF_ORDER
    assert refused_in_order(kafka, producer.topic) == [Refusal(producer.id, 0, 1, 0)]


def test_without_a_late_retry_the_batch_is_stored(kafka, producer):
    for sequence in range(2):
        producer.add_partition()
        assert producer.produce(sequence) == 0
        producer.commit()
    assert refused_in_order(kafka, producer.topic) == []


def test_a_broker_recognizes_only_the_last_five_batches(kafka, topic):
    name = topic()
    with RawClient(kafka.bootstrap_servers) as client:

        def produce(sequence):
            batch = encode_batch(
                values(b"v"), producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence
            )
            request = produce_request([(name, [(0, batch)])], version=PRODUCE_VERSION)
            return produced(client.call(request))[name, 0].error_code

        assert [produce(sequence) for sequence in range(REMEMBERED + 1)] == [0] * (REMEMBERED + 1)
        assert produce(1) == 0
        assert produce(0) == OUT_OF_ORDER
    assert unrecognized_batches(kafka, name) == [Unrecognized(PRODUCER_ID, 0, 0, REMEMBERED)]
