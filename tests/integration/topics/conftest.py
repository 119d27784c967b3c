"""The gateway of a module, connections to it, and to the broker itself."""

import pytest

from penstock.kafka.local.tools import run_tool
from tests.engine.topic_configs.admin_requests import TopicClient
from tests.gateways import RunningGateway
from tests.raw import RawClient


@pytest.fixture(scope="module")
def judging(file):
    """The gateway of a module, by default with the configuration that the module calls `file`."""
    running = RunningGateway(file)
    yield running
    running.stop()


@pytest.fixture
def topic_client(judging):
    """A connection to the gateway on which topics are created, altered and produced to."""
    with TopicClient(judging.broker_address()) as connected:
        yield connected


@pytest.fixture
def kafka_configs(judging):
    """Runs Kafka's own tool on a topic, through the gateway; returns its output."""

    def run(topic: str, *arguments: str) -> str:
        of_topic = ("--bootstrap-server", judging.address, "--entity-type", "topics")
        done = run_tool("kafka-configs", *of_topic, "--entity-name", topic, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def client(judging):
    """A connection to the gateway `judging`."""
    with RawClient(judging.address) as connected:
        yield connected


@pytest.fixture
def broker(kafka):
    """A connection to the broker itself."""
    with RawClient(kafka.bootstrap_servers) as connected:
        yield connected
