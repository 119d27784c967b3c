"""The topics and folders that rows are written to, by the name of the sink."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from penstock.stored.rows.parquet_folders import ParquetFolder
from penstock.stored.rows.topic_rows import TopicSink

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from penstock.batch_jobs.targets import Target
    from penstock.client.connections.connection import Connection
    from penstock.stored.rows.record_rows import RecordRow


class RowSinks:
    """Writes each row to its sink."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        targets: Mapping[str, Target],
        folders: Mapping[str, str],
        *,
        appended: Collection[str] = (),
        letters: Collection[str] = (),
    ) -> None:
        """Prepare; nothing is written.

        Args:
            connect: Returns a connection to the cluster of the topics.
            targets: Topics by the name of the sink.
            folders: The paths of folders by the name of the sink.
            appended: Sinks whose folders are appended to; others are replaced.
            letters: Sinks of dead letters, which get the current time in topics.

        Raises:
            ConfigurationError: A folder cannot be written without Spark.
        """
        self._connect = connect
        self._targets = targets
        self._folders = {sink: ParquetFolder(name) for sink, name in folders.items()}
        self._appended = appended
        self._letters = letters

    def check_new(self) -> None:
        """Check that folders are empty or missing.

        Raises:
            ConfigurationError: It is not so.
        """
        for folder in self._folders.values():
            folder.check_new()

    def recover(self) -> None:
        """Restore the names of folders that a crash left renamed."""
        for folder in self._folders.values():
            folder.recover()

    def write(self, rows: Iterable[tuple[str, RecordRow]]) -> None:
        """Write each row to its sink; folders change when all rows are written.

        Args:
            rows: The names of sinks, and the records.

        Raises:
            ConfigurationError: A folder cannot be written.
            ClientError: The cluster cannot be reached in time, or refuses.
            OSError: The file system fails.
        """
        with contextlib.ExitStack() as stack:
            folders = {sink: stack.enter_context(folder) for sink, folder in self._folders.items()}
            topics = None
            if self._targets:
                topics = TopicSink(self._connect(), self._targets, self._letters)
                stack.callback(topics.close)
            for sink, row in rows:
                if sink in folders:
                    folders[sink].add(row)
                elif topics is not None and sink in self._targets:
                    topics.add(sink, row)
            if topics is not None:
                topics.flush()
            # Those that are replaced lose rows, which then have to be in the others.
            for sink in sorted(folders, key=lambda sink: sink not in self._appended):
                folders[sink].complete(appended=sink in self._appended)
