"""A folder of dead letters that is redriven: its files are replaced by those that remain.

Files appear in several folders, and others are removed. A journal in the folder has these steps: it
is written before the first, and after a kill the next run does the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.errors import UnavailableError
from penstock.stored.files.files import list_folder
from penstock.stored.rows.parquet_folders import HIDDEN, WrittenFile, sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_JOURNAL: Final = f"{HIDDEN}redrive.json"


class LetterFolder:
    """A folder of dead letters."""

    def __init__(self, name: str) -> None:
        """Take a folder.

        Args:
            name: Its path.

        Raises:
            ConfigurationError: There is no such folder.
        """
        self._name = name
        self.path = Path(os.path.realpath(name))
        if not self.path.is_dir():
            raise ConfigurationError(f"--from path:{name}: there is no such folder")

    def files(self) -> list[Path]:
        """Return the files to read.

        Raises:
            ConfigurationError: There are none, or a folder cannot be read.
        """
        try:
            found = list_folder(self.path)
        except OSError as error:
            raise ConfigurationError(
                f"--from path:{self._name}: {error.filename} cannot be read: {error.strerror}"
            ) from None
        if not found:
            raise ConfigurationError(f"--from path:{self._name}: the folder has no files")
        return found

    def replace(self, read: Sequence[Path], written: Iterable[WrittenFile]) -> None:
        """Let files appear, and remove those that were read.

        Args:
            read: The files that were read, in the folder.
            written: The files to appear.

        Raises:
            UnavailableError: The file system fails. The next run does the rest.
        """
        steps = {
            "renamed": [[str(file.staged), str(file.path)] for file in written],
            "removed": [str(file.relative_to(self.path)) for file in read],
        }
        journal, unfinished = self.path / _JOURNAL, self.path / f"{_JOURNAL}.new"
        try:
            unfinished.write_text(json.dumps(steps))
            sync(unfinished)
            unfinished.rename(journal)
            sync(self.path)
        except OSError as error:
            raise self._failed(error) from None
        self.recover()

    def recover(self) -> None:
        """Do the rest of an interrupted run, if there is any.

        Raises:
            UnavailableError: The file system fails.
        """
        journal = self.path / _JOURNAL
        if not journal.exists():
            return
        try:
            steps = json.loads(journal.read_text())
            for staged, path in steps["renamed"]:
                if Path(staged).exists():
                    Path(staged).rename(path)
                sync(Path(path).parent)
            for name in steps["removed"]:
                self._remove(self.path / name)
            sync(self.path)
            journal.unlink()
        except OSError as error:
            raise self._failed(error) from None

    def _remove(self, file: Path) -> None:
        """Remove a file, its checksum, and folders that are empty then."""
        file.unlink(missing_ok=True)
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        for folder in file.parents:
            if folder == self.path:
                return
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _failed(self, error: OSError) -> UnavailableError:
        return UnavailableError(
            f"--from path:{self._name}: {error.filename} cannot be written: {error.strerror}; the "
            "next run does the rest"
        )
