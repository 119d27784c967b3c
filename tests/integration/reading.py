"""Reads back what the broker itself has."""

from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

_MARKERS_S: Final = 5.0


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
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        ends = _ends(bootstrap, topic, partitions) if isolation == "read_committed" else {}
        found, ended, ended_early = [], set(), False
        while len(ended) < len(partitions):
            message = consumer.poll(_MARKERS_S if ended_early else 20)
            if message is None:
                assert ended_early, "the broker did not answer"
                break  # a transaction is open
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                # A transaction is committed before the broker has written its markers.
                ended_early = message.offset() < ends.get(message.partition(), 0)
                if not ended_early:
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


def _ends(bootstrap: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Return the offset behind the last record of each partition, whether committed or not."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "tests", "isolation.level": "read_uncommitted"
    })  # fmt: skip
    try:
        return {
            p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1]
            for p in partitions
        }
    finally:
        consumer.close()


def values_of(stored: list) -> list[bytes | None]:
    """Only the values."""
    return [value for _, _, value, _ in stored]


def topic_id(admin: AdminClient, topic: str):
    """The id of a topic, from the broker."""
    from uuid import UUID

    from confluent_kafka import TopicCollection

    found = admin.describe_topics(TopicCollection([topic]))[topic].result(60).topic_id
    bits = (found.get_most_significant_bits() % 2**64 << 64) | (
        found.get_least_significant_bits() % 2**64
    )
    return UUID(int=bits)
