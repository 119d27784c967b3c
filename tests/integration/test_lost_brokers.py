"""A gateway continues after Metadata responses that name no broker.

Brokers send them while a cluster restarts. librdkafka forgets all its brokers then, and may never
connect again (librdkafka issue 5301).
"""

import time
import uuid

import pytest
from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32

from tests.audit_records import checked
from tests.engine.topic_configs.admin_requests import TopicClient, creation, judged_by
from tests.faults import Proxy
from tests.gateways import RunningGateway, gateway_port, wait_until, write_configuration
from tests.integration.reading import read_topic

POLICIES = """
from penstock.policy import *

class A(RecordsPolicy):
    def validate(self, topic, partition, records):
        raise PolicyViolationException("A")

class Small(CreateTopicPolicy):
    def validate(self, request):
        if request.num_partitions > 2:
            raise PolicyViolationException("too many partitions")
"""
ANSWERED_WITHOUT_BROKERS_S = 4.0


@pytest.fixture
def proxy(kafka):
    with Proxy(kafka.bootstrap_servers) as running:
        yield running


@pytest.fixture
def gateway(proxy, tmp_path):
    """A gateway whose clients of librdkafka do not start again with their bootstrap servers."""
    names = {
        "topic.settings.topic": f"settings-{uuid.uuid4().hex[:8]}",
        "audit.topic": f"audit-{uuid.uuid4().hex[:8]}",
    }
    properties = {
        "upstream.metadata.recovery.strategy": "none",
        "records.policy.class.names.allowed": "policies.*",
        "create.topic.policy.class.name": "policies.Small",
        "policy.workers": 1,
        **names,
    }
    file = write_configuration(tmp_path, proxy.address, gateway_port(), properties, POLICIES)
    running = RunningGateway(file)
    running.audit_topic = names["audit.topic"]
    yield running
    running.stop()


def test_a_gateway_continues(kafka, proxy, gateway):
    created_through(gateway)

    with proxy.without_brokers():
        proxy.drop()  # so that clients refresh their metadata
        time.sleep(ANSWERED_WITHOUT_BROKERS_S)
    proxy.drop()

    wait_until(lambda: is_served(gateway), what="the gateway to create and judge topics")
    wait_until(lambda: len(trail(kafka, gateway)) >= 2, what="both refusals in the audit trail")


def trail(kafka, gateway):
    """Return the refusals of the audit topic."""
    found = read_topic(kafka.bootstrap_servers, gateway.audit_topic)
    return [value for _, _, value, _ in found if checked(value)["reasons"]]


def is_served(gateway):
    try:
        created_through(gateway)
    except (OSError, EOFError, AssertionError) as error:
        print(f"not yet: {error!r}; last in the log: {list(gateway.log)[-3:]}")
        return False
    return True


def created_through(gateway):
    """Create a topic with the cluster's number of partitions; its policy refuses a record."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    request = creation(name, judged_by("A"))
    default = CreatableTopic(
        name=TopicName(name),
        num_partitions=i32(-1),
        replication_factor=i16(-1),
        assignments=(),
        configs=request.topics[0].configs,
    )
    with TopicClient(gateway.broker_address()) as client:
        (result,) = client.call(type(request)(topics=(default,), timeout=request.timeout)).topics
        assert result.error_code == 0, result
        refused = client.produce(name, b"any")
        assert (refused.error_code, refused.error_message) == (44, "A")
