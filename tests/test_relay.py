"""How the relay between clients and gateways ends connections: as a broker and a network would."""

import socket
import struct

import pytest

from penstock.local import free_ports
from tests.relay import Relay

pytestmark = pytest.mark.system

RESET = struct.pack("ii", 1, 0)


class Host:
    """A server behind the relay, with one connection, which it ends when it is told to."""

    def __init__(self, port):
        self._server = socket.create_server(("127.0.0.1", port))
        self._server.settimeout(30)
        self._accepted = None

    def receive(self):
        """Wait until something of the client has come: the relay knows both ends then."""
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
    """What a client sees."""

    def test_a_host_that_refuses_connections_resets_them(self, port):
        with connect(port) as client, pytest.raises(ConnectionResetError):
            client.recv(1)

    def test_a_host_that_resets_a_connection(self, host, port):
        with connect(port) as client:
            host.receive()
            host.end(resets=True)
            with pytest.raises(ConnectionResetError):
                client.recv(1)

    def test_a_host_that_ends_a_connection(self, host, port):
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
