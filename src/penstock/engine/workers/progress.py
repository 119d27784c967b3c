"""Progress of a worker, in memory that it shares with its parent.

The worker writes which attempt it is at, and which topic it loads between two of them; the parent
which attempts are to be skipped. Each is one word, read and written atomically. The worker reads
which attempts to skip before it writes which it begins: it judges every attempt that it begins.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import IO, Final, NamedTuple

JUDGING, INTERCEPTING, DONE, PREPARING = 0, 1, 2, 3
"""Phases of an attempt. All but `DONE` have separate deadlines."""

_BYTES: Final = 24
_HAND, _SKIPPED, _LOADING = 0, 1, 2
_PHASE_BITS: Final = 2
_POSITION_BEYOND_END: Final = 2**20
"""Where a policy writes that writes to every descriptor it finds."""


class CurrentAttempt(NamedTuple):
    """Where a worker is.

    Attributes:
        attempt: The attempt that was begun last (0 before the first).
        topic_number: The number of the topic that it loads, after that attempt is done; 0 for none.
    """

    attempt: int
    phase: int
    topic_number: int = 0


class SharedProgress:
    """Three words of shared memory."""

    def __init__(self, descriptor: int) -> None:
        """Share the memory behind a file's descriptor."""
        self._words = memoryview(mmap.mmap(descriptor, _BYTES)).cast("Q")

    def begin(self, attempt: int, phase: int = JUDGING) -> None:
        """Write that an attempt, or its next phase, is begun."""
        self._words[_HAND] = attempt << _PHASE_BITS | phase

    def load(self, number: int) -> None:
        """Write that a topic is being loaded, with its number; 0 if none is."""
        self._words[_LOADING] = number

    @property
    def current(self) -> CurrentAttempt:
        """The attempt that was begun last, and the topic that is being loaded."""
        word, loading = self._words[_HAND], self._words[_LOADING]
        return CurrentAttempt(word >> _PHASE_BITS, word & (2**_PHASE_BITS - 1), loading)

    def skip(self, attempt: int) -> None:
        """Write that attempts up to this number are not to begin."""
        self._words[_SKIPPED] = attempt

    @property
    def skipped(self) -> int:
        """The last attempt that is not to be begun."""
        return self._words[_SKIPPED]


def shared_file() -> IO[bytes]:
    """Make a file without a name for a `SharedProgress`."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.truncate(_BYTES)
    os.lseek(file.fileno(), _POSITION_BEYOND_END, os.SEEK_SET)
    return file
