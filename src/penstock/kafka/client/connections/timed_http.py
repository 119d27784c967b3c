"""An HTTP request that ends at a deadline, and reads a limited number of bytes.

The timeout of `urllib.request.urlopen` is for each address that it connects to, and for each
`recv`: a server that sends a byte from time to time keeps it waiting.
"""

from __future__ import annotations

import functools
import http.client
import io
import socket
import time
import urllib.request
from typing import TYPE_CHECKING, Any, cast

from penstock.errors import MalformedError

if TYPE_CHECKING:
    import ssl

    from _typeshed import WriteableBuffer


class OversizeError(MalformedError):
    """A server sends more bytes than allowed."""


def read_response(
    request: urllib.request.Request, timeout_s: float, bytes_max: int, tls: ssl.SSLContext | None
) -> bytes:
    """Return the body of a response.

    Args:
        timeout_s: For all of it: connections, redirects and the body. The look-up of a host name
            is not interrupted.
        bytes_max: How much may be received.
        tls: For https; Python's default without it.

    Raises:
        OSError: There is no connection, no response in time, or a status that is an error.
        http.client.HTTPException: It is not a response, or is incomplete.
        OversizeError: It is too large.
    """
    limits = _Limits(timeout_s, bytes_max)
    opener = urllib.request.build_opener(_HTTPHandler(limits), _HTTPSHandler(limits, tls))
    with opener.open(request, timeout=timeout_s) as response:
        body = cast("bytes", response.read(bytes_max))
        if response.length:  # `read` does not check it
            raise http.client.IncompleteRead(b"", response.length)
        return body


class _Limits:
    def __init__(self, timeout_s: float, bytes_max: int) -> None:
        self._ends_at = time.monotonic() + timeout_s
        self._bytes_left = bytes_max

    @property
    def left_s(self) -> float:
        """The time that is left.

        Raises:
            TimeoutError: It is over.
        """
        left_s = self._ends_at - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s

    def count(self, received_bytes: int) -> None:
        """Count bytes.

        Raises:
            OversizeError: They are too many.
        """
        self._bytes_left -= received_bytes
        if self._bytes_left < 0:
            raise OversizeError


class _TimedReader(io.RawIOBase):
    """Reads from a socket."""

    def __init__(self, connected_socket: socket.socket, limits: _Limits) -> None:
        self._socket = connected_socket
        self._file = connected_socket.makefile("rb", 0)
        self._limits = limits

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._socket.settimeout(self._limits.left_s)
        received_bytes = cast("io.RawIOBase", self._file).readinto(buffer) or 0
        self._limits.count(received_bytes)
        return received_bytes

    def close(self) -> None:
        self._file.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    """A response; `http.client` makes it of a socket, and reads from `fp`."""

    def __init__(
        self, connected_socket: socket.socket, *options: Any, limits: _Limits, **named: Any
    ) -> None:
        super().__init__(connected_socket, *options, **named)
        self.fp.close()
        self.fp = io.BufferedReader(_TimedReader(connected_socket, limits))


class _HTTPConnection(http.client.HTTPConnection):
    def __init__(self, *options: Any, limits: _Limits, **named: Any) -> None:
        super().__init__(*options, **named)
        _limit(self, limits)


class _HTTPSConnection(http.client.HTTPSConnection):
    def __init__(self, *options: Any, limits: _Limits, **named: Any) -> None:
        super().__init__(*options, **named)
        _limit(self, limits)


def _limit(connection: Any, limits: _Limits) -> None:
    connection.response_class = functools.partial(_TimedResponse, limits=limits)
    connection._create_connection = functools.partial(_connected, limits=limits)  # noqa: SLF001


def _connected(
    place: tuple[str, int], _timeout_s: float, source: Any, *, limits: _Limits
) -> socket.socket:
    """Connect to the first address of a host that accepts, as `socket.create_connection` does."""
    failure = OSError("the host has no address")
    for *_, address in socket.getaddrinfo(*place, type=socket.SOCK_STREAM):
        try:
            connected_socket = socket.create_connection(
                (str(address[0]), place[1]), limits.left_s, source
            )
        except OSError as error:
            failure = error
        else:
            connected_socket.settimeout(limits.left_s)  # of a TLS handshake
            return connected_socket
    raise failure


class _HTTPHandler(urllib.request.HTTPHandler):
    def __init__(self, limits: _Limits) -> None:
        super().__init__()
        self._limits = limits

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(functools.partial(_HTTPConnection, limits=self._limits), request)


class _HTTPSHandler(urllib.request.HTTPSHandler):
    def __init__(self, limits: _Limits, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._limits = limits
        self._tls = tls

    def https_open(self, request: urllib.request.Request) -> Any:
        connection_class = functools.partial(_HTTPSConnection, limits=self._limits)
        return self.do_open(connection_class, request, context=self._tls)
