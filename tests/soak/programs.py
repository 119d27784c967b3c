"""Starts the programs of the clients, and ends them."""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.kafka.artifacts import cache_folder
from tests.go import go_program, has_go
from tests.java import program
from tests.soak.producer_reports import ProducerReport, read_reports
from tests.soak.producers import (
    AIOKAFKA,
    FRANZ_GO,
    JAVA,
    KAFKA_PYTHON,
    KAFKAJS,
    KCAT,
    LIBRDKAFKA,
    Producer,
    producers,
)
from tests.soak.stage import SCHEMA_COUNT

HERE: Final = Path(__file__).parent / "clients"
ROOT: Final = Path(__file__).parents[2]


class MissingError(Exception):
    """Clients that are missing on this machine; the text names their requirements."""


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", f"tests.soak.clients.{module}"]


def _java() -> list[str]:
    return program(HERE / "java" / "Soak.java")


def _franz_go() -> list[str]:
    if not has_go():
        raise MissingError("needs Go")
    return go_program("soak")


def _kafkajs() -> list[str]:
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise MissingError("needs Node.js and npm")
    folder = cache_folder() / "soak-js"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "js" / name, folder / name)
    if not (folder / "node_modules" / "kafkajs").exists():
        subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"],
            cwd=folder, check=True, timeout=300,
        )  # fmt: skip
    shutil.copy(HERE / "js" / "main.js", folder / "main.js")
    return ["node", str(folder / "main.js")]


def _kcat() -> list[str]:
    if shutil.which("kcat") is None:
        raise MissingError("needs kcat, which is a Debian package")
    return _python("kcat")


COMMANDS: Final[dict[str, Callable[[], list[str]]]] = {
    LIBRDKAFKA: lambda: _python("librdkafka"),
    JAVA: _java,
    FRANZ_GO: _franz_go,
    KAFKAJS: _kafkajs,
    KAFKA_PYTHON: lambda: _python("kafka_python"),
    AIOKAFKA: lambda: _python("aiokafka_"),
    KCAT: _kcat,
}


class Client:
    """A client's program with all its producers.

    Attributes:
        producers: Its producers.
    """

    def __init__(self, name: str, command: list[str], seed: int, logs: Path) -> None:
        self.name = name
        self.producers = producers(name, random.Random(f"{seed} {name}"))
        self._command = command
        self._output = logs / f"{name}.reports"
        self._errors = logs / f"{name}.err"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, bootstrap: str, rate: int) -> None:
        """Begin to send."""
        arguments = [bootstrap, str(rate), str(SCHEMA_COUNT), *(p.argument for p in self.producers)]
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [*self._command, *arguments], stdin=subprocess.PIPE, stdout=output, stderr=errors,
                cwd=ROOT, start_new_session=True,  # a terminal's Ctrl-C is for us
            )  # fmt: skip

    @property
    def ended(self) -> bool:
        """Whether the program has ended."""
        return self._process is None or self._process.poll() is not None

    def finish(self) -> None:
        """Let it send no further records, and wait for its last responses."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; return whether it ended."""
        if self._process is not None:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return False
        return True

    def kill(self) -> None:
        """Kill it, and its child processes."""
        if self._process is None:
            return
        self.finish()
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # its own session: kcat is in it
            self._process.wait(60)

    def reports(self) -> dict[Producer, ProducerReport]:
        """Return the reports of each producer."""
        with self._output.open(errors="replace") as lines:
            found = read_reports(lines, [producer.name for producer in self.producers])
        return {producer: found[producer.name] for producer in self.producers}

    def complaints(self) -> str:
        """Return the end of its standard error."""
        return self._errors.read_text(errors="replace")[-500:].strip()


def clients(names: Sequence[str], seed: int, logs: Path) -> list[Client]:
    """Prepare the clients.

    Raises:
        MissingError: Names all missing clients, with their requirements.
    """
    found, missing = [], []
    for name in names:
        try:
            found.append(Client(name, COMMANDS[name](), seed, logs))
        except MissingError as error:
            missing.append(f"{name} {error}")
    if missing:
        raise MissingError("; ".join(missing) + ": `--without` leaves clients out")
    return found
