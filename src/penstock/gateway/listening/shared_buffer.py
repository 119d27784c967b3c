"""Connections that are read into memory which all of them share.

An event loop requests the memory before each read, and so learns how much it may read: no
connection brings more than may be held of it, and none has memory of its own for that.
"""

from __future__ import annotations

import asyncio


class SharedBufferProtocol(asyncio.BufferedProtocol):
    """The protocol of a connection, whose bytes are copied from the shared memory at once."""

    read_buffer: memoryview

    def get_buffer(self, _: int) -> memoryview:
        """Return the memory to read into: as much of it as may be read."""
        return self.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the bytes that were read there."""
        self.data_received(bytes(self.read_buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Handle bytes."""
        raise NotImplementedError
