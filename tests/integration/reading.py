"""Reads the records that a broker has stored."""

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from kio.schema.list_transactions.v0.request import ListTransactionsRequest

from tests.raw import RawClient

_LOOK_EVERY_S: Final = 1.0
_MARKERS_S: Final = 5.0
"""How long committed offsets may take to be visible, once all markers are written."""


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
            "fetch.wait.max.ms": "10",  # at the end, a broker waits so long for another record
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
        found, ended, early, ending = [], set(), set(), True
        deadline = time.monotonic() + 120
        while len(ended) < len(partitions):
            # Of other partitions the broker has returned all records that can be read now.
            is_reading = len(ended) + len(early) < len(partitions)
            message = consumer.poll(60 if is_reading else _LOOK_EVERY_S if ending else _MARKERS_S)
            if message is None:
                assert not is_reading, "the broker did not answer"
                if not ending:
                    break  # a transaction is open
                assert time.monotonic() < deadline, "markers are not written"
                ending = settings is None and _is_ending(bootstrap)
            elif message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                partition = message.partition()
                # A transaction is committed before the broker has written its markers.
                if message.offset() < ends.get(partition, 0):
                    early.add(partition)
                else:
                    early.discard(partition)
                    ended.add(partition)
            elif full:
                found.append(message)
            else:
                found.append(
                    (message.partition(), message.key(), message.value(), message.headers() or [])
                )
    finally:
        consumer.close()
    return found


def _is_ending(bootstrap: str) -> bool:
    """Whether a transaction has ended for its producer, and its markers are still being written."""
    request = ListTransactionsRequest(
        state_filters=("PrepareCommit", "PrepareAbort"), producer_id_filters=()
    )
    for address in bootstrap.split(","):
        with contextlib.suppress(OSError, EOFError), RawClient(address) as client:
            if client.call(request).transaction_states:
                return True
    return False


def _ends(bootstrap: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Return the offset after the last record of each partition, whether committed or not."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "tests", "isolation.level": "read_uncommitted"
    })  # fmt: skip
    try:
        return {
            p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=60)[1]
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
