"""Free loopback ports."""

from __future__ import annotations

import random
import socket
from typing import Final

from penstock.kafka.local.errors import LocalKafkaError

_FIRST, _LAST = 12000, 31000  # below what systems hand out for outgoing connections
_BLOCK: Final = 200
_CHANCE: Final = random.SystemRandom()
"""Processes with the same seed, such as those of a test run, would try the same ports."""


class _Block:
    """Consecutive ports that this process alone hands out, for as long as it holds the first."""

    def __init__(self, first: int, reservation: socket.socket) -> None:
        self._reservation = reservation
        self._first, self._end = first + 1, first + _BLOCK
        self._next = self._first

    def take(self, count: int) -> list[int]:
        """Return consecutive free ports, those that were returned last come last; or none."""
        for _ in range(self._first, self._end):
            if self._next + count > self._end:
                self._next = self._first
            ports = list(range(self._next, self._next + count))
            if all(map(_is_free, ports)):
                self._next += count
                return ports
            self._next += 1
        return []


_blocks: list[_Block] = []


def free_ports(count: int = 1) -> list[int]:
    """Find consecutive ports on loopback that nothing listens on.

    They are free now, and no other process gets the same ports while this process runs; but
    processes that do not use this function may take them first.

    Args:
        count: How many, less than 200.

    Raises:
        LocalKafkaError: None were found.
    """
    for block in _blocks:
        if ports := block.take(count):
            return ports
    starts = list(range(_FIRST, _LAST, _BLOCK))
    _CHANCE.shuffle(starts)
    for first in starts:
        reservation = _bound(first)
        if reservation is None:
            continue
        block = _Block(first, reservation)
        if ports := block.take(count):
            _blocks.append(block)
            return ports
        reservation.close()
    raise LocalKafkaError(f"no {count} consecutive free ports between {_FIRST} and {_LAST}")


def _bound(port: int) -> socket.socket | None:
    """Return a socket that keeps others from binding the port; None if another has it."""
    holder = socket.socket()
    try:
        holder.bind(("127.0.0.1", port))
    except OSError:
        holder.close()
        return None
    return holder


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
