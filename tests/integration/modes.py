"""Modes of topics, and the dead letters of a topic."""

from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from penstock.kafka.local import LocalKafka
from tests.integration.reading import read_topic
from tests.raw import RawClient, produce_request


def produce(client: RawClient, topic: str, batch: bytes, **options: Any) -> tuple[int, int]:
    response = client.call(produce_request([(topic, [(0, batch)])], **options))
    (partition_response,) = response.responses[0].partition_responses
    return int(partition_response.error_code), partition_response.base_offset


def set_config(admin: AdminClient, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def dead_letters(kafka: LocalKafka, topic: str) -> list[tuple[bytes | None, int, dict[str, bytes]]]:
    """Return value, partition and headers of each dead letter."""
    return [
        (value, partition, dict(headers))
        for partition, _, value, headers in read_topic(kafka.bootstrap_servers, topic)
    ]
