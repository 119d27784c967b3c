"""Kafka Streams, in the version of the Kafka under test.

`python -m tests.interop.streams` downloads it; `make interop` does so first.
"""

import sys
from pathlib import Path
from typing import Final

from penstock.artifacts import class_path
from tests.java import program

_COORDINATES: Final = "org.apache.kafka:kafka-streams:4.3.1"
_SOURCE: Final = Path(__file__).parent / "java" / "Streams.java"


def streams(source: Path = _SOURCE) -> list[str]:
    """Return the command line of a program with a topology."""
    return program(source, libraries=class_path(_COORDINATES))


if __name__ == "__main__":
    class_path(_COORDINATES, report=lambda line: print(line, file=sys.stderr))
