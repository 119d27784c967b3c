"""Runs the producers of a round, each kind through Penstock and, as a control, without it."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.account import DeliveryReports
from tests.chaos.modes import ENFORCE, MARK, QUARANTINE
from tests.chaos.world import Way
from tests.go import go_program, has_go
from tests.java import program

HERE = Path(__file__).parent
RATE = 150
HANGS_AFTER_S = 300.0
"""A producer without output for this time hangs. A busy machine is slow, but has output."""


@dataclass(frozen=True)
class Producer:
    """A producer of a round.

    Attributes:
        client: The client library.
        kind: Idempotent or transactional.
        way: The way of its records to the brokers.
        topic: Its topic.
        mode: The mode of its topic; empty if interceptors drop records.
    """

    client: str
    kind: str
    way: Way
    topic: str
    mode: str = ""

    @property
    def through_penstock(self) -> bool:
        """Whether its records pass through a gateway."""
        return self.way is not Way.DIRECT

    @property
    def name(self) -> str:
        """Its kind and its topic's mode."""
        return " ".join(filter(None, (self.client, self.kind, self.way.value, self.mode)))

    @property
    def isolation(self) -> str:
        """The isolation level with which its topic is read."""
        return "read_committed" if self.kind == "transactional" else "read_uncommitted"


def kinds(prefix: str) -> list[Producer]:
    """Return a producer of each kind, with topics that begin with a prefix."""
    clients = ("librdkafka", "Java", *(["franz-go"] if has_go() else []))
    intercepted = [
        Producer(client, kind, way, f"{prefix}-{client}-{kind}-{way.name}")
        for client in clients
        for kind in ("idempotent", "transactional")
        for way in Way
        if way is not Way.ALONE or client == "librdkafka"
    ]
    # Transactional batches with bad records are refused in quarantine.
    return intercepted + [
        Producer(client, kind, way, f"{prefix}-{client}-{kind}-{way.name}-{mode}", mode)
        for client in clients
        for kind, way, mode in (
            ("idempotent", Way.GATEWAYS, QUARANTINE),
            ("idempotent", Way.ALONE, QUARANTINE),
            ("idempotent", Way.GATEWAYS, MARK),
            ("transactional", Way.GATEWAYS, MARK),
            ("idempotent", Way.GATEWAYS, ENFORCE),
            ("transactional", Way.GATEWAYS, ENFORCE),
        )
        if client == "librdkafka" or (kind, way) == ("idempotent", Way.GATEWAYS)
    ]


class Running:
    """All producers of a client library, in a process that ends when its input ends."""

    def __init__(self, command: list[str], producers: Sequence[Producer],
                 bootstraps: Mapping[Way, str], log: Path, rate: int = RATE) -> None:  # fmt: skip
        self._deliveries = {str(number): DeliveryReports() for number in range(len(producers))}
        self.producers = producers
        arguments = [
            f"{number},{producer.kind},{bootstraps[producer.way]},{producer.topic}"
            for number, producer in enumerate(producers)
        ]
        self._log, self._errors = log, log.with_suffix(".errors")
        # librdkafka polls without a pause where a connection is full: it would keep the gateways
        # and the brokers that it waits for from the processor.
        polite = ["nice", "-n", "10", *command]
        with log.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [*polite, str(rate), *arguments], stdin=subprocess.PIPE, stdout=output,
                stderr=errors,
            )  # fmt: skip

    @property
    def has_begun(self) -> bool:
        """Return whether each producer has a delivery report."""
        assert self._process.poll() is None, self._errors.read_text(errors="replace")[-2000:]
        lines = self._log.read_text(errors="replace").splitlines()
        return {line.split("\t", 1)[0] for line in lines} >= set(self._deliveries)

    def finish(self) -> None:
        """Let the producers send no further records."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def deliveries(self) -> dict[Producer, DeliveryReports]:
        """Wait for their end; return the delivery reports of each."""
        return dict(zip(self.producers, self.deliveries_in_order(), strict=True))

    def deliveries_in_order(self) -> list[DeliveryReports]:
        """Wait for their end; return the delivery reports of each, in order."""
        self._wait_while_it_writes()
        self.kill()
        for line in self._log.read_text(errors="replace").splitlines():
            fields = line.split("\t", 4)
            if fields[0] in self._deliveries and len(fields) == 5:
                self._deliveries[fields[0]].note(*fields[1:])
        return list(self._deliveries.values())

    def _wait_while_it_writes(self) -> None:
        written_bytes, since = -1, 0.0
        while self._process.poll() is None:
            now, size = time.monotonic(), self._log.stat().st_size
            if size != written_bytes:
                written_bytes, since = size, now
            elif now - since > HANGS_AFTER_S:
                return
            time.sleep(0.1)

    def kill(self) -> None:
        """End the process, if it has not ended."""
        self.finish()
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(60)


def start(
    producers: Sequence[Producer], bootstraps: Mapping[Way, str], logs: Path
) -> list[Running]:
    """Start producers: a process for each client library."""
    commands = {
        "librdkafka": [sys.executable, str(HERE / "many_producers.py")],
        "Java": program(HERE / "java" / "ManyProducers.java", log_level="warn"),
        **({"franz-go": go_program("chaos")} if has_go() else {}),
    }
    return [
        Running(command, [p for p in producers if p.client == client], bootstraps,
                logs / f"{client}.log")
        for client, command in commands.items()
    ]  # fmt: skip
