"""A small HTTP/1.1 server on the event loop, for requests without a body; h11 reads the protocol.

Whoever can reach the port can connect, so everything is bounded: the number of connections, the
size of a request, the time that it takes, and the time in which an answer is read. A connection
serves one request.
"""

from __future__ import annotations

import asyncio
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple

import h11
import structlog

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Collection, Coroutine, Mapping

log = structlog.get_logger()

CONNECTIONS_MAX: Final = 32
"""More are closed at once."""
REQUEST_MAX_BYTES: Final = 8 * 1024
_READ_BYTES: Final = 1024
REQUEST_S: Final = 10.0
"""The time in which a request has to be there."""
ANSWER_S: Final = 30.0
"""The time in which the answer has to be made and read."""
TEXT: Final = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


class HttpServer:
    """Answers GET requests for some paths."""

    def __init__(
        self,
        listening: socket.socket,
        paths: Mapping[str, Callable[[], Coroutine[object, object, Answer]]],
        *,
        token: str | None = None,
        without_token: Collection[str] = (),
        request_s: float = REQUEST_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        """Make a server; `start` starts it.

        Args:
            listening: A listening socket, which is closed with the server.
            paths: Makes the answer, by path.
            token: What requests have to carry (`Authorization: Bearer`, RFC 6750), if anything.
            without_token: The paths that are answered all the same.
            request_s: The time in which a request has to be there.
            answer_s: The time in which the answer has to be made and read.
        """
        self._listening = listening
        self._paths = paths
        self._token = None if token is None else token.encode()
        self._without_token = frozenset(without_token)
        self._request_s = request_s
        self._answer_s = answer_s
        self._serving: set[asyncio.Task[None]] = set()
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
        if len(self._serving) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_MAX_BYTES)
        try:
            async with asyncio.timeout(self._request_s):
                answer = await self._read(connection, reader)
            async with asyncio.timeout(self._answer_s):
                if isinstance(answer, str):
                    answer = await self._paths[answer]()
                writer.write(_encode(connection, answer))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, TimeoutError, h11.LocalProtocolError) as error:
            log.debug("closing a connection", side="metrics", reason=str(error))
        except Exception:
            log.exception("closing a connection after an error of the gateway", side="metrics")
        finally:
            writer.transport.abort()

    async def _read(self, connection: h11.Connection, reader: asyncio.StreamReader) -> Answer | str:
        """Return the path of a request, or what is answered to one that is not served."""
        request = None
        try:
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    # h11 limits what is not complete after a piece, so pieces are small.
                    data = await reader.read(_READ_BYTES)
                    if not data and request is None:
                        raise EOFError("it was closed before its request was there")
                    connection.receive_data(data)
                elif isinstance(event, h11.Request):
                    request = event
                elif isinstance(event, h11.EndOfMessage):
                    assert request is not None
                    return self._find(request)
                else:  # a piece of a body, or the end of the connection
                    return Answer(400, b"no body is expected\n")
        except h11.RemoteProtocolError as error:
            # Not the error's text, which may hold parts of the request.
            return Answer(error.error_status_hint, b"not a request that is understood\n")

    def _find(self, request: h11.Request) -> Answer | str:
        path = request.target.partition(b"?")[0].decode("ascii", "replace")
        if path not in self._paths:
            known = " ".join(self._paths)
            return Answer(404, f"there are {known}\n".encode())
        if request.method != b"GET":  # HEAD, too: its answer would have no body
            return Answer(405, b"", headers=(("Allow", "GET"),))
        if path not in self._without_token and not self._is_authorized(request):
            return Answer(401, b"a token is needed\n", headers=(("WWW-Authenticate", "Bearer"),))
        return path

    def _is_authorized(self, request: h11.Request) -> bool:
        if self._token is None:
            return True
        given = [value for name, value in request.headers if name == b"authorization"]
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(b" ")
        return scheme.lower() == b"bearer" and compare_digest(token.strip(), self._token)


def _encode(connection: h11.Connection, answer: Answer) -> bytes:
    head = h11.Response(
        status_code=answer.status,
        headers=[
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
            *answer.headers,
        ],
    )
    parts = (head, h11.Data(data=answer.body), h11.EndOfMessage())
    return b"".join(connection.send(part) or b"" for part in parts)
