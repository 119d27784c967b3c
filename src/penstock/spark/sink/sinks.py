"""Sinks: topics and folders that records are written to, in one pass over the data.

A frame to be written has Kafka's columns, with `headers` as they are to be stored, and a
column `sink` with the name of a sink.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.spark.sources import COLUMNS, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.stored.locations import RecordLocation

_BEFORE: Final = ".replaced"
"""The suffix of a folder while it is being replaced."""


class Sinks:
    """The topics and folders that a command writes to, by name."""

    def __init__(
        self,
        spark: SparkSession,
        locations: Mapping[str, RecordLocation],
        options: Mapping[str, str],
        partitions: Mapping[str, int],
        *,
        appended: Collection[str] = (),
    ) -> None:
        """Prepare; nothing is written.

        Args:
            spark: The session.
            locations: Topics and folders by the name of the sink.
            options: Options of Spark's Kafka connector.
            partitions: The number of partitions of each topic: a record keeps
                its partition's number, modulo that.
            appended: Sinks whose folders are appended to; others are replaced.
        """
        self._spark = spark
        self._options = options
        self._partitions = partitions
        self._appended = appended
        self._folders = {
            d: location.name for d, location in locations.items() if location.is_folder
        }
        self._topics = {
            d: location.name for d, location in locations.items() if not location.is_folder
        }

    def check_new(self) -> None:
        """Check that folders are empty or do not exist.

        Raises:
            ConfigurationError: One does.
        """
        for folder in self._folders.values():
            path, files = self._hadoop(folder)
            if files.exists(path) and files.listStatus(path):
                raise ConfigurationError(
                    f"{folder} holds files already; name a new folder, or remove it"
                )

    def write(self, frame: DataFrame, *, batch: int | None = None) -> None:
        """Write each record to its sink, once; folders appear when they are complete.

        Args:
            frame: The records.
            batch: The number of a stream's micro-batch. In a folder it gets a folder of its
                own, which replaces what an interrupted attempt left.
        """
        if self._folders and self._topics:
            frame = frame.persist()
        try:
            if self._topics:
                self._write_topics(frame)
            if self._folders:
                self._write_folders(frame, "" if batch is None else f"/batch={batch}")
        finally:
            frame.unpersist()

    def _write_topics(self, frame: DataFrame) -> None:
        some = frame.where(F.col("sink").isin(*self._topics)) if self._folders else frame
        sinks = F.col("sink")
        (
            some.select(
                "key",
                "value",
                "headers",
                _by_sink(sinks, {d: F.lit(topic) for d, topic in self._topics.items()}).alias(
                    "topic"
                ),
                _by_sink(
                    sinks,
                    {d: F.col("partition") % self._partitions[t] for d, t in self._topics.items()},
                ).alias("partition"),
            )
            .write.format("kafka")
            .options(**self._options)
            .mode("append")
            .save()
        )

    def _write_folders(self, frame: DataFrame, below: str) -> None:
        """Write to a folder of its own first, then rename the part of each sink."""
        some = frame.where(F.col("sink").isin(*self._folders)) if self._topics else frame
        staging = f"{next(iter(self._folders.values())).rstrip('/')}.incomplete"
        staged, files = self._hadoop(staging)
        try:
            some.select(*COLUMNS, "sink").write.partitionBy("sink").mode("overwrite").parquet(
                staging
            )
            for sink, folder in self._folders.items():
                written = self._complete(files, f"{staging}/sink={sink}")
                if sink in self._appended:
                    self._append(files, written, folder)
                else:
                    self._replace(files, written, folder + below)
        finally:
            files.delete(staged, True)

    def recover(self) -> None:
        """Restore the names of folders that a crash left renamed."""
        for folder in self._folders.values():
            path, files = self._hadoop(folder)
            before, _ = self._hadoop(folder.rstrip("/") + _BEFORE)
            if files.exists(before):
                if files.exists(path):
                    files.delete(before, True)
                else:
                    files.rename(before, path)

    def _complete(self, files: Any, written: str) -> Any:
        """Return the folder written for a sink; an empty folder if it got no records."""
        path, _ = self._hadoop(written)
        if not files.exists(path):
            empty = self._spark.createDataFrame([], SCHEMA)
            empty.coalesce(1).write.parquet(written)
        files.create(self._hadoop(f"{written}/_SUCCESS")[0]).close()
        return path

    def _replace(self, files: Any, written: Any, folder: str) -> None:
        """Replace a folder by another; after a crash there is either the old or the new folder."""
        target, _ = self._hadoop(folder)
        before, _ = self._hadoop(folder.rstrip("/") + _BEFORE)
        files.mkdirs(target.getParent())
        files.delete(before, True)
        if files.exists(target):
            self._rename(files, target, before)
        self._rename(files, written, target)
        files.delete(before, True)

    def _append(self, files: Any, written: Any, folder: str) -> None:
        """Move files into a folder; their names are unique."""
        target, _ = self._hadoop(folder)
        files.mkdirs(target)
        for status in files.listStatus(written):
            path = status.getPath()
            moved, _ = self._hadoop(f"{folder.rstrip('/')}/{path.getName()}")
            if not (path.getName().startswith("_") and files.exists(moved)):
                self._rename(files, path, moved)

    @staticmethod
    def _rename(files: Any, source: Any, target: Any) -> None:
        if not files.rename(source, target):
            raise OSError(f"{target} cannot be written: its file system does not move files there")

    def _hadoop(self, path: str) -> tuple[Any, Any]:
        """Return Hadoop's path and file system of a path."""
        jvm: Any = self._spark.sparkContext._jvm  # noqa: SLF001 - Spark's own way to Hadoop
        java: Any = self._spark.sparkContext._jsc  # noqa: SLF001
        there = jvm.org.apache.hadoop.fs.Path(path)
        return there, there.getFileSystem(java.hadoopConfiguration())


def _by_sink(sink: Column, values: Mapping[str, Column]) -> Column:
    (_, last), *others = reversed(list(values.items()))
    return reduce(
        lambda rest, other: F.when(sink == other[0], other[1]).otherwise(rest), others, last
    )
