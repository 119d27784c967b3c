"""What a JVM writes on standard error, without what every JVM with Spark writes there."""

from __future__ import annotations

import re
import sys
import threading
from typing import IO, Final

_NOISE: Final = re.compile(
    r"WARNING: ("
    r"Using incubator modules: "
    # From Java 24 on, about Spark's own libraries.
    r"|A terminally deprecated method in sun\.misc\.Unsafe "
    r"|sun\.misc\.Unsafe::"
    r"|Please consider reporting this to the maintainers of "
    r"|A restricted method in java\.lang\.System has been called"
    r"|java\.lang\.System::load"
    r"|Use --enable-native-access="
    r"|Restricted methods will be blocked in a future release"
    r"|package sun\.security\.action not in java\.base"
    r")"
)


def is_noise(line: str) -> bool:
    """Return whether Java prints this in every job of Spark."""
    return _NOISE.match(line) is not None


def forward(stream: IO[bytes]) -> threading.Thread:
    """Write the lines of a stream on standard error, but for noise, until its end.

    Returns:
        The thread that does it.
    """
    thread = threading.Thread(target=_forward, args=(stream,), name="jvm output", daemon=True)
    thread.start()
    return thread


def _forward(stream: IO[bytes]) -> None:
    with stream:
        for data in stream:
            line = data.decode("utf-8", "replace")
            if not is_noise(line):
                # Looked up each time: who calls may replace it.
                sys.stderr.write(line)
                sys.stderr.flush()
