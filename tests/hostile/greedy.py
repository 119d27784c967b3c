"""Clients that use more than their share: connections, memory, turns."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from tests.raw import produce_request, request_frame

Place = tuple[str, int]


def place(address: str) -> Place:
    """Split an address."""
    host, _, port = address.rpartition(":")
    return host, int(port)


def produce_frame(topic: str, *batches: bytes, number: int = 1, acks: int = -1) -> bytes:
    """Write a Produce request with a batch for each partition."""
    request = produce_request([(topic, list(enumerate(batches)))], acks=acks, timeout_ms=60_000)
    return request_frame(request, number)


class Connections:
    """Connections that are all closed at the end."""

    def __init__(self) -> None:
        self._ends = contextlib.ExitStack()
        self._threads: list[threading.Thread] = []
        self.open: list[socket.socket] = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        """Close all."""
        for connection in self.open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        self._ends.close()
        self.open.clear()

    def connect(self, address: str, *, receive_bytes: int = 0) -> socket.socket:
        """Open a connection; a small buffer is soon filled by unread data."""
        connection = self._ends.enter_context(socket.socket())
        if receive_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.settimeout(30)
        connection.connect(place(address))
        self.open.append(connection)
        return connection

    def send(self, connection: socket.socket, *data: bytes, times: int = 1) -> None:
        """Send in the background, as fast as possible, until the end."""

        def push() -> None:
            for _ in range(times):
                for part in data:
                    connection.sendall(part)

        connection.settimeout(None)
        self.run(push)

    def run(self, work: Callable[[], None]) -> None:
        """Run a function in the background, until its connection is closed."""

        def quietly() -> None:
            with contextlib.suppress(OSError):
                work()

        self._threads.append(threading.Thread(target=quietly, daemon=True))
        self._threads[-1].start()


def unfinished(size: int, *, api_key: int = 0, version: int = 9) -> bytes:
    """Write all of a request of the given size without its last byte."""
    head = struct.pack(">ihhih", size, api_key, version, 1, -1)
    return head + bytes(size + 4 - len(head) - 1)


def is_closed(connection: socket.socket, within_s: float = 15.0) -> bool:
    """Return whether the peer closes a connection, whatever it sends before."""
    connection.settimeout(within_s)
    try:
        while connection.recv(2**16):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True
