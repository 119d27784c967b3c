"""Clients and a gateway as on other machines: each in its own process.

Attackers do not use the processor time of the gateway, of the broker, or of a good producer: they
have their own. Here they share the processors with them, so they get the remaining time. In the
process of the test they would also hold Python's lock while a good producer waits for it.

Linux gives each session of processes the same share of the processors. A broker has its own session
(`LocalKafka`), and so have the gateway and good producers here. Otherwise a gateway gets a part
of the share of the test, or of the shell that started it.
"""

import multiprocessing
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event

from tests.gateways import START, wait_until
from tests.hostile.attack import Attack
from tests.hostile.attacks import Target
from tests.hostile.greedy import Connections
from tests.hostile.innocent import Innocent
from tests.hostile.inputs import Base, mutated

APART = [sys.executable, "-c", f"import os\nos.setsid()\n{START}"]
"""Starts a gateway in its own session."""
_SPAWN = multiprocessing.get_context("spawn")
_WAIT_S = 120.0
_LOWEST = 19
_WARM = 20
"""The number of records that are sent before the measured records."""


@contextmanager
def attackers(
    attacks: Sequence[Callable[[Connections, Target], None]],
    target: Target,
    inputs: Sequence[Base] = (),
) -> Iterator[None]:
    """A context in which clients attack, and send mutated inputs, if there are any."""
    has_begun, ended = _SPAWN.Event(), _SPAWN.Event()
    process = _SPAWN.Process(
        target=_attack, args=(attacks, target, inputs, has_begun, ended), daemon=True
    )
    process.start()
    try:
        assert has_begun.wait(_WAIT_S), "no attack has begun"
        yield
    finally:
        ended.set()
        process.join(_WAIT_S)
        process.kill()


def _attack(
    attacks: Sequence[Callable[[Connections, Target], None]],
    target: Target,
    inputs: Sequence[Base],
    has_begun: Event,
    ended: Event,
) -> None:
    os.nice(_LOWEST)
    attack, chance = Attack(target.address), random.Random(7)
    with Connections() as greedy:
        has_begun.set()
        for begin in attacks:
            begin(greedy, target)
        while inputs and not ended.is_set():
            attack.send(mutated(chance, inputs)[1])
        ended.wait()


class Producing:
    """A context in which a good producer sends records, and the times of the responses are recorded.

    Attributes:
        seconds: The times until the responses, set at the end.
        wrong: The failures, set at the end.
    """

    def __init__(self, address: str, topic: str, *, value_bytes: int = 0, trust: str = "") -> None:
        self.seconds: list[float] = []
        self.wrong: list[object] = []
        self._has_begun, self._ended = _SPAWN.Event(), _SPAWN.Event()
        self._results, sender = _SPAWN.Pipe(duplex=False)
        self._process = _SPAWN.Process(
            target=_produce,
            args=(address, topic, value_bytes, trust, self._has_begun, self._ended, sender),
            daemon=True,
        )

    def __enter__(self):
        self._process.start()
        assert self._has_begun.wait(_WAIT_S), "no record was stored"
        return self

    def __exit__(self, *_):
        self._ended.set()
        if self._results.poll(_WAIT_S):
            self.seconds, self.wrong = self._results.recv()
        else:
            self.wrong = ["no results"]
        self._process.join(_WAIT_S)
        self._process.kill()

    @property
    def p99_s(self) -> float:
        """The time in which 99 of 100 responses arrived."""
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)]


def _produce(
    address: str,
    topic: str,
    value_bytes: int,
    trust: str,
    has_begun: Event,
    ended: Event,
    results: Connection,
) -> None:
    os.setsid()
    with Innocent(address, topic, value_bytes=value_bytes, trust=trust) as innocent:
        wait_until(lambda: len(innocent.seconds) > _WARM)
        innocent.seconds.clear()
        has_begun.set()
        ended.wait()
    results.send((innocent.seconds, [repr(wrong) for wrong in innocent.wrong]))
