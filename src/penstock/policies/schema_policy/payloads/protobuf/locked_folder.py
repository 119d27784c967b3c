"""Temporary folders that are removed soon, even if the process that made them is killed.

A worker may be killed at any time, and can remove nothing then. So each folder is locked by the
process that uses it (flock(2)), a lock that ends with the process; and who makes a folder first
removes those that nobody locks.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_open = os.open
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextmanager
def locked_folder(prefix: str) -> Iterator[Path]:
    """Make a folder, and remove it; before, remove those that others have left.

    Args:
        prefix: How the names of these folders begin, and no others.

    Raises:
        OSError: It cannot be made.
    """
    _remove_left(prefix)
    folder, descriptor = _made(prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _made(prefix: str) -> tuple[Path, int]:
    """Return a folder and the descriptor that locks it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        # Until it is locked another process may take it for an abandoned folder.
        try:
            descriptor = _open(folder, _FLAGS)
        except FileNotFoundError:
            continue
        if _is_locked_by(descriptor) and folder.exists():
            return folder, descriptor
        os.close(descriptor)


def _is_locked_by(descriptor: int) -> bool:
    """Lock a folder; return whether no other process has."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_left(prefix: str) -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        # It may be another user's, may be no folder, and may just be removed by another process.
        with suppress(OSError):
            descriptor = os.open(folder, _FLAGS)
            try:
                if os.fstat(descriptor).st_uid == os.getuid() and _is_locked_by(descriptor):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
