"""HTTP requests that end at a deadline."""

import contextlib
import http.client
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from penstock.kafka.client.connections.timed_http import OversizeError, read_response
from tests.certificates import Files

pytestmark = pytest.mark.system
HEAD = b"HTTP/1.1 200 OK\r\n"


@contextlib.contextmanager
def server(*responses: bytes, drips: bytes = b"", context=None) -> Iterator[str]:
    """Sends a response on each connection, and then some bytes every few milliseconds."""
    ended = threading.Event()

    def serve() -> None:
        for response in responses:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                if context is not None:
                    connection = context.wrap_socket(connection, server_side=True)
                with connection:
                    request = b""
                    while not request.endswith(b"\r\n\r\nx") and not request.startswith(b"GET"):
                        request += connection.recv(65536)
                    connection.sendall(response.replace(b"HERE", url.encode()))
                    while drips and not ended.wait(0.01):
                        connection.sendall(drips)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http{'s' if context else ''}://127.0.0.1:{listener.getsockname()[1]}/"
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield url
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def read(url, timeout_s=30.0, bytes_max=1000, tls=None):
    return read_response(urllib.request.Request(url, b"x"), timeout_s, bytes_max, tls)


@pytest.mark.parametrize(
    "response",
    [
        HEAD + b"Content-Length: 2\r\n\r\nok",
        HEAD + b"\r\nok",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ],
)
def test_a_body(response):
    with server(response) as url:
        assert read(url) == b"ok"


def test_a_redirect():
    redirect = b"HTTP/1.1 302 Found\r\nLocation: HEREx\r\nContent-Length: 0\r\n\r\n"
    with server(redirect, HEAD + b"\r\nok") as url:
        assert read(url) == b"ok"


@pytest.mark.parametrize(
    "response",
    [b"", HEAD, HEAD + b"Content-Length: 1000\r\n\r\n", HEAD + b"\r\n",
     b"HTTP/1.1 302 Found\r\nLocation: HEREx\r\n\r\n"],
)  # fmt: skip
def test_a_server_that_sends_a_byte_from_time_to_time(response):
    with server(response, drips=b" ") as url, pytest.raises(TimeoutError):
        read(url, 0.2)


def test_tls(tmp_path):
    files = Files(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(files.key("endpoint.pem")))
    trust = ssl.create_default_context(cafile=str(files.trust))
    with server(HEAD + b"\r\nok", context=context) as url:
        assert read(url, tls=trust) == b"ok"
    with server(HEAD, drips=b" ", context=context) as url, pytest.raises(TimeoutError):
        read(url, 0.2, tls=trust)
    with (
        server(HEAD, context=context) as url,
        pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        read(url)


@pytest.mark.parametrize("head", [HEAD, b"HTTP/1.1 302 Found\r\nLocation: HERE\r\n"])
def test_a_response_that_does_not_end(head):
    with server(head + b"\r\n", drips=b"x" * 500) as url, pytest.raises(OversizeError):
        read(url)


@pytest.mark.parametrize(
    "response",
    [HEAD + b"Content-Length: 3\r\n\r\nok", HEAD + b"Content-Length: 3\r\n\r\n", b"EHLO\r\n\r\n"],
)
def test_an_incomplete_response(response):
    with server(response) as url, pytest.raises(http.client.HTTPException):
        read(url)


def test_the_next_address_of_a_host_is_tried(monkeypatch):
    addresses = [(0, 0, 0, "", ("127.0.0.1", 1))]
    resolve = socket.getaddrinfo

    def resolved(host, port, *options, **named):
        found = resolve("127.0.0.1", port, *options, **named)
        return addresses + found if host == "two.test" else found

    with server(HEAD + b"\r\nok") as url:
        monkeypatch.setattr(socket, "getaddrinfo", resolved)
        assert read(url.replace("127.0.0.1", "two.test")) == b"ok"
