"""Connections to a module's gateway, and to the broker itself."""

import pytest

from tests.raw import RawClient


@pytest.fixture
def client(judging):
    """A connection through the gateway that the module calls `judging`."""
    with RawClient(judging.address) as connected:
        yield connected


@pytest.fixture
def broker(kafka):
    """A connection to the broker itself."""
    with RawClient(kafka.bootstrap_servers) as connected:
        yield connected
