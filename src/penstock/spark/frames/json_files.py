"""JSON lines of any file system that Spark reads, as the commands without Spark read them.

Spark's own reader of JSON takes objects and numbers for text and an array for several records,
leaves out what it does not know, and names no line.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.jobs.files.json_lines import SEEN, JsonLine, looks_like_base64
from penstock.jobs.rows.arrow import batch_of
from penstock.spark.frames.kafka_columns import SCHEMA
from penstock.spark.frames.record_order import PLACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

_PLACE: Final = pa.struct([("file", pa.string()), ("start", pa.int64()), ("line", pa.int64())])
_COLUMNS: Final = f"{SCHEMA}, {PLACE} struct<file:string,start:bigint,line:bigint>"
"""Kafka's columns, and the place of each line."""
_FOUND: Final = pa.schema([("looks_like_base64", pa.bool_())])


def read_json(spark: SparkSession, paths: Sequence[str], is_base64: bool | None) -> DataFrame:
    """Read the records of JSON lines.

    A line that is not a record ends the job with a `WrongLineError`.

    Args:
        paths: The files, without globs.
        is_base64: Whether contents are base 64. None if that is not known: the first lines are
            read at once, and show it.

    Returns:
        Kafka's columns, and the place of each line.
    """
    lines = _lines_of(spark, paths)
    if is_base64 is None:
        first = lines.mapInArrow(_contents, "looks_like_base64 boolean").limit(SEEN)
        is_base64 = all(row[0] for row in first.collect())
    return lines.mapInArrow(partial(records, is_base64=is_base64), _COLUMNS)


def count_lines(spark: SparkSession, paths: Sequence[str]) -> int:
    """Return how many records JSON lines have; raises as the job of `read_json`.

    Args:
        paths: The files, without globs.
    """
    counts = _lines_of(spark, paths).mapInArrow(_count, "count bigint")
    return sum(row[0] for row in counts.collect())


def _lines_of(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    reader = spark.read.option("lineSep", "\n").option("recursiveFileLookup", "true")
    reader = reader.option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")
    return reader.text(list(paths)).select(
        F.col("value").cast("binary").alias("line"),
        F.input_file_name().alias("file"),
        F.expr("input_file_block_start()").alias("block"),
    )


class _Place(NamedTuple):
    """A part of a file that a task reads: from the first line that begins in it.

    Attributes:
        file: The URL of the file.
        start: The offset of the part in bytes.
    """

    file: str
    start: int

    def line(self, number: int) -> str:
        """Return where a line is, for a user."""
        suffix = f" after byte {self.start}" if self.start else ""
        return f"{unquote(self.file)}, line {number}{suffix}"


def _contents(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for lines in _lines(batches):
        flags = [looks_like_base64(text) for _, line in lines for text in line.contents]
        yield pa.RecordBatch.from_arrays([pa.array(flags, pa.bool_())], schema=_FOUND)


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    count = sum(len(lines) for lines in _lines(batches))
    yield pa.RecordBatch.from_arrays([pa.array([count], pa.int64())], ["count"])


def records(batches: Iterable[pa.RecordBatch], *, is_base64: bool) -> Iterator[pa.RecordBatch]:
    """Turn the lines of a task into rows; for `DataFrame.mapInArrow`.

    Args:
        batches: Lines, their files, and where the part of the file begins that is read.
        is_base64: Whether contents are base 64.

    Raises:
        WrongLineError: A line is not a record.
    """
    for lines in _lines(batches):
        batch = batch_of(line.record(is_base64=is_base64) for _, line in lines)
        places = pa.array([place for place, _ in lines], _PLACE)
        yield pa.RecordBatch.from_arrays([*batch.columns, places], [*batch.schema.names, PLACE])


def _lines(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[list[tuple[tuple[str, int, int], JsonLine]]]:
    """Read the lines of a task, which come in the order of the file, and their places."""
    numbers: Counter[_Place] = Counter()
    for batch in batches:
        lines = []
        for text, file, start in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            place = _Place(file, start)
            numbers[place] += 1
            if text.strip():
                line = JsonLine(place.line(numbers[place]), text)
                lines.append(((file, start, numbers[place]), line))
        yield lines
