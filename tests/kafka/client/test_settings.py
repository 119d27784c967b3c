"""What a client is made of."""

import pytest

from penstock.configuration import Address, ConfigurationError
from penstock.kafka.client.connections.settings import read_settings
from tests.kafka.client.settings import FILE


def test_the_defaults_are_kafkas():
    found = read_settings({"bootstrap.servers": "a:1,[::1]:2"}, FILE)
    assert found.servers == (Address("a", 1), Address("::1", 2))
    assert found[1:] == ("penstock", "", 30.0, 60.0, 10.0, 540.0, 0.1, 1.0, 2**22, 500)


@pytest.mark.parametrize("idle_ms", ["-1", "0"])
def test_no_idle_connection_is_closed_at_0_or_less(idle_ms):
    found = read_settings({"bootstrap.servers": "a:1", "connections.max.idle.ms": idle_ms}, FILE)
    assert found.idle_timeout_s > 10**8


def test_values_are_read():
    found = read_settings(
        {"bootstrap.servers": "a:1", "client.rack": "east", "request.timeout.ms": " 1500 "}, FILE
    )
    assert (found.rack, found.request_timeout_s) == ("east", 1.5)


@pytest.mark.parametrize(
    ("key", "value"),
    [("bootstrap.servers", "nowhere"), ("bootstrap.servers", ""), ("request.timeout.ms", "soon")],
)
def test_a_wrong_value_is_named(key, value):
    properties = {"bootstrap.servers": "a:1", key: value}
    with pytest.raises(ConfigurationError, match=rf"{FILE}: upstream.{key} must be "):
        read_settings(properties, FILE)
