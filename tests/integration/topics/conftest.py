"""The gateway of a module, connections to it, and to the broker itself."""

import pytest

from tests.gateways import RunningGateway
from tests.raw import RawClient
from tests.topic_configs.admin_requests import TopicClient


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
def client(judging):
    """A connection to the gateway `judging`."""
    with RawClient(judging.address) as connected:
        yield connected


@pytest.fixture
def broker(kafka):
    """A connection to the broker itself."""
    with RawClient(kafka.bootstrap_servers) as connected:
        yield connected
