"""Sends inputs to a gateway in sequence."""

import collections
import socket

from tests.gateways import RunningGateway
from tests.hostile.greedy import place

RESPONSE_S = 2.0


class Attack:
    """Sends inputs over a few connections, and counts the results."""

    def __init__(self, address: str, answer_s: float = RESPONSE_S) -> None:
        self._place = place(address)
        self._answer_s = answer_s
        self.results: collections.Counter[str] = collections.Counter()

    def send(self, data: bytes) -> str:
        """Send an input over a new connection; return the result."""
        with socket.create_connection(self._place, self._answer_s) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                result = "answered" if connection.recv(65536) else "closed"
            except TimeoutError:
                result = "nothing"
            except OSError:  # reset, perhaps before it could be shut down
                result = "closed"
        self.results[result] += 1
        return result


def unexpected(running: RunningGateway) -> list[dict]:
    """Return the log lines that no input may cause."""
    return [
        event
        for event in list(running.log)
        if "exception" in event
        or event.get("level") == "not JSON"
        or "error of the gateway" in str(event.get("event"))
    ]


def codes(value: object) -> object:
    """Return the error codes of a response, in its structure."""
    if isinstance(value, tuple):
        return [codes(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        found = {name: codes(getattr(value, name)) for name in value.__dataclass_fields__}
        return {name: code for name, code in found.items() if code not in ([], {}, None)}
    return int(value) if type(value).__name__ == "ErrorCode" else None
