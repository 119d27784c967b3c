"""The small HTTP server, with clients that misbehave."""

import asyncio
import contextlib
import socket
from itertools import count

import pytest

from penstock.gateway.observing.metrics.http_server import (
    CONNECTIONS_MAX,
    REQUEST_MAX_BYTES,
    EventStream,
    HttpResponse,
    HttpServer,
)

pytestmark = pytest.mark.system
LARGE = 20 * 2**20


class Server:
    def __init__(self, **limits):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = self.socket.getsockname()
        self.streams = 0
        paths = {"/x": self._x, "/large": self._large, "/error": self._error,
                 "/stream": self._stream, "/three": self._three}  # fmt: skip
        self.server = HttpServer(self.socket, paths, posts={"/posted": self._posted}, **limits)

    async def __aenter__(self):
        await self.server.start()
        return self

    async def __aexit__(self, *_):
        await self.server.close()

    async def _x(self, _):
        return HttpResponse(200, b"x\n")

    async def _large(self, _):
        return HttpResponse(200, bytes(LARGE))

    async def _error(self, _):
        raise ValueError("secret")

    async def _posted(self, request):
        return HttpResponse(200, request.body)

    async def _stream(self, _):
        return EventStream(self._parts(), "text/event-stream")

    async def _three(self, _):
        async def parts():
            for part in (b"a", b"b", b"c"):
                yield part

        return EventStream(parts(), "text/plain")

    async def _parts(self):
        self.streams += 1
        try:
            for number in count():
                yield b"%d\n" % number + bytes(100_000)
                await asyncio.sleep(0)
        finally:
            self.streams -= 1

    async def until(self, condition):
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.01)

    async def fetch(self, request):
        """Send bytes; return the response up to the end of the connection."""
        async with asyncio.timeout(60):
            reader, writer = await asyncio.open_connection(*self.address)
            try:
                writer.write(request)
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()


def get(path="/x", version="1.1", headers="Host: h\r\n", method="GET"):
    return f"{method} {path} HTTP/{version}\r\n{headers}\r\n".encode()


async def test_a_refused_request_is_not_served():
    def refuse(request):
        assert request.header(b"host") == b"h"
        return HttpResponse(401, b"no\n") if request.path == "/x" else None

    async with Server(refuse=refuse) as server:
        assert (await server.fetch(get())).startswith(b"HTTP/1.1 401 ")
        assert (await server.fetch(get("/large"))).startswith(b"HTTP/1.1 200 ")


async def test_a_response_has_its_headers_and_body():
    async with Server() as server:
        head, _, body = (await server.fetch(get())).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"Content-Length: 2" in head
    assert b"Connection: close" in head
    assert body == b"x\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/x?name[]=a"), 200),
        (get("/x", "1.0", ""), 200),
        (get("/y"), 404),
        (get("/"), 404),
        (get("http://h/x"), 404),
        (get(method="POST"), 405),
        (get(method="HEAD"), 200),
        (get("/y", method="HEAD"), 404),
        (get("/posted", method="HEAD"), 405),
        (get(method="DELETE"), 405),
        (get(headers="Host: h\r\nContent-Length: 1\r\n") + b"a", 400),
        (get(headers="Host: h\r\nTransfer-Encoding: chunked\r\n") + b"1\r\na\r\n0\r\n\r\n", 400),
        (get(headers=""), 400),  # HTTP/1.1 wants a Host
        (get(headers="Host: h\r\nHost: i\r\n"), 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),  # TLS
        (get(headers=f"Host: {'h' * 2 * REQUEST_MAX_BYTES}\r\n"), 431),
        (b"GET /" + b"x" * 3 * REQUEST_MAX_BYTES, 431),
        (get("/error"), None),
        (get("/posted"), 405),
        (get("/posted", method="POST"), 200),
        (get("/posted", method="POST", headers="Host: h\r\nContent-Length: 3\r\n") + b"abc", 200),
        (
            get("/posted", method="POST", headers="Host: h\r\nContent-Length: 9000\r\n")
            + bytes(9000),
            413,
        ),
        (
            get("/posted", method="POST", headers="Host: h\r\nTransfer-Encoding: chunked\r\n")
            + b"2328\r\n"
            + bytes(9000)
            + b"\r\n0\r\n\r\n",
            413,
        ),
        (get(headers="Host: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n"), 400),
        (get(headers="Host: h\r\nContent-Length: -1\r\n"), 400),
        (get(headers="Host : h\r\n"), 400),
        (get(headers="Host: h\r\n X: folded\r\nA: b\r\n"), 200),
    ],
)
async def test_requests_get_their_status(request_bytes, status):
    async with Server() as server:
        answer = await server.fetch(request_bytes)
        again = await server.fetch(get())

    if status is not None:
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert b"\r\nX-Content-Type-Options: nosniff\r\n" in answer
        assert b"\r\nCache-Control: no-store\r\n" in answer
    assert b"secret" not in answer
    assert again.endswith(b"x\n")


@pytest.mark.parametrize("path", ["/x", "/large", "/y"])
async def test_head_is_answered_as_get_without_a_body(path):
    async with Server() as server:
        head = await server.fetch(get(path, method="HEAD"))
        whole = await server.fetch(get(path))
    assert head == whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"


async def test_head_of_a_stream_ends_at_once():
    async with Server() as server:
        head = await server.fetch(get("/stream", method="HEAD"))
        assert server.streams == 0
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"Content-Type: text/event-stream" in head
    assert head.endswith(b"\r\n\r\n")


async def test_the_methods_of_a_path_are_named():
    async with Server() as server:
        answer = await server.fetch(get(method="DELETE"))
        posted = await server.fetch(get("/posted"))
    assert b"\r\nAllow: GET, HEAD\r\n" in answer
    assert b"\r\nAllow: POST\r\n" in posted


@pytest.mark.parametrize("sent", [b"", b"GET /x HTTP/1.1\r\nHost: h\r\n"])
async def test_a_slow_client_is_disconnected(sent):
    async with Server(request_s=0.05) as server:
        answer = await server.fetch(sent)  # ends, although the client does not

    assert answer == b""


async def test_a_client_that_reads_nothing_is_disconnected():
    async with Server(answer_s=0.05) as server, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*server.address, limit=1024)
        writer.write(get("/large"))
        while server.server._serving or not reader._buffer:
            await asyncio.sleep(0.01)
        received = 0
        try:
            while data := await reader.read(2**20):
                received += len(data)
        except ConnectionError:
            pass
        writer.close()

    assert received < LARGE


async def test_connections_beyond_the_limit_are_closed_at_once():
    async with Server() as server, asyncio.timeout(60):
        held = [await asyncio.open_connection(*server.address) for _ in range(CONNECTIONS_MAX)]
        for _, writer in held:
            writer.write(get("/stream"))
        await server.until(lambda: server.streams == CONNECTIONS_MAX)

        assert await server.fetch(get()) == b""

        held[0][1].close()
        await server.until(lambda: len(server.server._serving) < CONNECTIONS_MAX)
        assert (await server.fetch(get())).endswith(b"x\n")
        for _, writer in held:
            writer.transport.abort()


@pytest.mark.parametrize("sent", [b"", b"GET /x HTTP/1.1\r\nHost: h\r\n"])
async def test_idle_connections_do_not_keep_others_out(sent):
    """Otherwise a few idle connections would fail the probes, which restart the gateway."""
    async with Server(request_s=60) as server, asyncio.timeout(60):
        watching = await asyncio.open_connection(*server.address, limit=LARGE)
        watching[1].write(get("/stream"))
        await watching[0].readuntil(b"\n3\n")
        idle = [await asyncio.open_connection(*server.address) for _ in range(2 * CONNECTIONS_MAX)]
        for _, writer in idle:
            with contextlib.suppress(ConnectionError):
                writer.write(sent)
        await server.until(lambda: len(server.server._serving) == CONNECTIONS_MAX)

        assert (await server.fetch(get())).endswith(b"x\n")
        assert len(server.server._serving) <= CONNECTIONS_MAX
        assert server.streams == 1
        with contextlib.suppress(ConnectionError):
            assert await idle[0][0].read() == b""  # the oldest one made room
        for _, writer in (watching, *idle):
            writer.transport.abort()


async def test_close_disconnects_clients():
    async with asyncio.timeout(60):
        async with Server() as server:
            reader, writer = await asyncio.open_connection(*server.address)
            while not server.server._serving:
                await asyncio.sleep(0.01)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()


async def test_bytes_after_a_request_are_not_read_as_a_request():
    """A proxy in front may have another view of where a request ends."""
    both = "Host: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n"
    smuggled = get("/posted", method="POST", headers=both) + b"0\r\n\r\n" + get()
    async with Server() as server:
        assert (await server.fetch(smuggled)).count(b"HTTP/1.1 ") == 1
        assert (await server.fetch(get() + get())).count(b"HTTP/1.1 ") == 1


async def test_a_stream_that_ends_closes_the_connection():
    async with Server() as server:
        answer = await server.fetch(get("/three"))
        old = await server.fetch(get("/three", "1.0", ""))

    assert b"X-Content-Type-Options: nosniff" in answer
    assert b"Transfer-Encoding: chunked" in answer
    assert answer.endswith(b"\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n")
    assert old.endswith(b"\r\n\r\nabc")


@pytest.mark.parametrize("how", ["closes", "says more", "resets"])
async def test_a_stream_ends_when_its_client_does(how):
    async with Server() as server, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*server.address, limit=LARGE)
        writer.write(get("/stream"))
        await reader.readuntil(b"\n3\n")
        assert server.streams == 1
        if how == "closes":
            writer.close()
        elif how == "resets":
            writer.transport.abort()
        else:
            writer.write(get())
        await server.until(lambda: not server.streams and not server.server._serving)
        writer.close()


async def test_a_client_that_does_not_read_its_stream_is_disconnected():
    async with Server(answer_s=0.05) as server, asyncio.timeout(60):
        _, writer = await asyncio.open_connection(*server.address, limit=1024)
        writer.write(get("/stream"))
        await server.until(lambda: server.streams)
        await server.until(lambda: not server.streams and not server.server._serving)
        writer.close()


async def test_close_ends_streams():
    async with asyncio.timeout(60):
        async with Server() as server:
            reader, writer = await asyncio.open_connection(*server.address, limit=LARGE)
            writer.write(get("/stream"))
            await reader.readuntil(b"\n3\n")
        assert not server.streams
        writer.close()


async def test_a_thousand_connections_are_served():
    async with Server() as server, asyncio.timeout(120):
        opened = [await asyncio.open_connection(*server.address) for _ in range(1000)]
        for _, writer in opened:
            with contextlib.suppress(ConnectionError):
                writer.write(get("/stream"))
        assert len(server.server._serving) <= CONNECTIONS_MAX
        for _, writer in opened:
            writer.transport.abort()
        await server.until(lambda: not server.server._serving)
        assert (await server.fetch(get())).endswith(b"x\n")
