"""Programs in Java that users run: Streams, Connect, MirrorMaker, log4j2 and Flink.

`python -m tests.interop.programs` downloads them, and the log shippers in other languages;
`make interop` does so first.
"""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from penstock.kafka.artifacts import class_path
from tests.go import go_program
from tests.interop import syslog_ng
from tests.java import program

_JAVA: Final = Path(__file__).parent / "java"
_LOG: Final = "+org.slf4j:slf4j-simple:1.7.36"
_STOP_S: Final = 60


class Programs(StrEnum):
    """The programs: their artifacts, as `class_path` takes them."""

    STREAMS = f"org.apache.kafka:kafka-streams:4.4.0{_LOG}"
    CONNECT = f"org.apache.kafka:connect-runtime:4.4.0{_LOG}"
    MIRROR_MAKER = f"org.apache.kafka:connect-mirror:4.3.1{_LOG}"
    LOG4J = "org.apache.logging.log4j:log4j-core:2.25.5+org.apache.kafka:kafka-clients:4.4.0"
    FLINK = (
        "org.apache.flink:flink-connector-kafka:5.0.0-2.1"
        "+org.apache.flink:flink-streaming-java:2.1.0+org.apache.flink:flink-clients:2.1.0"
        f"+org.apache.flink:flink-connector-base:2.1.0{_LOG}"
    )

    def command(self, source: str, *, log_level: str = "off") -> list[str]:
        """Return the command line of a program in `java/` that runs with these artifacts."""
        classes = f"{class_path(self)}{os.pathsep}{_JAVA}"  # META-INF names connectors
        return program(_JAVA / source, log_level=log_level, classes=classes)


class Running:
    """A program that runs.

    Attributes:
        lines: The lines that it has printed, as columns.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.lines: list[list[str]] = []

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def tell(self, line: str = "") -> None:
        """Give it a line of input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def read(self) -> None:
        """Read what it prints, to its end."""
        assert self._process.stdout is not None
        self.lines.extend(line.rstrip("\n").split("\t") for line in self._process.stdout)


@contextlib.contextmanager
def running(command: Sequence[str], errors: Path | None = None) -> Iterator[Running]:
    """Run a program that ends with its input.

    Args:
        command: Its command line.
        errors: The file for its log; by default the log of the tests.
    """
    with contextlib.ExitStack() as files:
        log: Any = files.enter_context(errors.open("wb")) if errors else None
        process = files.enter_context(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        )
        found = Running(process)
        reader = threading.Thread(target=found.read)
        reader.start()
        try:
            yield found
        finally:
            _end(process)
            reader.join(_STOP_S)


def _end(process: subprocess.Popen[str]) -> None:
    """Close its input; kill it if it does not end."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()


def main() -> None:
    """Fetch all programs."""

    def report(line: str) -> None:
        print(line, file=sys.stderr)

    for wanted in Programs:
        class_path(wanted, report=report)
    go_program("collector", ".", module="collector")
    try:
        syslog_ng.fetch()
    except syslog_ng.UnavailableError as error:
        report(f"syslog-ng is not tested: {error}")


if __name__ == "__main__":
    main()
