"""Folders of Parquet files on this machine: files appear in them when they are complete.

A file is written to a hidden folder in its folder, so on the same file system, and renamed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from penstock.configuration import ConfigurationError
from penstock.errors import UnavailableError

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow.parquet as pq

    from penstock.jobs.rows.records import RecordRow

_URL: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
HIDDEN: Final = ".penstock-"
"""The start of the names of hidden files and folders."""
_ROWS_MAX: Final = 50_000
_BYTES_MAX: Final = 32 * 2**20


class WrittenFile(NamedTuple):
    """A complete file that has not appeared yet.

    Attributes:
        staged: Where it is.
        path: Where it is to appear.
    """

    staged: Path
    path: Path


class TargetFolder:
    """A folder in which complete files appear; a context manager, which removes the others.

    Attributes:
        path: The folder, without links.
        staged: The hidden folder in it for files that are not complete.
    """

    def __init__(self, name: str, *, job: str, is_new: bool = False) -> None:
        """Take a folder; nothing is written.

        Args:
            job: What writes to it. After a kill, only the same job removes its hidden files.
            is_new: Whether it has to be empty or missing.

        Raises:
            ConfigurationError: It is a file or a table, or has files.
        """
        self.path = Path(os.path.realpath(name))
        self._name = name
        self._is_new = is_new
        self.staged = self.path / f"{HIDDEN}{hashlib.sha256(job.encode()).hexdigest()[:16]}"
        self._kept = True
        if self.path.exists() and not self.path.is_dir():
            raise ConfigurationError(f"path:{name} is a file; name a folder")
        self._check()

    def _check(self) -> None:
        if (self.path / "_delta_log").exists():
            raise ConfigurationError(f"path:{self._name} is a Delta table: leave out --local")
        if any(self.path.glob("metadata/*.metadata.json")):
            raise ConfigurationError(f"path:{self._name} is an Iceberg table: leave out --local")
        if not self._is_new or not self.path.is_dir():
            return
        if any(not entry.name.startswith(HIDDEN) for entry in self.path.iterdir()):
            raise ConfigurationError(
                f"{self._name} holds files already; name a new folder, or remove it"
            )

    def __enter__(self) -> Self:
        """Keep other runs from writing to it.

        Raises:
            ConfigurationError: It cannot be written, or has files.
            UnavailableError: Another run writes to it.
        """
        with contextlib.ExitStack() as stack:
            try:
                if not self.path.exists():
                    self.path.mkdir(parents=True)
                    stack.callback(self._remove_empty)
                stack.callback(os.close, self._lock())
                self._check()
            except OSError as error:
                raise self._not_writable(error) from None
            stack.callback(self._clean)
            self._stack = stack.pop_all()
        return self

    def begin(self) -> None:
        """Begin to write.

        Raises:
            ConfigurationError: It cannot be written.
        """
        try:
            shutil.rmtree(self.staged, ignore_errors=True)
            self.staged.mkdir()
        except OSError as error:
            raise self._not_writable(error) from None
        self._kept = False

    def take(self, file: Path) -> WrittenFile:
        """Return a complete file that is to appear, after it has moved here, and is on the disk.

        Args:
            file: The file; perhaps on another disk.

        Raises:
            UnavailableError: The file system fails.
        """
        staged = self.staged / file.name
        try:
            if file != staged:
                shutil.move(file, staged)
            sync(staged)
            sync(self.staged)
        except OSError as error:
            raise self._failed(error) from None
        return WrittenFile(staged, self.path / file.name)

    def take_empty(self) -> WrittenFile:
        """Return a file without records that is to appear; raises as `take`."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - not installed with Penstock

        from penstock.jobs.rows.arrow import SCHEMA  # noqa: PLC0415

        file = self.staged / new_name()
        try:
            pq.write_table(SCHEMA.empty_table(), file)
        except OSError as error:
            raise self._failed(error) from None
        return self.take(file)

    def _not_writable(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(
            f"path:{self._name}: {error.filename or self.path} cannot be written: "
            f"{error.strerror or error}"
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _lock(self) -> int:
        opened = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(opened)
            raise UnavailableError(
                f"path:{self._name}: another run writes to the folder; wait for its end"
            ) from None
        except OSError:
            pass  # its file system has no locks
        return opened

    def _remove_empty(self) -> None:
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def _clean(self) -> None:
        if not self._kept:
            shutil.rmtree(self.staged, ignore_errors=True)

    def keep(self) -> None:
        """Leave files where they are, also after an error: a journal has them."""
        self._kept = True

    def done(self) -> None:
        """Remove the hidden folder, after its files have appeared."""
        self._kept = False
        (self.path / "_SUCCESS").touch()

    def _failed(self, error: OSError) -> UnavailableError:
        return UnavailableError(
            f"path:{self._name}: cannot be written: {error.strerror or 'the file system fails'}"
        )


class ParquetFolder(TargetFolder):
    """A folder that rows are written to."""

    def __init__(self, name: str, *, job: str, is_new: bool = False) -> None:
        """Take a folder; nothing is written.

        Args:
            job: As for `TargetFolder`.
            is_new: As for `TargetFolder`.

        Raises:
            ConfigurationError: It is a URL, a file, or a table, has files, or pyarrow is not
                installed.
        """
        if _URL.match(name):
            raise ConfigurationError(
                f"path:{name} needs Spark: leave out --local; without Spark, name a folder of this "
                "machine"
            )
        try:
            import pyarrow  # noqa: F401, ICN001, PLC0415 - not installed with Penstock
        except ImportError:
            raise ConfigurationError(
                f"path:{name}: Parquet needs pyarrow: pip install pyarrow"
            ) from None
        super().__init__(name, job=job, is_new=is_new)
        self._file = self.staged / new_name()
        self._rows: list[RecordRow] = []
        self._bytes = 0
        self._writer: pq.ParquetWriter | None = None

    def begin(self) -> None:
        """Begin to write; raises as in `TargetFolder`."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - not installed with Penstock

        from penstock.jobs.rows.arrow import SCHEMA  # noqa: PLC0415

        super().begin()
        try:
            self._writer = pq.ParquetWriter(self._file, SCHEMA)
        except OSError as error:
            raise self._not_writable(error) from None

    def _clean(self) -> None:
        if self._writer is not None:
            with contextlib.suppress(OSError):
                self._writer.close()
            self._writer = None
        super()._clean()

    def add(self, row: RecordRow) -> None:
        """Write a row.

        Raises:
            UnavailableError: The file system fails.
        """
        self._rows.append(row)
        self._bytes += row.size
        if len(self._rows) >= _ROWS_MAX or self._bytes >= _BYTES_MAX:
            self._write()

    def finish(self) -> WrittenFile:
        """Write the rest; return the file, which is on the disk, and has not appeared yet.

        Raises:
            UnavailableError: The file system fails.
        """
        self._write()
        assert self._writer is not None
        try:
            self._writer.close()
            self._writer = None
        except OSError as error:
            raise self._failed(error) from None
        return self.take(self._file)

    def _write(self) -> None:
        from penstock.jobs.rows.arrow import batch_of  # noqa: PLC0415 - it imports pyarrow

        rows, self._rows, self._bytes = self._rows, [], 0
        if not rows:
            return
        assert self._writer is not None
        batch = batch_of(rows)
        try:
            self._writer.write_batch(batch)
        except OSError as error:
            raise self._failed(error) from None


def new_name() -> str:
    """Return the name of a file that no other file has."""
    return f"part-00000-{uuid.uuid4()}.snappy.parquet"


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk.

    Args:
        path: The file or the folder.

    Raises:
        OSError: The file system fails.
    """
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
