"""Servers that do not answer as a broker does; tests with brokers are in `integration`."""

import socket
import threading
from contextlib import closing, contextmanager

import pytest

from penstock.kafka.cluster.connection_faults import fault_of

pytestmark = pytest.mark.system


@contextmanager
def server(answer: bytes):
    """A server that sends the same bytes to each client, and ends the connection."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


HEAD = b"\x00\x00\x00\x01"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x0a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00",
        b"\x00\x00\x00\x0a" + HEAD + b"\x00\x00\x7f\xff\xff\xff",
        b"\x00\x00\x00\x0d" + HEAD + b"\x00\x00\x00\x00\x00\x01\x00\x01\xff",
        b"\x00\x00\x00\x0a" + HEAD,
    ],
)
def test_a_server_that_is_no_broker_is_not_explained(tmp_path, protocol, answer):
    with server(answer) as address:
        keys = {"bootstrap.servers": address, "security.protocol": protocol}
        assert fault_of(keys, tmp_path / "file") == ""


def test_a_mechanism_that_the_broker_has_is_no_fault(tmp_path):
    answer = b"\x00\x00\x00\x11" + HEAD + b"\x00\x00\x00\x00\x00\x01\x00\x05PLAIN"
    with server(answer) as address:
        keys = {"bootstrap.servers": address, "sasl.mechanism": "PLAIN"}
        assert fault_of({**keys, "security.protocol": "SASL_PLAINTEXT"}, tmp_path / "file") == ""
        assert fault_of(keys, tmp_path / "file") == (
            "the broker expects upstream.security.protocol=SASL_PLAINTEXT (mechanisms: PLAIN), not "
            "PLAINTEXT"
        )


def test_a_server_that_is_away_is_not_explained(tmp_path):
    assert fault_of({"bootstrap.servers": "127.0.0.1:1,none.invalid:9092"}, tmp_path / "file") == ""
