"""Finds retries of stored batches that a broker does not recognize: a limit of Kafka.

A broker remembers the last five batches of a producer at a partition (`NUM_BATCHES_TO_RETAIN`,
ProducerStateEntry.java), after a crash perhaps only the last. A retry of an older batch gets
OUT_OF_ORDER_SEQUENCE_NUMBER: Java repeats it until `delivery.timeout.ms` and reports a failure,
franz-go stores the batch again under another producer id. `test_kafka_alone` shows it without a
gateway.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.kafka.local import LocalKafka
from tests.chaos.stale_verification import out_of_order


class Unrecognized(NamedTuple):
    """A retry of a stored batch that was refused, by the broker's log.

    Attributes:
        producer_id: The id of its producer.
        partition: The partition of the batch.
        sequence: Its first sequence number.
        last: The last sequence number that the broker has stored.
    """

    producer_id: int
    partition: int
    sequence: int
    last: int


def unrecognized_batches(cluster: LocalKafka, topic: str) -> Sequence[Unrecognized]:
    """Return the retries of a topic that brokers refused though their numbers are stored."""
    refusals = {
        Unrecognized(*numbers)
        for numbers in out_of_order(cluster, topic, "current end sequence number")
    }
    return sorted(refusal for refusal in refusals if refusal.sequence <= refusal.last)
