"""Notifies systemd: ready, reloading, stopping, and that the event loop still turns.

The protocol is that of sd_notify(3): datagrams to the socket that `NOTIFY_SOCKET` names. Without
that variable nothing is sent, and all of this does nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

log = structlog.get_logger()

_AGAIN_S: Final = 0.05
"""When a message is sent again that the socket had no room for."""


class Notifications:
    """Sends the state of this service to systemd, from the event loop that has to be alive."""

    def __init__(self, environment: MutableMapping[str, str] | None = None) -> None:
        """Connect to systemd, if it has started this process, and answer its watchdog from now on.

        Args:
            environment: Has systemd's variables; by default that of the process. They
                are removed: what this process starts does not speak for it.
        """
        variables = os.environ if environment is None else environment
        address = variables.pop("NOTIFY_SOCKET", "")
        watchdog_s = _watchdog_s(
            variables.pop("WATCHDOG_USEC", ""), variables.pop("WATCHDOG_PID", "")
        )
        self._loop = asyncio.get_running_loop()
        self._queue: deque[bytes] = deque()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._reloads = 0
        self._status = ""
        self._is_stopping = False
        self._socket = _connect(address) if address else None
        if self._socket is not None and watchdog_s:
            self._answer_watchdog(watchdog_s / 2)

    def ready(self, status: str) -> None:
        """Say that every listener accepts.

        Args:
            status: A line for `systemctl status`.
        """
        self._status = status
        self._send("READY=1", f"STATUS={status}")

    @contextlib.contextmanager
    def reloading(self) -> Iterator[None]:
        """Say that the file is read again, and at the end that it has been, however that went."""
        self._reloads += 1
        # CLOCK_MONOTONIC: systemd compares it with the time of its request to reload.
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={now}", "STATUS=reloading")
        try:
            yield
        finally:
            self._reloads -= 1
            if not self._reloads and not self._is_stopping:
                self._send("READY=1", f"STATUS={self._status}")

    def stopping(self) -> None:
        """Say that no new connection is accepted, and what is in flight is answered."""
        self._is_stopping = True
        self._send("STOPPING=1", "STATUS=answering requests in flight")

    def close(self) -> None:
        """Stop to answer the watchdog, and close the socket."""
        for timer in self._timers.values():
            timer.cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _answer_watchdog(self, every_s: float) -> None:
        self._send("WATCHDOG=1")
        self._timers["watchdog"] = self._loop.call_later(every_s, self._answer_watchdog, every_s)

    def _send(self, *assignments: str) -> None:
        if self._socket is not None:
            self._queue.append("\n".join(assignments).encode())
            self._send_waiting()

    def _send_waiting(self) -> None:
        """Send what waits, in order; what the socket has no room for is sent a little later."""
        while self._queue and self._socket is not None:
            try:
                self._socket.send(self._queue[0])
            except BlockingIOError:
                if (timer := self._timers.get("again")) is not None:
                    timer.cancel()
                self._timers["again"] = self._loop.call_later(_AGAIN_S, self._send_waiting)
                return
            except OSError as error:
                log.warning("systemd cannot be notified", reason=error.strerror or str(error))
            self._queue.popleft()


def _connect(address: str) -> socket.socket | None:
    """Connect to a path, or to a name in the abstract namespace (`@`); log why it cannot be."""
    if address[0] not in "/@":
        log.warning("systemd cannot be notified", reason="NOTIFY_SOCKET is not a UNIX socket")
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        connection.connect("\0" + address[1:] if address[0] == "@" else address)
    except OSError as error:
        connection.close()
        log.warning("systemd cannot be notified", reason=error.strerror or str(error))
        return None
    connection.setblocking(False)
    return connection


def _watchdog_s(usec: str, pid: str) -> float:
    """Return within what time the watchdog wants an answer of this process; 0 if of none."""
    if pid and pid != str(os.getpid()):
        return 0.0
    return int(usec) / 1_000_000 if usec.isdecimal() else 0.0
