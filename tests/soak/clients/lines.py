"""The common part of the programs in Python: arguments, printed lines, rate."""

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.soak.producer_reports import DEAD, ENDED
from tests.soak.producers import Producer
from tests.soak.records import text_of, with_schema
from tests.soak.topic_names import SCHEMAS

OVER: Final = threading.Event()
"""Set when the input ends: requests in flight are awaited, no further records are sent."""
BURST: Final = 10
"""Records that are sent at once, so that several batches are in flight."""
WINDOW: Final = 200
"""Records without a response: more records would time out in a client's queue."""
TRANSACTION: Final = 12
KEYS: Final = 10
DELIVERY_S: Final = 60
_NEXT_SCHEMA_S: Final = 5
_DEAD_S: Final = 0.5


@dataclass(frozen=True)
class Arguments:
    """The arguments of a program."""

    bootstrap: str
    rate: int
    schemas: int
    producers: tuple[Producer, ...]


def arguments(client: str) -> Arguments:
    """Read the command line."""
    bootstrap, rate, schemas, *rest = sys.argv[1:]
    made = []
    for argument in rest:
        name, kind, topic, mix = argument.split(",")
        made.append(Producer(name, client, kind, topic, mix))
    return Arguments(bootstrap, int(rate), int(schemas), tuple(made))


class Sender:
    """The numbers, printed lines and rate of a producer.

    Attributes:
        run: The number of times that it was created.
    """

    def __init__(self, producer: Producer, command_line: Arguments) -> None:
        self.producer = producer
        self.bootstrap = command_line.bootstrap
        self.run = 0
        self._numbers = itertools.count()
        self._rate = command_line.rate
        self._schemas = command_line.schemas
        self._began = time.monotonic()
        self._sent = 0

    def runs(self) -> Iterator[int]:
        """Count the runs until the soak is over."""
        while not OVER.is_set():
            self.run += 1
            yield self.run
            OVER.wait(_DEAD_S)

    def next(self) -> tuple[int, bytes, bytes]:
        """Return the next record: its number, key and value."""
        number = next(self._numbers)
        self._sent += 1
        name = self.producer.name
        text = text_of(self.producer.letter(number), name, self.run, number)
        value = text.encode()
        if self.producer.topic == SCHEMAS:
            new = int(time.time() / _NEXT_SCHEMA_S)  # ids that no worker has looked up yet
            value = with_schema(1 + new % self._schemas, text)
        return number, b"k%d" % (number % KEYS), value

    def ahead_s(self) -> float:
        """Return the time until the next records; a standstill is not caught up at once."""
        if self._sent % BURST:
            return 0.0
        now = time.monotonic()
        due = self._began + self._sent / self._rate
        self._began = max(self._began, now - self._sent / self._rate - 0.2)
        return max(0.0, due - now)

    def pace(self) -> None:
        """Wait until the next records are due."""
        time.sleep(self.ahead_s())

    def note(
        self, event: str, numbers: object = "", why: object = "", run: int | None = None
    ) -> None:
        """Print a line, in one piece; a late report may belong to an earlier run."""
        text = " ".join(str(why).split())[:200]
        fields = (
            self.producer.name,
            self.run if run is None else run,
            event,
            numbers,
            f"{time.time():.3f}",
            text,
        )
        sys.stdout.write("\t".join(map(str, fields)) + "\n")
        sys.stdout.flush()

    def dead(self, why: object) -> None:
        """Report that it is created again."""
        self.note(DEAD, "", why)

    def ended(self) -> None:
        """Report that it has ended by itself."""
        self.note(ENDED)


def run_in_threads(client: str, run: Callable[[Sender], None]) -> None:
    """Run every producer in its own thread until the input ends."""
    command_line = arguments(client)
    threads = [
        threading.Thread(target=run, args=(Sender(producer, command_line),), name=producer.name)
        for producer in command_line.producers
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    OVER.set()
    for thread in threads:
        thread.join()
