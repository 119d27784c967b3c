"""The topics and folders that rows are written to, by the name of the sink."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self

from penstock.jobs.rows.parquet_folders import ParquetFolder
from penstock.jobs.rows.target_folders import TargetFolders
from penstock.jobs.rows.topic_rows import TopicSink

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from types import TracebackType

    from penstock.jobs.batches.targets import Target
    from penstock.jobs.rows.count_proof import CountProof
    from penstock.jobs.rows.letter_folder import LetterFolder
    from penstock.jobs.rows.records import RecordRow
    from penstock.kafka.client.connections.connection import Connection


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
            job: What writes to folders; see `TargetFolder`.
            are_new: Whether folders have to be empty or missing.
            letters: Sinks of dead letters, which get the current time in topics.
            replaced: The folder that the rows are from, if its files are removed.

        Raises:
            ConfigurationError: A folder cannot be written without Spark, or has files.
        """
        self._connect = connect
        self._targets = targets
        self._folders = TargetFolders(
            {sink: ParquetFolder(name, job=job, is_new=are_new) for sink, name in folders.items()},
            replaced=replaced,
        )
        self._letters = letters

    def __enter__(self) -> Self:
        """Finish an interrupted run, and begin to write.

        Raises:
            ConfigurationError: A folder cannot be written, or has files.
            UnavailableError: Another run writes to a folder, or the file system fails.
        """
        self._folders.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folders.__exit__(kind, error, trace)

    def write(self, rows: Iterable[tuple[str, RecordRow]], proof: CountProof | None = None) -> None:
        """Write each row to its sink; files appear in folders when all are complete.

        Args:
            rows: The names of sinks, and the records.
            proof: Compares what was written with the files that the rows are from.

        Raises:
            ClientError: The cluster cannot be reached in time, or refuses.
            UnavailableError: Records are missing, or the file system fails.
        """
        folders = self._folders.by_sink
        with contextlib.ExitStack() as stack:
            topics, elsewhere = None, 0
            if self._targets:
                topics = TopicSink(self._connect(), self._targets, self._letters)
                stack.callback(topics.close)
            for sink, row in rows:
                if sink in folders:
                    folders[sink].add(row)
                elif topics is not None and sink in self._targets:
                    topics.add(sink, row)
                    elsewhere += 1
            files = [folder.finish() for folder in folders.values()]
            if topics is not None:
                topics.flush()
        self._folders.appear(files, elsewhere, proof)
