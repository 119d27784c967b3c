"""A folder of dead letters that is redriven: its files are replaced by those that remain.

Files appear in several folders, and others are removed: those that were read, and only if all of
their records were written elsewhere. A journal in the folder has these steps: it is written before
the first, and after a kill the next run does the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.errors import UnavailableError
from penstock.jobs.files.listing import ListedFiles, distinct, list_folder, unreadable
from penstock.jobs.files.reading import count_records
from penstock.jobs.rows.parquet_folders import HIDDEN, WrittenFile, sync

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.jobs.rows.count_proof import CountProof

_JOURNAL: Final = f"{HIDDEN}redrive.json"
LETTERS: Final = "--from path:"
"""What errors about a folder of dead letters name before the path."""


class LetterFolder:
    """A folder of dead letters."""

    def __init__(self, name: str) -> None:
        """Take a folder.

        Raises:
            ConfigurationError: There is no such folder.
        """
        self._name = name
        self.path = Path(os.path.realpath(name))
        self._read: dict[Path, list[int]] = {}
        if not self.path.is_dir():
            raise ConfigurationError(f"{LETTERS}{name}: there is no such folder")

    def files(self) -> ListedFiles:
        """Return the files to read: those that `replace` removes.

        Raises:
            ConfigurationError: There are none, or they are not of one kind, or a folder cannot be
                read.
        """
        try:
            paths = list_folder(self.path)
            self._read = {file: _state(file) for file in paths}
            files = distinct(paths)
        except OSError as error:
            raise unreadable(f"{LETTERS}{self._name}: {error.filename}", error) from None
        if not files:
            raise ConfigurationError(f"{LETTERS}{self._name}: the folder has no files")
        return ListedFiles.of(self._name, files, LETTERS)

    def replace(
        self,
        new_files: Sequence[WrittenFile],
        elsewhere: int,
        proof: CountProof,
        on_proved: Callable[[], None],
    ) -> None:
        """Let files appear, and remove those that were read.

        Args:
            new_files: The files to appear.
            elsewhere: How many records were written to topics.
            proof: Compares both with the records of the files that were read.
            on_proved: Called before the first of the steps.

        Raises:
            UnavailableError: Records are missing, or a file is not what was read any more, and no
                file is removed; or the file system fails, and the next run does the rest.
        """
        proof.check(elsewhere + count_records(file.staged for file in new_files))
        for file, state in self._read.items():
            if not _is(file, state):
                raise UnavailableError(
                    f"{LETTERS}{self._name}: {file} was changed while it was read: no file is "
                    "removed; run the command again"
                )
        on_proved()
        steps = {
            "renamed": [[str(file.staged), str(file.path)] for file in new_files],
            "removed": [
                [str(file.relative_to(self.path)), state] for file, state in self._read.items()
            ],
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
            for name, state in steps["removed"]:
                self._remove(self.path / name, state)
            sync(self.path)
            journal.unlink()
        except OSError as error:
            raise self._failed(error) from None

    def _remove(self, file: Path, state: list[int]) -> None:
        """Remove a file that was read, its checksum, and folders that are empty then."""
        if not _is(file, state) and os.path.lexists(file) and not _is_broken_link(file):
            return  # another file of this name has arrived
        file.unlink(missing_ok=True)
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        for folder in file.parents:
            if folder == self.path:
                return
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _failed(self, error: OSError) -> UnavailableError:
        return UnavailableError(
            f"{LETTERS}{self._name}: {error.filename} cannot be written: {error.strerror}; the "
            "next run does the rest"
        )


def _state(file: Path) -> list[int]:
    """Return what differs between two files, and after a change of a file."""
    status = file.stat()
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _is(file: Path, state: list[int]) -> bool:
    try:
        return _state(file) == state
    except OSError:
        return False


def _is_broken_link(file: Path) -> bool:
    """Return whether a file is another name of one that was removed before it."""
    return file.is_symlink() and not file.exists()
