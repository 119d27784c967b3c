"""What a JVM writes on standard error, without what every JVM with Spark writes there.

Its Python workers write there, too.
"""

from __future__ import annotations

import re
import sys
import threading
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NOISE: Final = re.compile(
    # Of the library that counts reasons.
    r"Warning: Java versions > Java 11 can only operate in restricted mode"
    r"|WARNING: ("
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
_TRACEBACK: Final = "Traceback (most recent call last):"
_NOT_CONNECTED: Final = re.compile(r"pyspark\.[\w.]+: \[CANNOT_OPEN_SOCKET\]")
"""The error of a worker that started so late that its JVM does not wait any more."""


def is_noise(line: str) -> bool:
    """Return whether Java prints this in every job of Spark."""
    return _NOISE.match(line) is not None


def without_noise(lines: Iterable[str]) -> Iterator[str]:
    """Return the lines of a JVM without noise, and without failures that the JVM reports itself."""
    traceback: list[str] = []
    for line in lines:
        if traceback and line.startswith(" "):
            traceback.append(line)
            continue
        if not (traceback and _NOT_CONNECTED.match(line)):
            yield from traceback
            if not (line.startswith(_TRACEBACK) or is_noise(line)):
                yield line
        traceback = [line] if line.startswith(_TRACEBACK) else []
    yield from traceback


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
        for line in without_noise(data.decode("utf-8", "replace") for data in stream):
            # Looked up each time: who calls may replace it.
            sys.stderr.write(line)
            sys.stderr.flush()
