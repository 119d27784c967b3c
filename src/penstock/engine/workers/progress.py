"""What a worker has in hand: a batch's number and a phase, in memory shared with its parent."""

from __future__ import annotations

import mmap
import tempfile
from struct import Struct
from typing import IO, Final

_STATE: Final = Struct("=QQ")

JUDGING, INTERCEPTING = 0, 1
"""Phases of a batch: each has its own deadline."""


class Progress:
    """The number of the batch that was begun last (0 before the first), and its phase."""

    def __init__(self, descriptor: int) -> None:
        """Share the memory behind a file's descriptor."""
        self._memory = mmap.mmap(descriptor, _STATE.size)

    def begin(self, job: int, phase: int = JUDGING) -> None:
        """Say that a batch, or its next phase, is begun."""
        _STATE.pack_into(self._memory, 0, job, phase)

    @property
    def state(self) -> tuple[int, int]:
        """The batch that was begun last, and its phase."""
        job, phase = _STATE.unpack_from(self._memory)
        return job, phase


def shared_file() -> IO[bytes]:
    """Make a file without a name for a `Progress`."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.truncate(_STATE.size)
    return file
