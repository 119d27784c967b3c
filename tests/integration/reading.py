"""Reads back what the broker itself has."""

from collections.abc import Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient


def read_topic(
    bootstrap: str,
    topic: str,
    *,
    isolation: str = "read_uncommitted",
    full: bool = False,
    settings: Mapping[str, str] | None = None,
) -> list:
    """Read a topic from its beginning to its end."""
    consumer = Consumer(
        {
            **(settings or {}),
            "bootstrap.servers": bootstrap,
            "group.id": "tests",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "check.crcs": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        found, ended = [], set()
        while len(ended) < len(partitions):
            message = consumer.poll(20)
            assert message is not None, "the broker did not answer"
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
            elif full:
                found.append(message)
            else:
                found.append(
                    (message.partition(), message.key(), message.value(), message.headers() or [])
                )
    finally:
        consumer.close()
    return found


def values_of(stored: list) -> list[bytes | None]:
    """Only the values."""
    return [value for _, _, value, _ in stored]


def topic_id(admin: AdminClient, topic: str):
    """The id of a topic, from the broker."""
    from uuid import UUID

    from confluent_kafka import TopicCollection

    found = admin.describe_topics(TopicCollection([topic]))[topic].result(10).topic_id
    bits = (found.get_most_significant_bits() % 2**64 << 64) | (
        found.get_least_significant_bits() % 2**64
    )
    return UUID(int=bits)
