"""Finds batches that a broker refuses though they are in sequence: a defect of Kafka.

While a broker verifies that a transaction is ongoing, it keeps the lowest sequence number of its
producer that waits for that (VerificationStateEntry.java), until a batch of it is appended. A retry
that arrives late, after the end of its transaction, leaves its number there: a retry is not appended.
Then the next batch is above it, and gets OUT_OF_ORDER_SEQUENCE_NUMBER, "earliest seen sequence"
(ProducerAppendInfo.java). A transactional producer of librdkafka cannot continue after this error.
`test_kafka_alone` shows it without a gateway.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.types import TopicName
from kio.static.primitive import i32

from penstock.kafka.local import LocalKafka
from tests.raw import RawClient

_REFUSED: Final = re.compile(
    r"Out of order sequence number for producer (\d+) at offset \d+ in partition (\S+)-(\d+): "
    r"(\d+) \(incoming seq\. number\), (\d+) \(earliest seen sequence\)"
)


class Refusal(NamedTuple):
    """A batch that was refused, by the broker's log.

    Attributes:
        producer_id: The id of its producer.
        partition: The partition of the batch.
        sequence: Its first sequence number.
        earliest: The lowest sequence number that the broker has kept from earlier.
    """

    producer_id: int
    partition: int
    sequence: int
    earliest: int


def refusals(cluster: LocalKafka, topic: str) -> Iterator[Refusal]:
    """Return the batches of a topic that brokers refused because of state that they kept."""
    for node in cluster.nodes:
        for found in _REFUSED.finditer(node.log.read_text(errors="replace")):
            producer_id, name, *numbers = found.groups()
            if name == topic:
                yield Refusal(int(producer_id), *map(int, numbers))


def refused_in_order(cluster: LocalKafka, topic: str) -> list[Refusal]:
    """Return the refusals of batches in sequence, after which their producer has ended."""
    found = set(refusals(cluster, topic))
    return [
        refusal
        for refusal in found
        if last_sequence(cluster, topic, refusal) + 1 == refusal.sequence > refusal.earliest
    ]


def last_sequence(cluster: LocalKafka, topic: str, refusal: Refusal) -> int:
    """Return the last sequence number that is stored of a producer; -2 if nothing is known."""
    request = DescribeProducersRequest(
        topics=(TopicRequest(name=TopicName(topic), partition_indexes=(i32(refusal.partition),)),)
    )
    stored = -2
    for node in cluster.nodes:  # all are in sync by now, and followers respond, too
        with RawClient(f"{node.host}:{node.port}") as client:
            for described in client.call(request).topics:
                for partition in described.partitions:
                    for producer in partition.active_producers:
                        if producer.producer_id == refusal.producer_id:
                            stored = max(stored, producer.last_sequence)
    return stored
