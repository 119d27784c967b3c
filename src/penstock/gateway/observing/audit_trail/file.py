"""`audit.file`: a line for each refusal, appended. Rotation is left to others (`logrotate`).

A file that was renamed or removed is opened again before the next line, as `WatchedFileHandler` of
Python's logging does it. An incomplete line is completed later, in this file, or written again
from its beginning in the next file.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.gateway.observing.audit_trail.trail import Settle

_PERMISSIONS: Final = 0o640
_WRITE_BYTES: Final = 2**20
_RETRY_S: Final = 1.0
# O_NONBLOCK is for special files: to open a pipe would wait for its reader.
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK


def check_file(path: Path, file: Path) -> None:
    """Check that a file can be opened for `AuditFile`; create and change nothing.

    Args:
        path: The file to append to, which may be missing.
        file: The configuration file, for errors.

    Raises:
        ConfigurationError: It cannot be opened, or is not a file.
    """
    try:
        if path.exists():
            opened = os.open(path, _FLAGS & ~os.O_CREAT)
            try:
                _regular(opened, path)
            finally:
                os.close(opened)
        else:
            _check_folder(path.resolve().parent)
    except OSError as error:
        raise _unusable(path, file, error) from None


class AuditFile:
    """Appends records to a file; a `penstock.gateway.observing.audit_trail.trail.Sink`."""

    def __init__(self, path: Path, file: Path) -> None:
        """Open the file.

        Args:
            path: The file to append to.
            file: The configuration file, for errors.

        Raises:
            ConfigurationError: It cannot be opened, or is not a file.
        """
        self.name = str(path)
        self._path = path
        self._waiting: deque[bytes] = deque()
        self._begun = 0
        self._retry_at = 0.0
        self._file = -1
        self._identity = (0, 0)
        try:
            self._open()
        except OSError as error:
            raise _unusable(path, file, error) from None

    def start(self, settle: Settle, warn: Callable[[str], None]) -> None:
        """Take the callbacks for records that are written, and for errors."""
        self._settle = settle
        self._warn = warn

    def take(self, records: Sequence[bytes]) -> None:
        """Take records over; they are written by `work`."""
        self._waiting.extend(record + b"\n" for record in records)

    def work(self) -> float | None:
        """Write the taken records; return after how many seconds to try again, if that fails."""
        if not self._waiting:
            return None
        left_s = self._retry_at - time.monotonic()
        if left_s > 0:
            return left_s
        try:
            self._follow()
            while self._waiting:
                self._write_some()
        except OSError as error:
            self._warn(error.strerror or str(error))
            self._retry_at = time.monotonic() + _RETRY_S
            return _RETRY_S
        return None

    def reopen(self) -> None:
        """Open the file again if it was renamed, also if nothing is to be written."""
        try:
            self._follow()
        except OSError as error:
            self._warn(error.strerror or str(error))

    def close(self) -> None:
        """Sync the written records to the disk, and close the file."""
        if self._file < 0:
            return
        # With any result of close(2), the number is free then, and may be another file's.
        file, self._file = self._file, -1
        for end in (os.fsync, os.close):
            try:
                end(file)
            except OSError as error:
                self._warn(error.strerror or str(error))

    def _follow(self) -> None:
        """Open the file again if another file, or none, has its name now."""
        try:
            status = self._path.stat()
            # After a failed open there is no file, even if another file has its number now.
            is_same = self._file >= 0 and (status.st_dev, status.st_ino) == self._identity
        except FileNotFoundError:
            is_same = False
        if not is_same:
            self.close()
            self._open()

    def _open(self) -> None:
        opened = os.open(self._path, _FLAGS, _PERMISSIONS)
        try:
            status = _regular(opened, self._path)
            if status.st_size and os.pread(opened, 1, status.st_size - 1) != b"\n":
                os.write(opened, b"\n")  # the previous line was not completed
        except BaseException:
            os.close(opened)
            raise
        self._file = opened
        self._identity = (status.st_dev, status.st_ino)
        self._begun = 0

    def _write_some(self) -> None:
        data = bytearray()
        for line in self._waiting:
            data += line
            if len(data) >= _WRITE_BYTES:
                break
        self._begun += os.write(self._file, memoryview(data)[self._begun :])
        records = []
        while self._waiting and self._begun >= len(self._waiting[0]):
            line = self._waiting.popleft()
            self._begun -= len(line)
            records.append(line[:-1])
        self._settle(records, is_written=True)


def _regular(opened: int, path: Path) -> os.stat_result:
    """Return the status of an open file; raise OSError if it is a pipe, for example."""
    status = os.fstat(opened)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{path} is not a file")
    return status


def _check_folder(folder: Path) -> None:
    """Raise OSError if a file cannot be created in a folder."""
    if not stat.S_ISDIR(folder.stat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _unusable(path: Path, file: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"{file}: audit.file: {path}: {error.strerror or error}; it must be a file, in "
        "an existing folder that the gateway can write to"
    )
