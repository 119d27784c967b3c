"""Gathers small writes while several messages of one read are processed.

Each system call, and each wake-up of the receiver, costs as much as the work on a small message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

log = structlog.get_logger()

GATHERED_MAX: Final = 16
"""So many writes are gathered: receivers begin while the rest is processed."""
GATHERED_MAX_BYTES: Final = 16 * 1024


class Writer(Protocol):
    """A transport."""

    def is_closing(self) -> bool:
        """Return whether nothing can be written to it any more."""

    def writelines(self, list_of_data: Sequence[bytes | memoryview], /) -> None:
        """Send several buffers, in order."""

    def abort(self) -> None:
        """Close it, without what has not been sent."""


class GatheredWrites:
    """The writes of one event loop, by transport. They are sent as they come outside of `during`.

    The bytes for a transport stay in order; none are kept when `during` returns.
    """

    __slots__ = ("_buffers", "_bytes", "_count", "_is_on")

    def __init__(self) -> None:
        self._buffers: dict[Writer, list[bytes | memoryview]] = {}
        self._count = self._bytes = 0
        self._is_on = False

    def during(self, work: Callable[[], None]) -> None:
        """Do work; gather its writes.

        Raises:
            Exception: The work raised it; its writes until then are sent.
        """
        if self._is_on:
            work()
            return
        self._is_on = True
        try:
            work()
        finally:
            try:
                self.flush()
            finally:
                self._is_on = False

    def write(self, transport: Writer, buffers: Sequence[bytes | memoryview]) -> None:
        """Send buffers, or gather them; do nothing if the transport is closing."""
        if not self._is_on:
            if not transport.is_closing():
                transport.writelines(buffers)
            return
        gathered = self._buffers.get(transport)
        if gathered is None:
            gathered = self._buffers[transport] = []
        gathered += buffers
        self._count += 1
        self._bytes += sum(map(len, buffers))
        if self._count >= GATHERED_MAX or self._bytes > GATHERED_MAX_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send all gathered bytes. Call it before a transport is closed."""
        self._count = self._bytes = 0
        while self._buffers:  # a transport that is full may cause other writes
            transport = next(iter(self._buffers))
            buffers = self._buffers.pop(transport)
            if not transport.is_closing():
                _send(transport, buffers)


def _send(transport: Writer, buffers: Sequence[bytes | memoryview]) -> None:
    """Send bytes; if that fails, only this transport ends, because its bytes are lost."""
    try:
        transport.writelines(buffers)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of an extension is no Exception
        log.exception("closing a connection after an error of the gateway")
        transport.abort()
