"""A small HTTP/1.1 server on the event loop; h11 reads the protocol.

Anyone who can reach the port can connect, so everything is bounded: the number of connections, the
size of a request, the time that it takes, and the time in which an answer is read. A connection
serves one request, so that bytes after it cannot be taken for another request.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, NamedTuple

import h11
import structlog

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping

log = structlog.get_logger()

CONNECTIONS_MAX: Final = 32
"""At the limit, the oldest connection without a request is closed, or else the new connection."""
REQUEST_MAX_BYTES: Final = 8 * 1024
_READ_BYTES: Final = 1024
REQUEST_S: Final = 10.0
"""The time in which a request has to be there."""
ANSWER_S: Final = 30.0
"""The time in which a response, or a piece of it, has to be made and read."""
TEXT: Final = "text/plain; charset=utf-8"


class Request(NamedTuple):
    """A request.

    Attributes:
        method: `GET`, `HEAD` or `POST`.
        path: The path, without what follows a question mark.
        headers: Names in lower case, and values.
        body: The body; only of a POST.
    """

    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""

    def header(self, name: bytes) -> bytes | None:
        """Return the value of a header that occurs once; None otherwise."""
        values = [value for header, value in self.headers if header == name]
        return values[0] if len(values) == 1 else None


class HttpResponse(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


class EventStream(NamedTuple):
    """An answer that continues until its client disconnects, or the parts end.

    Attributes:
        parts: The parts of the body; closed at the end.
    """

    parts: AsyncGenerator[bytes]
    content_type: str


if TYPE_CHECKING:
    Handler = Callable[[Request], Coroutine[object, object, HttpResponse | EventStream]]


def admit_all(_: Request) -> HttpResponse | None:
    """Serve a connection."""
    return None


class HttpServer:
    """Answers GET and HEAD requests for some paths, and POST requests for others."""

    def __init__(
        self,
        listening: socket.socket,
        paths: Mapping[str, Handler],
        *,
        posts: Mapping[str, Handler] | None = None,
        refuse: Callable[[Request], HttpResponse | None] = admit_all,
        request_s: float = REQUEST_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        """Make a server; `start` starts it.

        Args:
            listening: A listening socket, which is closed with the server.
            paths: Makes the answer to GET, by path.
            posts: Makes the answer to POST, by path; other paths have none.
            refuse: Returns another response, if a request is not to be served.
            request_s: The time in which a request has to be there.
            answer_s: The time in which a response, or a piece of it, has to be made and read.
        """
        self._listening = listening
        self._handlers = {("GET", path): handler for path, handler in paths.items()}
        self._handlers |= {("POST", path): handler for path, handler in (posts or {}).items()}
        self._paths = list(paths)
        self._refuse = refuse
        self._request_s = request_s
        self._answer_s = answer_s
        self._serving: set[asyncio.Task[None]] = set()
        self._without_request: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        """Those of them whose requests are not there yet, the oldest first."""
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(
            self._accept, sock=self._listening, limit=REQUEST_MAX_BYTES
        )

    async def close(self) -> None:
        """Stop accepting, and close all connections."""
        if self._server is not None:
            self._server.close()
        self._listening.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= CONNECTIONS_MAX and not self._make_room():
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        self._without_request[task] = writer
        task.add_done_callback(self._ended)

    def _make_room(self) -> bool:
        """End the oldest connection without a request: idle connections would keep out probes."""
        oldest = next(iter(self._without_request), None)
        if oldest is not None:
            oldest.cancel()
            # A task that has not begun would not do it.
            self._without_request[oldest].transport.abort()
            self._ended(oldest)
        return oldest is not None

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._serving.discard(task)
        self._without_request.pop(task, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_MAX_BYTES)
        task = asyncio.current_task()
        assert task is not None
        try:
            async with asyncio.timeout(self._request_s):
                request = await self._read(connection, reader)
            self._without_request.pop(task, None)
            is_head = isinstance(request, Request) and request.method == "HEAD"
            async with asyncio.timeout(self._answer_s):
                answer: HttpResponse | EventStream
                answer = (
                    request if isinstance(request, HttpResponse) else await self._answer(request)
                )
                if isinstance(answer, HttpResponse):
                    writer.write(_encode(connection, answer, is_head=is_head))
                    await self._end(writer)
            if isinstance(answer, EventStream):
                await self._stream(connection, reader, writer, answer, is_head=is_head)
        except (OSError, EOFError, TimeoutError, h11.LocalProtocolError) as error:
            log.debug("closing a connection", side="metrics", reason=str(error))
        except Exception:
            log.exception("closing a connection after an error of the gateway", side="metrics")
        finally:
            writer.transport.abort()

    @staticmethod
    async def _end(writer: asyncio.StreamWriter) -> None:
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def _stream(
        self,
        connection: h11.Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: EventStream,
        *,
        is_head: bool,
    ) -> None:
        """Send the parts of an answer until they end, or the client closes or sends more.

        Args:
            is_head: Whether the client requested only the headers.
        """
        task = asyncio.current_task()
        assert task is not None
        gone = asyncio.ensure_future(reader.read(1))
        gone.add_done_callback(lambda _: task.cancel())
        try:
            async with aclosing(answer.parts) as parts:
                head = [("Content-Type", answer.content_type), *_ALWAYS]
                writer.write(connection.send(h11.Response(status_code=200, headers=head)) or b"")
                if not is_head:
                    async for part in parts:
                        writer.write(connection.send(h11.Data(data=part)) or b"")
                        async with asyncio.timeout(self._answer_s):
                            await writer.drain()
            writer.write(connection.send(h11.EndOfMessage()) or b"")
            async with asyncio.timeout(self._answer_s):
                await self._end(writer)
        finally:
            gone.cancel()

    async def _read(self, connection: h11.Connection, reader: asyncio.StreamReader
                    ) -> HttpResponse | Request:  # fmt: skip
        """Return a request, or the response to an unreadable request."""
        request = None
        body = b""
        try:
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    # h11 limits an incomplete event after a piece, so pieces are small.
                    data = await reader.read(_READ_BYTES)
                    if not data and request is None:
                        raise EOFError("it was closed before its request was there")
                    connection.receive_data(data)
                elif isinstance(event, h11.Request):
                    request = _request(event)
                elif isinstance(event, h11.EndOfMessage):
                    assert request is not None
                    return request._replace(body=body)
                elif isinstance(event, h11.Data) and request and request.method == "POST":
                    body += event.data
                    if len(body) > REQUEST_MAX_BYTES:
                        return HttpResponse(413, b"the body is too large\n")
                else:  # a piece of a body, or the end of the connection
                    return HttpResponse(400, b"no body is expected\n")
        except h11.RemoteProtocolError as error:
            # Not the error's text, which may hold parts of the request.
            return HttpResponse(error.error_status_hint, b"not a request that is understood\n")

    async def _answer(self, request: Request) -> HttpResponse | EventStream:
        refusal = self._refuse(request)
        if refusal is not None:
            return refusal
        method = "GET" if request.method == "HEAD" else request.method
        handler = self._handlers.get((method, request.path))
        if handler is not None:
            return await handler(request)
        allowed = [method for method, path in self._handlers if path == request.path]
        if not allowed:
            return HttpResponse(404, f"there are {' '.join(self._paths)}\n".encode())
        if "GET" in allowed:
            allowed.append("HEAD")
        return HttpResponse(405, b"", headers=(("Allow", ", ".join(allowed)),))


def _request(h11_request: h11.Request) -> Request:
    return Request(
        h11_request.method.decode("ascii"),
        h11_request.target.partition(b"?")[0].decode("ascii", "replace"),
        tuple((bytes(name), bytes(value)) for name, value in h11_request.headers),
    )


_ALWAYS: Final = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Connection", "close"),
)


def _encode(connection: h11.Connection, answer: HttpResponse, *, is_head: bool) -> bytes:
    """Return a response; that to HEAD says how long the body would be, and has none."""
    head = h11.Response(
        status_code=answer.status,
        headers=[
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            *_ALWAYS,
            *answer.headers,
        ],
    )
    body = b"" if is_head else answer.body
    parts = (head, h11.Data(data=body), h11.EndOfMessage())
    return b"".join(connection.send(part) or b"" for part in parts)
