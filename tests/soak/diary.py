"""The events of a soak with their times: on the terminal, and in a file of the evidence."""

import sys
import threading
import time
from pathlib import Path


class Diary:
    """Lines with the time since the beginning.

    Attributes:
        done: The number of faults of each kind.
        findings: The findings of the threads that cause faults.
    """

    def __init__(self, file: Path) -> None:
        self._file = file.open("a")
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self.done: dict[str, int] = {}
        self.findings: list[str] = []

    def begin(self) -> None:
        """Count time from now on."""
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Return the time since the start."""
        return time.monotonic() - self._began

    def log(self, text: str) -> None:
        """Write a line with the time."""
        minutes, seconds = divmod(self.seconds, 60)
        line = f"{int(minutes):02d}:{seconds:04.1f}  {text}\n"
        with self._lock:
            self._file.write(f"{time.time():.3f} {line}")
            self._file.flush()
            sys.stdout.write(line)
            sys.stdout.flush()

    def count(self, kind: str) -> None:
        """Count a fault."""
        with self._lock:
            self.done[kind] = self.done.get(kind, 0) + 1

    def find(self, text: str) -> None:
        """Record a finding."""
        with self._lock:
            self.findings.append(text)
        self.log(f"FOUND: {text}")
