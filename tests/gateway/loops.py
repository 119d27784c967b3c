"""A session in a loop, and the answers to many requests for coordinators."""

from collections import deque
from dataclasses import dataclass, field

from kio.static.primitive import i8

from penstock.gateway.context.turns import Turns
from penstock.kafka.wire.schemas import load_request_schema
from tests.gateway.sessions.talk import Talk
from tests.raw import request_frame


class Places:
    """The addresses of a gateway."""

    def for_clients(self, node: int, host: str, port: int) -> tuple[str, int]:
        return "gateway", 100 + node

    learn_for_clients = for_clients


@dataclass
class Loop(Talk):
    """A session on an event loop whose turns the test runs."""

    addresses = Places()
    calls: deque = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.turns = Turns(self.calls.append)
        super().__post_init__()

    def turn(self) -> None:
        self.calls.popleft()()


def find_coordinators(number: int) -> bytes:
    return request_frame(
        load_request_schema(10, 4)(key_type=i8(0), coordinator_keys=("k",)), number
    )


def numbered(frame: bytes, number: int) -> bytes:
    return frame[:4] + number.to_bytes(4, "big") + frame[8:]
