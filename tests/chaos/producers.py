"""Runs the producers of a round, each kind through Penstock and, as a control, without it."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.account import Told
from tests.java import program

HERE = Path(__file__).parent
RATE = 150
LAST_ANSWERS_S = 130.0


@dataclass(frozen=True)
class Producer:
    """One of them."""

    client: str
    kind: str
    through_penstock: bool
    topic: str

    @property
    def name(self) -> str:
        """What it does, and where."""
        return f"{self.client} {self.kind} {'through Penstock' if self.through_penstock else 'control'}"

    @property
    def isolation(self) -> str:
        """How its topic is read."""
        return "read_committed" if self.kind == "transactional" else "read_uncommitted"


def kinds(prefix: str) -> list[Producer]:
    """Give one of each kind, with topics that begin with a prefix."""
    return [
        Producer(client, kind, through, f"{prefix}-{client}-{kind}-{'p' if through else 'c'}")
        for client in ("librdkafka", "Java")
        for kind in ("idempotent", "transactional")
        for through in (True, False)
    ]


class Running:
    """All producers of one client, in one process, which ends when it is told to."""

    def __init__(self, command: list[str], producers: Sequence[Producer],
                 bootstraps: Mapping[bool, str], log: Path) -> None:  # fmt: skip
        self._told = {str(number): Told() for number in range(len(producers))}
        self.producers = producers
        arguments = [
            f"{number},{producer.kind},{bootstraps[producer.through_penstock]},{producer.topic}"
            for number, producer in enumerate(producers)
        ]
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, str(RATE), *arguments], stdin=subprocess.PIPE, stdout=output,
                stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def has_begun(self) -> bool:
        """Whether each has been told something."""
        assert self._process.poll() is None, self._log.read_text(errors="replace")[-2000:]
        lines = self._log.read_text(errors="replace").splitlines()
        return {line.split("\t", 1)[0] for line in lines} >= set(self._told)

    def finish(self) -> None:
        """Have them send no more."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def told(self) -> dict[Producer, Told]:
        """Wait for their end; give what each was told."""
        try:
            self._process.wait(LAST_ANSWERS_S)
        except subprocess.TimeoutExpired:
            self.kill()
        for line in self._log.read_text(errors="replace").splitlines():
            fields = line.split("\t", 4)
            if fields[0] in self._told and len(fields) == 5:
                self._told[fields[0]].note(*fields[1:])
        return dict(zip(self.producers, self._told.values(), strict=True))

    def kill(self) -> None:
        """End the process, if it has not ended."""
        self.finish()
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)


def start(
    producers: Sequence[Producer], bootstraps: Mapping[bool, str], logs: Path
) -> list[Running]:
    """Start them: one process for each client."""
    commands = {
        "librdkafka": [sys.executable, str(HERE / "many_producers.py")],
        "Java": program(HERE / "java" / "ManyProducers.java", log_level="warn"),
    }
    return [
        Running(command, [p for p in producers if p.client == client], bootstraps,
                logs / f"{client}.log")
        for client, command in commands.items()
    ]  # fmt: skip
