"""Connections to a module's gateway, and past it."""

import pytest

from tests.raw import RawClient


@pytest.fixture
def client(judging):
    """Through the gateway that the module calls `judging`."""
    with RawClient(judging.address) as connected:
        yield connected


@pytest.fixture
def broker(kafka):
    """To the broker itself."""
    with RawClient(kafka.bootstrap_servers) as connected:
        yield connected
