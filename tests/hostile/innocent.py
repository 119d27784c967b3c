"""A producer that does nothing wrong, beside those that do."""

import contextlib
import threading
import time

from tests.raw import RawClient, produce_request, produced
from tests.records.encoding import encode_batch, values

INNOCENT = "innocent"
BATCH = encode_batch(values(b"good"))
PROMPTLY_S = 1.0
"""Half of what a record waits at least that stands behind others' work, and more than a busy
machine takes."""


class Innocent:
    """While it is entered, sends one record after the other, and keeps how long each took.

    Attributes:
        seconds: How long the answers took.
        wrong: Error codes that it was told, and what else went wrong.
    """

    def __init__(self, address: str, topic: str, *, every_s: float = 0.02) -> None:
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
        """The time in which 99 of 100 answers came."""
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)]

    def _produce(self) -> None:
        with RawClient(self._address, timeout_s=30) as client:
            while not self._ended.wait(self._every_s):
                began = time.monotonic()
                try:
                    response = client.call(produce_request([(self._topic, [(0, BATCH)])]))
                except (OSError, EOFError) as error:
                    self.wrong.append(error)
                    return
                self.seconds.append(time.monotonic() - began)
                code = produced(response)[self._topic, 0].error_code
                if code:
                    self.wrong.append(code)


def is_served(address: str, topic: str, within_s: float = 5.0) -> bool:
    """Whether one record is stored, over a new connection, in so many seconds."""
    began = time.monotonic()
    with contextlib.suppress(OSError, EOFError), RawClient(address, timeout_s=10) as client:
        answer = produced(client.call(produce_request([(topic, [(0, BATCH)])])))
        return answer[topic, 0].error_code == 0 and time.monotonic() - began < within_s
    return False
