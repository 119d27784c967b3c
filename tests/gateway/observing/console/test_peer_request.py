"""Reading a peer that is slow, down, huge, or no gateway."""

import asyncio
import contextlib
import socket

import pytest

from penstock.configuration import Address
from penstock.gateway.observing.console.peer_request import BODY_MAX, PeerAddress, PeerError
from penstock.kafka.local import free_ports

pytestmark = pytest.mark.system
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"


@contextlib.asynccontextmanager
async def answering(answer, *, ends=True):
    """A server that answers with bytes; yields its address and the requests."""
    requests, tasks = [], []

    async def serve(reader, writer):
        tasks.append(asyncio.current_task())
        try:
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            await writer.drain()
            if not ends:
                await reader.read()
        finally:
            writer.close()

    listening = socket.create_server(("127.0.0.1", 0))
    server = await asyncio.start_server(serve, sock=listening)
    try:
        yield PeerAddress(Address(*listening.getsockname())), requests
    finally:
        server.close()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_an_answer_and_the_request_for_it():
    async with answering(OK) as (peer, requests):
        assert await peer.fetch("/api/own", "a-token") == b"abc"
        assert await peer.fetch("/api/own", None) == b"abc"
    first, second = (request.decode().split("\r\n") for request in requests)
    assert first[0] == "GET /api/own HTTP/1.1"
    assert f"Host: {peer.address}" in first
    assert "Authorization: Bearer a-token" in first
    assert not [line for line in second if line.lower().startswith("authorization")]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "status 302"),
        (b"HTTP/1.1 401 x\r\nContent-Length: 0\r\n\r\n", "another metrics.listener.token"),
        (b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n", "it is older, or no gateway"),
        (b"HTTP/1.1 200 OK\r\n\r\nabc", "not that of a gateway"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "not that of a"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "not that of a gateway"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (BODY_MAX + 1), "not that of a"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", "HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "not HTTP"),
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP"),
        (b"", "not HTTP"),
    ],
)
async def test_another_answer_is_an_error_without_its_text(answer, why):
    async with answering(answer) as (peer, requests):
        with pytest.raises(PeerError, match=why) as raised:
            await peer.fetch("/api/own", "a-token")
    assert len(requests) == 1  # nothing is sent to where an answer points
    assert "SSH" not in str(raised.value)
    assert "a-token" not in str(raised.value)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n", OK[:-1]])
async def test_an_answer_that_does_not_end_has_a_time_limit(answer):
    async with answering(answer, ends=False) as (peer, _):
        with pytest.raises(PeerError, match=r"no answer within 0\.2 s"):
            await peer.fetch("/api/own", None, timeout_s=0.2)


async def test_a_peer_that_is_down():
    peer = PeerAddress(Address("127.0.0.1", free_ports(1)[0]))
    with pytest.raises(PeerError, match=r"(?i)connect"):
        await peer.fetch("/api/own", None)


@pytest.mark.parametrize("host", ["x" * 70 + ".invalid", "no-such-host.invalid", "a\0b"])
async def test_a_name_that_does_not_resolve(host):
    with pytest.raises(PeerError, match=r".") as raised:
        await PeerAddress(Address(host, 1)).fetch("/", None)
    assert len(str(raised.value)) < 100


async def test_a_name_server_that_does_not_answer_takes_one_thread(monkeypatch):
    peer = PeerAddress(Address("gateway-2", 9100))
    looked_up = []
    answers = asyncio.Event()

    async def getaddrinfo(*_, **__):
        looked_up.append(1)
        await answers.wait()
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    for _ in range(3):
        with pytest.raises(PeerError, match="no answer within"):
            await peer.fetch("/api/own", None, timeout_s=0.01)
    answers.set()
    with pytest.raises(PeerError, match="Name or service not known"):
        await peer.fetch("/api/own", None)
    assert len(looked_up) == 1
    with pytest.raises(PeerError, match="Name or service not known"):
        await peer.fetch("/api/own", None)
    assert len(looked_up) == 2
