"""The topics and folders that rows are written to, by the name of the sink."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self

from penstock.stored.rows.parquet_folders import ParquetFolder, sync
from penstock.stored.rows.topic_rows import TopicSink

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from penstock.batch_jobs.targets import Target
    from penstock.client.connections.connection import Connection
    from penstock.stored.rows.letter_folder import LetterFolder
    from penstock.stored.rows.record_rows import RecordRow


class RowSinks:
    """Writes each row to its sink; a context manager, in which no other run writes to folders."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        targets: Mapping[str, Target],
        folders: Mapping[str, str],
        *,
        job: str,
        are_new: bool,
        letters: Collection[str] = (),
        replaced: LetterFolder | None = None,
    ) -> None:
        """Prepare; nothing is written.

        Args:
            connect: Returns a connection to the cluster of the topics.
            targets: Topics by the name of the sink.
            folders: The paths of folders by the name of the sink.
            job: What writes to folders; see `ParquetFolder`.
            are_new: Whether folders have to be empty or missing.
            letters: Sinks of dead letters, which get the current time in topics.
            replaced: The folder that the rows are from, if its files are removed.

        Raises:
            ConfigurationError: A folder cannot be written without Spark, or has files.
        """
        self._connect = connect
        self._targets = targets
        self._folders = {
            sink: ParquetFolder(name, job=job, is_new=are_new) for sink, name in folders.items()
        }
        self._letters = letters
        self._replaced = replaced

    def __enter__(self) -> Self:
        """Finish an interrupted run, and begin to write.

        Raises:
            ConfigurationError: A folder cannot be written, or has files.
            UnavailableError: Another run writes to a folder, or the file system fails.
        """
        with contextlib.ExitStack() as stack:
            for folder in self._folders.values():
                stack.enter_context(folder)
            if self._replaced is not None:
                self._replaced.recover()
            for folder in self._folders.values():
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

    def write(self, rows: Iterable[tuple[str, RecordRow]], read: Sequence[Path] = ()) -> None:
        """Write each row to its sink; files appear in folders when all are complete.

        Args:
            rows: The names of sinks, and the records.
            read: The files that are removed from the folder of the rows.

        Raises:
            ClientError: The cluster cannot be reached in time, or refuses.
            UnavailableError: The file system fails.
        """
        with contextlib.ExitStack() as stack:
            topics = None
            if self._targets:
                topics = TopicSink(self._connect(), self._targets, self._letters)
                stack.callback(topics.close)
            for sink, row in rows:
                if sink in self._folders:
                    self._folders[sink].add(row)
                elif topics is not None and sink in self._targets:
                    topics.add(sink, row)
            files = [folder.finish() for folder in self._folders.values()]
            if topics is not None:
                topics.flush()
        if self._replaced is not None:
            for folder in self._folders.values():
                folder.keep()
            self._replaced.replace(read, files)
        else:
            for file in files:
                file.staged.rename(file.path)
                sync(file.path.parent)
        for folder in self._folders.values():
            folder.done()
