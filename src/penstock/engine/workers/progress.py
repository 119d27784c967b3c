"""Which batch a worker has in hand: a number in memory that it shares with its parent."""

from __future__ import annotations

import mmap
import tempfile
from struct import Struct
from typing import IO, Final

_NUMBER: Final = Struct("=Q")


class Progress:
    """The number of the batch that was begun last; 0 before the first."""

    def __init__(self, descriptor: int) -> None:
        """Share the memory behind a file's descriptor."""
        self._memory = mmap.mmap(descriptor, _NUMBER.size)

    def begin(self, job: int) -> None:
        """Say that a batch is begun."""
        _NUMBER.pack_into(self._memory, 0, job)

    @property
    def job(self) -> int:
        """The batch that was begun last."""
        number: int = _NUMBER.unpack_from(self._memory)[0]
        return number


def shared_file() -> IO[bytes]:
    """Make a file without a name for a `Progress`."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.truncate(_NUMBER.size)
    return file
