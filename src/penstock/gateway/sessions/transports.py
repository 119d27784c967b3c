"""The transports of a connection: how to write to them, and their state in the kernel."""

from __future__ import annotations

import fcntl
import socket
import sys
import termios
from typing import TYPE_CHECKING

from penstock.gateway.sessions.resets import reset_on_close

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from penstock.engine.workers.gathered_writes import GatheredWrites


def tcp_state(transport: asyncio.Transport) -> int:
    """Return the TCP state of a connection, as Linux numbers it; 0 if it is not available.

    It is not where the connection is closed already, while its client's last responses are awaited.
    """
    transport_socket = transport.get_extra_info("socket")
    if transport_socket is None or not hasattr(socket, "TCP_INFO"):
        return 0
    try:
        info = transport_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    except (OSError, ValueError):  # uvloop raises the latter for a closed socket
        return 0
    return int(info[0])


def readable_bytes(transport: asyncio.Transport) -> int:
    """Return how many bytes the kernel has received on a connection that were not read."""
    count = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.FIONREAD, bytes(4))
    return int.from_bytes(count, sys.byteorder)


def is_plain(transport: asyncio.BaseTransport) -> bool:
    """Return whether a connection is without TLS."""
    return transport.get_extra_info("sslcontext") is None


def socket_number(transport: asyncio.Transport) -> int:
    """Return the file descriptor of a connection."""
    number: int = transport.get_extra_info("socket").fileno()
    return number


class TransportWriter:
    """Writes to a transport, and does nothing once it is closing."""

    __slots__ = ("_transport", "_writes")

    def __init__(self, transport: asyncio.Transport, writes: GatheredWrites) -> None:
        self._transport = transport
        self._writes = writes

    def write(self, data: bytes | memoryview) -> None:
        self._writes.write(self._transport, (data,))

    def writelines(self, data: Iterable[bytes | memoryview]) -> None:
        self._writes.write(self._transport, list(data))


class ClientWriter(TransportWriter):
    """Writes to a client; buffered bytes are flushed when the connection is closed.

    Attributes:
        has_written: Whether it has. Until then the connection ends with a reset by default,
            also if the gateway is killed.
    """

    __slots__ = ("has_written",)

    def __init__(self, transport: asyncio.Transport, writes: GatheredWrites) -> None:
        super().__init__(transport, writes)
        self.has_written = False
        reset_on_close(transport, True)

    def write(self, data: bytes | memoryview) -> None:
        if not self.has_written:
            self._begin()
        super().write(data)

    def writelines(self, data: Iterable[bytes | memoryview]) -> None:
        if not self.has_written:
            self._begin()
        super().writelines(data)

    def _begin(self) -> None:
        self.has_written = True
        reset_on_close(self._transport, False)
