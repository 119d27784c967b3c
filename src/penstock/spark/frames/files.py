"""Files with Kafka's columns, or with any, as frames.

`penstock.jobs.files.listing` says which files count, and each footer or line is checked before
Spark reads them: Spark's own listing leaves files out, and its own schema is that of one file.
"""

from __future__ import annotations

from operator import methodcaller
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.jobs.files.listing import INPUT, ListedFiles, find_files, is_compressed
from penstock.jobs.files.reading import are_listed_base64, check_listed
from penstock.spark.execution.failures import ONLY_SOME
from penstock.spark.frames.hadoop_files import find_hadoop_files, local_path, root_folder
from penstock.spark.frames.json_files import count_lines, read_json
from penstock.spark.frames.kafka_columns import COLUMNS, SCHEMA
from penstock.spark.frames.record_order import PLACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame, SparkSession

    from penstock.jobs.files.listing import StoredFile

_OF_GLOBS: Final = str.maketrans({letter: f"\\{letter}" for letter in "{}[]*?\\"})
_NANOSECONDS: Final = "ns"
_PARTITION: Final = methodcaller("partition", "=")
"""Takes the name of a folder apart: COLUMN=VALUE."""


def list_files(spark: SparkSession, path: str, key: str = INPUT) -> ListedFiles:
    """Return the files that a path means, of any file system that Spark reads.

    Args:
        spark: A classic session.
        path: A file, a folder, or a glob.
        key: What errors name before the path.

    Raises:
        ConfigurationError: There are none, or they are not of one kind, or a folder cannot be read.
    """
    here = local_path(spark, path)
    files: Sequence[StoredFile]
    files = find_hadoop_files(spark, path, key) if here is None else find_files(str(here), key)
    return ListedFiles.of(path, files, key)


def check_files(spark: SparkSession, files: ListedFiles) -> int:
    """Check the lines, or the footers, of all files; return the number of their records.

    Args:
        spark: A classic session.

    Raises:
        ConfigurationError: A file cannot be read, or has other columns.
        WrongLineError: A line is not a record.
    """
    paths = [_spark_path(file, files.key) for file in files.files]
    if files.are_json and not all(map(_is_read_here, files.files)):
        return count_lines(spark, paths)
    return check_listed(files, _check_units)


def read_files(spark: SparkSession, files: ListedFiles) -> DataFrame:
    """Read the records of files; their order is that of `record_order.in_order`.

    JSON has no bytes: keys, values and header values are taken for base 64, which is what
    Spark writes, if those of the first lines all are; otherwise for text, stored as UTF-8.
    Timestamps are those of `penstock.jobs.files.record_times`.

    Args:
        files: The files, which `check_files` has checked.

    Returns:
        Kafka's columns, null where a file has none, and the place of each record in its file.
    """
    paths = [_spark_path(file, files.key) for file in files.files]
    if files.are_json:
        is_known = not any(map(is_compressed, files.files))
        return read_json(spark, paths, are_listed_base64(files) if is_known else None)
    reader = spark.read.schema(SCHEMA).option("recursiveFileLookup", "true")
    reader = reader.option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")
    place = F.struct(F.col("_metadata.file_path"), F.col("_metadata.row_index")).alias(PLACE)
    return reader.parquet(*paths).select(*COLUMNS, place)


def read_any_columns(spark: SparkSession, path: str) -> DataFrame:
    """Read Parquet or JSON lines files with any columns, those in the names of folders too.

    These are folders below the path: of a glob, below its part without wildcards.

    Args:
        spark: A classic session.
        path: A file, a folder, or a glob.

    Raises:
        ConfigurationError: There are no such files, or they are not of one kind, or only some are
            in folders of partitions, or a folder cannot be read.
    """
    files = list_files(spark, path)
    reader = spark.read.option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")
    _check_partitions(files)
    reader = reader.option("basePath", root_folder(spark, path))
    paths = [_spark_path(file, files.key, "") for file in files.files]
    if files.are_json:
        return reader.option("mode", "FAILFAST").json(paths)
    return reader.option("mergeSchema", "true").parquet(*paths)


def _check_partitions(files: ListedFiles) -> None:
    """Check that all files are in folders of the same partitions: Spark leaves out the others.

    Raises:
        ConfigurationError: They are not.
    """
    folders = {PurePosixPath(str(file)).parts[:-1] for file in files.files}
    names = {
        tuple(name for name, separator, _ in map(_PARTITION, parts) if separator)
        for parts in folders
    }
    if len(names) > 1:
        raise ConfigurationError(f"{files.key}{files.argument}: {ONLY_SOME}")


def _is_read_here(file: StoredFile) -> bool:
    """Return whether this process reads the lines of a file, which are on this machine."""
    return isinstance(file, Path) and not is_compressed(file)


def _spark_path(file: StoredFile, key: str, other: str = ", or use --local") -> str:
    """Return a file as Spark's readers take it: a URL in which nothing is a glob.

    Args:
        file: As it was listed.
        key: What errors name before the path.
        other: What else to do about a name that Spark does not read.

    Raises:
        ConfigurationError: Spark cannot read a file of this name.
    """
    absolute = file.absolute() if isinstance(file, Path) else None
    path = str(file if absolute is None else f"file:{absolute}")
    escaped = path.translate(_OF_GLOBS)
    if ":" in file.name or (":" in str(absolute) and escaped != path):
        raise ConfigurationError(
            f"{key}{file}: Spark does not read a file with a colon in its path: rename it{other}"
        )
    try:
        str(file).encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"{key}{str(file)!a}: Spark does not read a file whose name is not UTF-8: rename it"
            f"{other}"
        ) from None
    return escaped


def _check_units(file: StoredFile, opened: pq.ParquetFile, key: str) -> None:
    """Check that Spark reads the timestamps of a file.

    Raises:
        ConfigurationError: They are in nanoseconds.
    """
    kind: Any = opened.schema_arrow.field("timestamp").type
    physical_types = {column.path: column.physical_type for column in _columns(opened)}
    if kind.unit == _NANOSECONDS and physical_types["timestamp"] == "INT64":
        raise ConfigurationError(
            f"{key}{file}: column timestamp is {kind}, which Spark does not read: use --local, or "
            "write microseconds"
        )


def _columns(opened: pq.ParquetFile) -> Sequence[Any]:
    schema = opened.schema
    return [schema.column(number) for number in range(len(schema.names))]
