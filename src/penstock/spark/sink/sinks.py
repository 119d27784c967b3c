"""Sinks: topics, folders and tables that records are written to, in one pass over the data.

A frame to be written has Kafka's columns, with `headers` as they are to be stored, and a
column `sink` with the name of a sink.
"""

from __future__ import annotations

import os
import posixpath
import uuid
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.errors import UnavailableError
from penstock.jobs.files.reading import count_records
from penstock.spark.frames.hadoop_files import files_below, hadoop_path, local_path
from penstock.spark.frames.kafka_columns import COLUMNS, SCHEMA
from penstock.spark.frames.record_order import RecordOrder
from penstock.spark.sink.judged_batches import JudgedBatch, MicroBatch
from penstock.spark.sink.shared_targets import claim_folder
from penstock.spark.sink.stream_checkpoints import planned_batch
from penstock.spark.sink.tables.written_tables import WrittenTables
from penstock.spark.sink.topic_rows import SINK, TopicRows

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.jobs.batches.targets import Target
    from penstock.jobs.locations import RecordLocation
    from penstock.jobs.rows.count_proof import CountProof
    from penstock.jobs.rows.parquet_folders import TargetFolder
    from penstock.jobs.rows.target_folders import TargetFolders
    from penstock.jobs.topics.access import ClusterAccess
    from penstock.kafka.cluster.ranges import OffsetRange
    from penstock.spark.values.value_column import ValueColumn

_BATCH: Final = "batch="
"""What the folder of a micro-batch begins with."""
_METADATA: Final = ".metadata.json"
"""The end of the names of files in the folder `metadata` of an Iceberg table."""
_INCOMPLETE: Final = ".incomplete"
"""The suffix of the folder that is written first."""
_BEFORE: Final = ".replaced"
"""The suffix of the folder of an interrupted attempt while it is being replaced."""
_OPEN_FILES: Final = "spark.sql.maxConcurrentOutputFileWriters"
_SINKS_MAX: Final = 8
"""More than a command has."""
_ROW_GROUP_BYTES: Final = 32 * 2**20
"""So much of each file is in the JVM's memory, and each task has a file for each sink."""


class Sinks:
    """The topics, folders and tables that a command writes to, by name."""

    def __init__(
        self,
        spark: SparkSession,
        locations: Mapping[str, RecordLocation],
        access: ClusterAccess,
        targets: Mapping[str, Target],
        *,
        appended: Collection[str] = (),
        letters: Collection[str] = (),
    ) -> None:
        """Prepare; nothing is written.

        Args:
            locations: Topics, folders and tables by the name of the sink.
            access: The cluster of the topics.
            targets: The topics by the name of the sink.
            appended: Sinks whose folders are appended to; others are replaced.
            letters: Sinks of dead letters: in topics, these have the current time; in tables, the
                bytes of values.

        Raises:
            ConfigurationError: A table cannot be written (see `WrittenTables`), or a folder has
                the files of a table.
        """
        self._spark = spark
        self._rows = TopicRows(access, targets, frozenset(letters))
        self._appended = appended
        self._folders = {
            d: _without_links(spark, location.name)
            for d, location in locations.items()
            if location.is_folder
        }
        self._topics = tuple(targets)
        for folder in self._folders.values():
            self._check_no_table(folder)
        self._tables = WrittenTables(
            spark,
            {d: location.name for d, location in locations.items() if location.is_table},
            letters=letters,
        )

    @property
    def warnings(self) -> Sequence[str]:
        """What may be wrong with tables since earlier commands."""
        return self._tables.warnings

    @property
    def value_column(self) -> ValueColumn | None:
        """The column of a table that accepted values are parsed for, or None."""
        return self._tables.value_column

    def read_value_column(self) -> ValueColumn | None:
        """Read the types of tables again, which can have been altered; return `value_column`.

        Raises:
            ConfigurationError: No value can have the type.
        """
        return self._tables.read_value_column()

    @property
    def order(self) -> RecordOrder:
        """The order that records of files need."""
        return RecordOrder.FOR_TOPICS if self._topics else RecordOrder.FOR_FOLDERS

    @property
    def has_tables(self) -> bool:
        """Whether there is a table among them, which needs a frame that does not change."""
        return bool(self._tables)

    def check_new(self, ranges: Sequence[OffsetRange] = ()) -> None:
        """Check that folders are empty or do not exist, and tables have none of the records.

        Args:
            ranges: The ranges of topics; none for files.

        Raises:
            ConfigurationError: It is not so.
        """
        self._tables.check_new(ranges)
        for folder in self._folders.values():
            path, files = self._hadoop(folder)
            if files.exists(path) and files.listStatus(path):
                raise ConfigurationError(
                    f"{folder} holds files already; name a new folder, or remove it"
                )

    def check_stream(self, checkpoint: str, ranges: Sequence[OffsetRange]) -> None:
        """Check that a stream neither replaces nor repeats the output of an earlier stream.

        Folders and tables must have nothing that is later than the checkpoint, as they have if it
        is from a backup, or belongs to another stream.

        Args:
            checkpoint: The checkpoint location.
            ranges: What a stream without an earlier checkpoint begins with.

        Raises:
            ConfigurationError: It would.
        """
        planned = planned_batch(self._spark, checkpoint)
        if planned is None:
            self.check_new(ranges)
            return
        self._check_batches(checkpoint, planned.number)
        later_ranges = [
            offset_range._replace(start=planned.ends.get(offset_range.of, offset_range.start))
            for offset_range in ranges
        ]
        if rest := [offset_range for offset_range in later_ranges if offset_range.offsets > 0]:
            self._tables.check_new(rest)

    def _check_no_table(self, folder: str) -> None:
        log, files = self._hadoop(f"{folder}/_delta_log")
        if files.exists(log):
            raise ConfigurationError(
                f"path:{folder} is a Delta table: write table:delta.`{folder}`"
            )
        metadata, _ = self._hadoop(f"{folder}/metadata")
        names = files.listStatus(metadata) if files.exists(metadata) else ()
        if any(status.getPath().getName().endswith(_METADATA) for status in names):
            raise ConfigurationError(
                f"path:{folder} is an Iceberg table: write table:CATALOG.SCHEMA.NAME"
            )

    def _check_batches(self, checkpoint: str, last: int) -> None:
        for folder in self._folders.values():
            path, files = self._hadoop(folder)
            statuses = files.listStatus(path) if files.exists(path) else ()
            ends = [status.getPath().getName().partition(_BATCH)[2] for status in statuses]
            numbers = [int(end) for end in ends if end.isdecimal()]
            if max(numbers, default=last) > last:
                raise ConfigurationError(
                    f"{folder} has {_BATCH}{max(numbers)}, and --checkpoint {checkpoint} has no "
                    f"micro-batch after {last}: it is older than the folder. Continue with the "
                    "latest checkpoint; without it, use a new --checkpoint, new folders, and --from"
                )

    def write(
        self,
        frame: DataFrame,
        batch: MicroBatch | JudgedBatch | None = None,
        proof: CountProof | None = None,
    ) -> None:
        """Write each record to its sink, once; folders appear when they are complete.

        Args:
            frame: The records. If there are tables, it is read for each of them.
            batch: A stream's micro-batch; if there are tables, the judged part of the source. In a
                folder it gets a separate folder, which replaces that of an interrupted attempt. A
                table that has it leaves it out. Tables are written first, since they find out
                whether the checkpoint is old.
            proof: Compares what was written to topics and folders with the files that the records
                are from, before a folder appears. Not with tables.

        Raises:
            OldCheckpointError: A table has another micro-batch with this number.
            SharedTargetError: Another job writes to a folder, or the same records to a table.
            UnavailableError: Records are missing.
        """
        below = ""
        judged_batch = batch if isinstance(batch, JudgedBatch) else None
        if batch is not None:
            below = f"/{_BATCH}{batch.number}"
            for folder in self._folders.values():
                claim_folder(self._spark, folder, batch.query)
        if judged_batch is not None:
            self._tables.write(frame, judged_batch)
        if self._folders and self._topics:
            frame = frame.persist()
        try:
            elsewhere = self._write_topics(frame)
            if self._folders:
                self._write_folders(frame, below, elsewhere, proof)
            elif proof is not None:
                proof.check(elsewhere)
            if judged_batch is None:
                self._tables.write(frame, None)
        finally:
            frame.unpersist()

    def replace(
        self, frame: DataFrame, folders: TargetFolders[TargetFolder], proof: CountProof
    ) -> None:
        """Write each record to its sink, and remove the files of the records.

        Args:
            folders: The same folders, of this machine, and the folder whose files are removed.
            proof: Compares what was written with what was read, before a file is removed.

        Raises:
            UnavailableError: Records are missing, or the file system fails.
        """
        if self._folders and self._topics:
            frame = frame.persist()
        try:
            elsewhere = self._write_topics(frame)
            staging = next(iter(folders.by_sink.values())).staged / uuid.uuid4().hex
            self._stage(frame, f"file:{staging}")
        finally:
            frame.unpersist()
        files = []
        for sink, folder in folders.by_sink.items():
            sink_files = sorted((staging / f"{SINK}={sink}").glob("[!._]*"))
            files += [folder.take(file) for file in sink_files]
            if not sink_files:
                files.append(folder.take_empty())
        folders.appear(files, elsewhere, proof)

    def _write_topics(self, frame: DataFrame) -> int:
        """Write records to topics; return how many."""
        if not self._topics:
            return 0
        some = self._of(self._topics, frame)
        return self._rows.write(some.select(*COLUMNS, SINK))

    def _stage(self, frame: DataFrame, staging: str) -> None:
        """Write the records of folders to a temporary folder, each sink to a folder in it.

        Each task keeps the order of its records. To open one file after the other, Spark would sort
        them by sink, and sorting changes places where it uses the disk.
        """
        some = self._of(self._folders, frame).select(*COLUMNS, SINK)
        settings = some.sparkSession.conf  # in a stream, not those of the command's session
        previous_value = settings.get(_OPEN_FILES, None)
        settings.set(_OPEN_FILES, str(_SINKS_MAX))
        try:
            writer = some.write.partitionBy(SINK).option("parquet.block.size", _ROW_GROUP_BYTES)
            writer.mode("overwrite").parquet(staging)
        finally:
            if previous_value is None:
                settings.unset(_OPEN_FILES)
            else:
                settings.set(_OPEN_FILES, previous_value)

    def _write_folders(
        self, frame: DataFrame, below: str, elsewhere: int, proof: CountProof | None
    ) -> None:
        """Write to a temporary folder first, then rename the part of each sink."""
        staging = _hidden_beside(next(iter(self._folders.values())), _INCOMPLETE)
        staged, files = self._hadoop(staging)
        try:
            self._stage(frame, staging)
            if proof is not None:
                proof.check(elsewhere + count_records(files_below(self._spark, staging)))
            # Those that are replaced lose records, which then have to be in the others.
            for sink, folder in sorted(
                self._folders.items(), key=lambda item: item[0] not in self._appended
            ):
                staged_folder = self._complete(files, f"{staging}/{SINK}={sink}")
                if sink in self._appended:
                    self._append(files, staged_folder, folder)
                elif below:
                    self._replace(files, staged_folder, folder + below)
                else:
                    self._appear(files, staged_folder, folder)
        finally:
            files.delete(staged, True)

    def _of(self, sinks: Collection[str], frame: DataFrame) -> DataFrame:
        """Return the records of some sinks."""
        everything = len(sinks) == len(self._topics) + len(self._folders) + len(self._tables)
        return frame if everything else frame.where(F.col(SINK).isin(*sinks))

    def _complete(self, files: Any, staged_folder: str) -> Any:
        """Return the folder written for a sink; an empty folder if it got no records."""
        path, _ = self._hadoop(staged_folder)
        if not files.exists(path):
            empty = self._spark.createDataFrame([], SCHEMA)
            empty.coalesce(1).write.parquet(staged_folder)
        files.create(self._hadoop(f"{staged_folder}/_SUCCESS")[0]).close()
        return path

    def _appear(self, files: Any, staged_folder: Any, folder: str) -> None:
        """Let a folder appear, which was empty or missing; files that arrived in it stay."""
        target, _ = self._hadoop(folder)
        files.mkdirs(target.getParent())
        if files.exists(target) and files.listStatus(target):
            raise UnavailableError(
                f"{folder}: files have arrived in it during the run, so nothing is written to it: "
                "name a new folder, and run the command again"
            )
        files.delete(target, False)
        self._rename(files, staged_folder, target)

    def _replace(self, files: Any, staged_folder: Any, folder: str) -> None:
        """Replace the folder of an interrupted attempt; there is always one of them, or none."""
        target, _ = self._hadoop(folder)
        previous_folder, _ = self._hadoop(_hidden_beside(folder, _BEFORE))
        files.mkdirs(target.getParent())
        files.delete(previous_folder, True)
        if files.exists(target):
            self._rename(files, target, previous_folder)
        self._rename(files, staged_folder, target)
        files.delete(previous_folder, True)

    def _append(self, files: Any, staged_folder: Any, folder: str) -> None:
        """Move files into a folder; their names are unique."""
        target, _ = self._hadoop(folder)
        files.mkdirs(target)
        for status in files.listStatus(staged_folder):
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
        return hadoop_path(self._spark, path)


def _hidden_beside(folder: str, suffix: str) -> str:
    """Return the path of a hidden folder beside a folder, which no reader of both sees."""
    parent, name = posixpath.split(folder.rstrip("/"))
    return posixpath.join(parent, f".{name}{suffix}")


def _without_links(spark: SparkSession, folder: str) -> str:
    """Return the path of a folder itself: a link to it is not renamed instead of it."""
    here = local_path(spark, folder)
    return folder if here is None else os.path.realpath(here)
