"""The addresses of a configuration that contradict each other."""

import pytest

from penstock.configuration import ConfigurationError, load_configuration
from penstock.gateway.listening.endpoints import broker_ports_of, endpoints_of
from tests.gateways import write_configuration


@pytest.mark.parametrize("ports", ["9192-9199", "9190-9192", "9192"])
def test_a_listeners_port_among_those_for_brokers_is_an_error(tmp_path, ports):
    file = write_configuration(tmp_path, "127.0.0.1:1", 9192, {"broker.ports": ports})
    with pytest.raises(ConfigurationError) as caught:
        endpoints_of(load_configuration(file))
    assert str(caught.value).startswith(f"{file}: listeners: port 9192 is one of broker.ports, ")


@pytest.mark.parametrize(
    ("port", "ports"), [(9192, "9193-9199"), (9192, "9100-9191"), (0, "9192-9199")]
)
def test_a_listeners_port_beside_those_for_brokers_is_accepted(tmp_path, port, ports):
    file = write_configuration(tmp_path, "127.0.0.1:1", port, {"broker.ports": ports})
    assert endpoints_of(load_configuration(file)).advertised_host == "127.0.0.1"


def test_the_last_port_leaves_none_for_brokers(tmp_path):
    """Also for `penstock check --connect`, which looks for the port of each node id."""
    configuration = load_configuration(write_configuration(tmp_path, "127.0.0.1:1", 65535, {}))
    with pytest.raises(ConfigurationError, match="no port after 65535 is left for brokers"):
        broker_ports_of(configuration, 65535)
