"""Logs that Kafka's own code compacts."""

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.policy import Record
from tests.java import program

BASE = 2**33


def java(lines: Iterable[str]) -> list[str]:
    """What `JavaLog` prints for each line."""
    done = subprocess.run(
        program(Path(__file__).with_name("JavaLog.java")),
        input="".join(f"{line}\n" for line in lines),
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def compactable(records: Iterable[Record]) -> Iterator[Record]:
    """The records, some of which compaction removes; tombstones among the others."""
    for at, record in enumerate(records):
        key = b"d" if at % 3 == 1 else b"k%d" % at
        yield record._replace(key=key, value=None if at == 0 else record.value)
