"""Reads a client's first TLS message, and leaves it in the socket."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

RECORD_MAX_BYTES: Final = 5 + 2**14
_HEAD_BYTES: Final = 5
_HANDSHAKE: Final = 22


async def first_record(connection: socket.socket) -> bytes | None:
    """Return the first TLS record that a client sends, once all of it is there.

    It can be received again: nothing has been taken from the socket.

    Args:
        connection: A connected, non-blocking socket that has not been read.

    Returns:
        None if it is not one of a handshake, or the connection ends or fails before.
    """
    needed, there = _HEAD_BYTES, 0
    try:
        while True:
            await _readable(connection)
            data = connection.recv(RECORD_MAX_BYTES, socket.MSG_PEEK)
            if len(data) <= there or data[0] != _HANDSHAKE:
                return None
            if len(data) >= _HEAD_BYTES:
                needed = _HEAD_BYTES + int.from_bytes(data[3:5], "big")
            if needed > RECORD_MAX_BYTES:
                return None
            if len(data) >= needed > _HEAD_BYTES:
                return data[:needed]
            there = len(data)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, needed)
    except OSError:
        return None
    finally:
        if there:
            _wait_for_any(connection)


def _wait_for_any(connection: socket.socket) -> None:
    """Have the socket be readable with any number of bytes again."""
    if connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)


async def _readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready_event = asyncio.Event()
    loop.add_reader(connection, ready_event.set)
    try:
        await ready_event.wait()
    finally:
        loop.remove_reader(connection)
