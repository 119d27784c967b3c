"""Sends one input after the other to a gateway."""

import collections
import socket

from tests.gateways import RunningGateway
from tests.hostile.greedy import place

ANSWER_S = 2.0


class Attack:
    """Sends inputs over a few connections, and takes what comes."""

    def __init__(self, address: str) -> None:
        self._place = place(address)
        self.told: collections.Counter[str] = collections.Counter()

    def send(self, data: bytes) -> str:
        """Send one input over a connection of its own; tell what became of it."""
        with socket.create_connection(self._place, ANSWER_S) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                told = "answered" if connection.recv(65536) else "closed"
            except TimeoutError:
                told = "nothing"
            except OSError:  # reset, perhaps before it could be shut down
                told = "closed"
        self.told[told] += 1
        return told


def unexpected(running: RunningGateway) -> list[dict]:
    """What must not be in the log."""
    return [
        event
        for event in list(running.log)
        if "exception" in event
        or event.get("level") == "not JSON"
        or "error of the gateway" in str(event.get("event"))
    ]


def codes(value: object) -> object:
    """Give the error codes in an answer, as they stand in it."""
    if isinstance(value, tuple):
        return [codes(one) for one in value]
    if hasattr(value, "__dataclass_fields__"):
        found = {name: codes(getattr(value, name)) for name in value.__dataclass_fields__}
        return {name: one for name, one in found.items() if one not in ([], {}, None)}
    return int(value) if type(value).__name__ == "ErrorCode" else None
