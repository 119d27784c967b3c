"""Reads the stored records from the broker, and shows the reasons of refusals."""

from collections import Counter

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from rich.console import Console
from rich.table import Table

say = Console(highlight=False, width=100).print


def stored(
    bootstrap: str, topic: str
) -> list[tuple[bytes | None, bytes, tuple[tuple[str, bytes], ...]]]:
    """Read all records of a topic, directly from the broker."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "demo", "enable.partition.eof": True}
    )
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    found, ended = [], set()
    while len(ended) < len(partitions):
        message = consumer.poll(30)
        if message is None:
            raise SystemExit("the broker did not answer within 30 s")
        if message.error():
            if message.error().code() != KafkaError._PARTITION_EOF:
                raise SystemExit(str(message.error()))
            ended.add(message.partition())
        else:
            found.append((message.key(), message.value(), tuple(message.headers() or ())))
    consumer.close()
    return found


def show_reasons(reasons: Counter[tuple[str, str]]) -> None:
    """Show how many records each policy refused, and why."""
    table = Table("refused", "policy", "reason", title="\nRefused records, and why")
    for (policy, reason), count in sorted(reasons.items(), key=lambda item: -item[1]):
        table.add_row(str(count), policy, reason)
    say(table)
