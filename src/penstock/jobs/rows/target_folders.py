"""The folders of this machine that a job writes to, all together."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from penstock.jobs.files.reading import count_records
from penstock.jobs.rows.parquet_folders import TargetFolder, sync

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from penstock.jobs.rows.count_proof import CountProof
    from penstock.jobs.rows.letter_folder import LetterFolder
    from penstock.jobs.rows.parquet_folders import WrittenFile

Folder = TypeVar("Folder", bound=TargetFolder)


class TargetFolders(Generic[Folder]):
    """Folders that complete files appear in; a context manager, in which no other run writes."""

    def __init__(
        self, folders: Mapping[str, Folder], *, replaced: LetterFolder | None = None
    ) -> None:
        """Prepare; nothing is written.

        Args:
            folders: By the name of the sink.
            replaced: The folder that the records are from, if its files are removed.
        """
        self.by_sink = folders
        self._replaced = replaced

    def __enter__(self) -> Self:
        """Finish an interrupted run, and begin to write.

        Raises:
            ConfigurationError: A folder cannot be written, or has files.
            UnavailableError: Another run writes to a folder, or the file system fails.
        """
        with contextlib.ExitStack() as stack:
            for folder in self.by_sink.values():
                stack.enter_context(folder)
            if self._replaced is not None:
                self._replaced.recover()
            for folder in self.by_sink.values():
                folder.begin()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def appear(
        self, files: Sequence[WrittenFile], elsewhere: int, proof: CountProof | None
    ) -> None:
        """Let complete files appear, and remove those that were read, if they are replaced.

        Args:
            elsewhere: How many records were written to topics.
            proof: Compares both with what was read from files; None if that is from topics.

        Raises:
            UnavailableError: Records are missing, and nothing appears or is removed; or the file
                system fails.
        """
        if self._replaced is not None and proof is not None:
            self._replaced.replace(files, elsewhere, proof, self._keep)
        else:
            if proof is not None:
                proof.check(elsewhere + count_records(file.staged for file in files))
            for file in files:
                file.staged.rename(file.path)
                sync(file.path.parent)
        for folder in self.by_sink.values():
            folder.done()

    def _keep(self) -> None:
        for folder in self.by_sink.values():
            folder.keep()
