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
    r"(\d+) \(incoming seq\. number\), (\d+) \(([a-z ]+)\)"
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
    for numbers in out_of_order(cluster, topic, "earliest seen sequence"):
        yield Refusal(*numbers)


def out_of_order(
    cluster: LocalKafka, topic: str, compared_with: str
) -> Iterator[tuple[int, int, int, int]]:
    """Return the refusals of a topic's batches for their order, from the brokers' logs.

    Args:
        compared_with: The broker's name of the number with which that of a batch is compared.

    Returns:
        The producer's id, the partition, the batch's first sequence number, and the other number.
    """
    for node in cluster.nodes:
        for found in _REFUSED.finditer(node.log.read_text(errors="replace")):
            producer_id, name, partition, sequence, other, kind = found.groups()
            if (name, kind) == (topic, compared_with):
                yield int(producer_id), int(partition), int(sequence), int(other)


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
