"""Three brokers for jobs that must write each record once, and what happens to the brokers."""

import random
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from penstock.kafka.local import LocalKafka
from tests.chaos.leaders import move_leaders

REPLICATED = {
    "default.replication.factor": "3", "min.insync.replicas": "2",
    "transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2",
    "offsets.topic.replication.factor": "3",
}  # fmt: skip


def replicated_brokers(folder: Path) -> LocalKafka:
    """Return three brokers, not started, whose topics survive the loss of a broker."""
    return LocalKafka(nodes=3, properties=REPLICATED, folder=folder)


class Disturbances:
    """Moves leaders, and kills and stops brokers, one at a time, until it is left."""

    def __init__(
        self,
        brokers: LocalKafka,
        topics: Iterable[str],
        chance: random.Random,
        every_s: tuple[float, float] = (1, 3),
    ) -> None:
        self._brokers, self._topics, self._every_s = brokers, list(topics), every_s
        self._chance, self._ended = chance, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._chance.uniform(*self._every_s)):
            self._chance.choice((self._move, self._restart))()
            self.count += 1

    def _move(self) -> None:
        move_leaders(self._brokers.bootstrap_servers, self._topics, self._chance)

    def _restart(self) -> None:
        node = self._chance.choice(self._brokers.nodes)
        self._chance.choice((node.kill, node.stop))()
        self._ended.wait(self._chance.uniform(0.2, 2))
        node.start()
        self._brokers.wait_ready()
