"""Reads the state of another gateway over HTTP, whatever it answers.

A peer may be slow, down, of another version, or no gateway at all. So an answer has a time limit,
and it is read only if it says before that it is not too long. Nothing but a request is ever
sent: a redirect is an answer like any other error. h11 reads the protocol, on the event loop: a
thread of a peer that does not answer would be missing elsewhere.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, Final

import h11

if TYPE_CHECKING:
    from penstock.configuration import Address

TIMEOUT_S: Final = 5.0
"""The time in which an answer has to be there."""
BODY_MAX: Final = 4 * 2**20
"""The longest answer that is read."""
_HEAD_MAX: Final = 8 * 1024
_READ_BYTES: Final = 16 * 1024
_OK: Final = 200
_HINTS: Final = {
    401: ": it has another metrics.listener.token",
    404: ": it is older, or no gateway",
    421: ": it has no metrics.listener.token, so it does not serve this name",
}


class PeerError(Exception):
    """A peer does not answer, or not as a gateway does; the text has nothing that it sent."""


class PeerAddress:
    """Where a peer is; the name is resolved for each connection, as pods get other addresses."""

    def __init__(self, address: Address) -> None:
        """Resolve nothing yet."""
        self.address = address
        self._lookup: asyncio.Future[list[Any]] | None = None

    async def fetch(self, path: str, token: str | None, *, timeout_s: float = TIMEOUT_S) -> bytes:
        """Return what the peer answers.

        Args:
            path: What to read.
            token: The token of the peer's listener, if there is one.
            timeout_s: The time for all of it.

        Raises:
            PeerError: It does not answer so.
        """
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await self._connect()
                try:
                    headers = [("Host", str(self.address)), ("Connection", "close")]
                    if token is not None:
                        headers.append(("Authorization", f"Bearer {token}"))
                    return await _get(reader, writer, path, headers)
                finally:
                    writer.transport.abort()
        except TimeoutError:
            raise PeerError(f"no answer within {timeout_s:g} s") from None
        except h11.ProtocolError:
            raise PeerError("its answer is not HTTP") from None
        except OSError as error:
            raise PeerError(error.strerror or type(error).__name__) from None
        except ValueError:  # such as a label of more than 63 characters
            raise PeerError("its name cannot be resolved") from None

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the first of its addresses that accepts."""
        error: OSError = OSError("its name has no address")
        for *_, where in await self._resolve():
            try:
                return await asyncio.open_connection(*where[:2], limit=_READ_BYTES)
            except OSError as refusal:
                error = refusal
        raise error

    async def _resolve(self) -> list[Any]:
        """Resolve the name in a thread: never in two, also where no name server answers."""
        lookup = self._lookup
        if lookup is None:
            loop = asyncio.get_running_loop()
            resolving = loop.getaddrinfo(*self.address, type=socket.SOCK_STREAM)
            lookup = self._lookup = asyncio.ensure_future(resolving)
            lookup.add_done_callback(_take_note)
        try:
            return await asyncio.shield(lookup)
        finally:
            if lookup.done():
                self._lookup = None


def _take_note(lookup: asyncio.Future[list[Any]]) -> None:
    """Have no error logged that came after the time limit."""
    if not lookup.cancelled():
        lookup.exception()


async def _get(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    path: str,
    headers: list[tuple[str, str]],
) -> bytes:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_MAX)
    request = h11.Request(method="GET", target=path, headers=headers)
    writer.write(connection.send(request) or b"")
    writer.write(connection.send(h11.EndOfMessage()) or b"")
    body: list[bytes] = []
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            _check(event)
        elif isinstance(event, h11.Data):
            body.append(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            return b"".join(body)
        else:
            raise PeerError("its answer is not that of a gateway")


def _check(response: h11.Response) -> None:
    if response.status_code != _OK:
        hint = _HINTS.get(response.status_code, "")
        raise PeerError(f"status {response.status_code}{hint}")
    headers = dict(response.headers)
    # Without a length, as with chunks, its size is not known before its end.
    length = headers.get(b"content-length")
    if length is None or b"transfer-encoding" in headers or int(length) > BODY_MAX:
        raise PeerError("its answer is not that of a gateway")
