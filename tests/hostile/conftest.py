"""A broker that may be damaged, a gateway before it, and requests of all kinds."""

import pytest
from confluent_kafka.admin import AdminClient

from penstock.kafka.local import LocalKafka
from tests.conftest import create_topic
from tests.gateways import RunningGateway, gateway_port, write_configuration
from tests.hostile.innocent import INNOCENT
from tests.hostile.inputs import Base, base
from tests.hostile.recorded import HOST, recorded
from tests.integration.reading import topic_id
from tests.integration.samples import TOPIC, WITHOUT_RESPONSE, has_schema, offered

POLICIES = """
from penstock.policy import *

class Passes(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers): pass

class Creates(CreateTopicPolicy):
    def validate(self, request): pass

class Alters(AlterConfigPolicy):
    def validate(self, request): pass
"""
PROPERTIES = {
    "record.validator.classes": "policies.Passes",
    "create.topic.policy.class.name": "policies.Creates",
    "alter.config.policy.class.name": "policies.Alters",
    "topic.settings.topic": "__penstock_topic_settings",
    "policy.workers": 1,
}


@pytest.fixture(scope="session")
def cluster():
    """A separate broker: the inputs may damage it."""
    properties = {"auto.create.topics.enable": "false"}
    with LocalKafka(properties=properties) as running:
        create_topic(AdminClient({"bootstrap.servers": running.bootstrap_servers}), TOPIC)
        create_topic(AdminClient({"bootstrap.servers": running.bootstrap_servers}), INNOCENT)
        yield running


def started(cluster, folder, **more) -> RunningGateway:
    properties = {**PROPERTIES, **more}
    port = gateway_port()
    return RunningGateway(
        write_configuration(folder, cluster.bootstrap_servers, port, properties, POLICIES)
    )


@pytest.fixture(scope="module")
def attacked(cluster, tmp_path_factory):
    running = started(cluster, tmp_path_factory.mktemp("attacked"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def bases(cluster, attacked) -> list[Base]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    known = topic_id(admin, TOPIC)
    direct = offered(attacked.address)
    return [
        base(api_key, version, known)
        for api_key, (first, last) in sorted(direct.items())
        for version in range(first, last + 1)
        if (api_key, version) not in WITHOUT_RESPONSE and has_schema(api_key, version)
    ]


@pytest.fixture(scope="module")
def inputs(cluster, bases, tmp_path_factory) -> list[Base]:
    """Requests of every kind, and recorded requests of real clients."""
    folder = tmp_path_factory.mktemp("recorded")
    running = started(cluster, folder, **{"advertised.host": HOST})
    try:
        return bases + recorded(running)
    finally:
        running.stop()
