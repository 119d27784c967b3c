"""The relay between clients and gateways closes connections as a broker and a network would."""

import socket
import struct

import pytest

from penstock.kafka.local import free_ports
from tests.relay import Relay

pytestmark = pytest.mark.system

RESET = struct.pack("ii", 1, 0)


class Host:
    """A server behind the relay with a single connection, which it closes on request."""

    def __init__(self, port):
        self._server = socket.create_server(("127.0.0.1", port))
        self._server.settimeout(30)
        self._accepted = None

    def receive(self):
        """Wait until bytes of the client have arrived: then the relay has both connections."""
        self._accepted, _ = self._server.accept()
        assert self._accepted.recv(1) == b"x"

    def end(self, *, resets):
        if resets:
            self._accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._accepted.close()

    def close(self):
        if self._accepted is not None:
            self._accepted.close()
        self._server.close()


@pytest.fixture
def port():
    return free_ports(1)[0]


@pytest.fixture
def host(port):
    host = Host(port)
    yield host
    host.close()


@pytest.fixture
def relay(port):
    with Relay(range(port, port + 1), record=False) as relay:
        yield relay


def connect(port):
    client = socket.create_connection(("127.0.0.2", port), timeout=30)
    client.sendall(b"x")
    return client


@pytest.mark.usefixtures("relay")
class TestEnds:
    """The end of a connection as a client sees it."""

    def test_connections_that_a_host_refuses_are_reset(self, port):
        with connect(port) as client, pytest.raises(ConnectionResetError):
            client.recv(1)

    def test_a_connection_that_a_host_resets_is_reset(self, host, port):
        with connect(port) as client:
            host.receive()
            host.end(resets=True)
            with pytest.raises(ConnectionResetError):
                client.recv(1)

    def test_a_connection_that_a_host_closes_is_closed(self, host, port):
        with connect(port) as client:
            host.receive()
            host.end(resets=False)
            assert client.recv(1) == b""

    def test_connections_that_are_dropped_are_reset(self, host, port, relay):
        with connect(port) as client:
            host.receive()
            relay.drop()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
