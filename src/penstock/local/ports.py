"""Free loopback ports."""

from __future__ import annotations

import random
import socket
from typing import Final

from penstock.local.errors import LocalKafkaError

_FIRST, _LAST = 12000, 31000  # below what systems hand out for outgoing connections
_ATTEMPTS: Final = 200
_CHANCE: Final = random.SystemRandom()
"""Processes with the same seed, such as those of a test run, would look at the same ports."""


def free_ports(count: int = 1) -> list[int]:
    """Find consecutive ports on loopback that nothing listens on.

    They are free now; something else may take them before you do.

    Raises:
        LocalKafkaError: None were found.
    """
    for _ in range(_ATTEMPTS):
        first = _CHANCE.randrange(_FIRST, _LAST - count)
        ports = list(range(first, first + count))
        if all(map(_is_free, ports)):
            return ports
    raise LocalKafkaError(f"no {count} consecutive free ports between {_FIRST} and {_LAST}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
