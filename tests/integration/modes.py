"""Modes of topics, and the dead letters of a topic."""

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.integration.reading import read_topic
from tests.raw import produce_request


def produce(client, topic, batch, **options):
    response = client.call(produce_request([(topic, [(0, batch)])], **options))
    (partition_response,) = response.responses[0].partition_responses
    return int(partition_response.error_code), partition_response.base_offset


def set_config(admin, topic, key, value):
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def dead_letters(kafka, topic):
    """Return value, partition and headers of each dead letter."""
    return [
        (value, partition, dict(headers))
        for partition, _, value, headers in read_topic(kafka.bootstrap_servers, topic)
    ]
