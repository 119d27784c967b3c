"""A well-behaved producer, next to attackers."""

import contextlib
import threading
import time

from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, produced

INNOCENT = "innocent"
BATCH = encode_batch(values(b"good"))
PROMPTLY_S = 1.0
"""Half of the least time that a record waits for the work of others, and more than a busy machine
needs."""


class Innocent:
    """A context in which records are sent in sequence, and their latencies recorded.

    Attributes:
        seconds: The times until the responses.
        wrong: Error codes of responses, and other failures.
    """

    def __init__(
        self,
        address: str,
        topic: str,
        *,
        every_s: float = 0.02,
        value_bytes: int = 0,
        trust: str = "",
    ) -> None:
        self._batch = encode_batch(values(bytes(value_bytes))) if value_bytes else BATCH
        self._trust = trust
        self._address = address
        self._topic = topic
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self.seconds: list[float] = []
        self.wrong: list[object] = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join(40)

    @property
    def p99_s(self) -> float:
        """The time in which 99 of 100 responses arrived."""
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)]

    def _produce(self) -> None:
        with RawClient(self._address, timeout_s=30, trust=self._trust) as client:
            while not self._ended.wait(self._every_s):
                began = time.monotonic()
                try:
                    response = client.call(produce_request([(self._topic, [(0, self._batch)])]))
                except (OSError, EOFError) as error:
                    self.wrong.append(error)
                    return
                self.seconds.append(time.monotonic() - began)
                code = produced(response)[self._topic, 0].error_code
                if code:
                    self.wrong.append(code)


def is_served(address: str, topic: str, within_s: float = 20.0) -> bool:
    """Return whether a record is stored over a new connection within the time."""
    began = time.monotonic()
    with contextlib.suppress(OSError, EOFError), RawClient(address, timeout_s=30) as client:
        answer = produced(client.call(produce_request([(topic, [(0, BATCH)])])))
        return answer[topic, 0].error_code == 0 and time.monotonic() - began < within_s
    return False
