"""`spark.read.format("penstock")` and `readStream`: topics over the direct door, with verdicts.

Spark plans in a Python process on the driver, and reads in those of the executors. No row is
made in the JVM: a task reads raw batches, the chain judges them, and Arrow batches of a bounded
size go to Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark import accumulators
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from penstock.configuration import ConfigurationError
from penstock.errors import UnavailableError
from penstock.kafka.cluster.ranges import OffsetRange
from penstock.spark.execution.worker_errors import in_one_line
from penstock.spark.source.bounds import (
    EARLIEST,
    LATEST,
    check_batch,
    check_order,
    find_offsets,
)
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.reading import SourceReading
from penstock.spark.source.rows import TYPES, VERDICT, check_types
from penstock.spark.source.stream import StreamReader, UnusableReader
from penstock.spark.source.tasks import SourceTask, source_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from penstock.kafka.cluster.offsets import Topic
    from penstock.spark.sink.penstock_format.data_sink import BatchSink, StreamSink
    from penstock.spark.source.access import ClusterSource

_HEADERS: Final = "headers"


class PenstockDataSource(DataSource):
    """Topics of Kafka, with the columns of Spark's Kafka source and the column `verdict`.

    The frame has `verdict`, as from `judge`, if the option `plan` names a configuration file. The
    other options are those of Spark's Kafka source, with its values and defaults: `subscribe` or
    `subscribePattern`, `startingOffsets`, `endingOffsets`, `startingTimestamp`, `endingTimestamp`,
    `failOnDataLoss`, `minPartitions`, `maxOffsetsPerTrigger`, `kafka.*` (which take precedence over
    the file's `upstream.*`), `failOnDeletedTopic` (in a stream; default `failOnDataLoss`) and
    `includeHeaders` (default true). `schema(...)` selects columns.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "penstock"

    def schema(self) -> str:
        """Return the columns, as Spark's DDL.

        Raises:
            ConfigurationError: An option is not usable.
        """
        _send_no_profile()
        with in_one_line():
            options = SourceOptions.read(self.options)
        return ", ".join(
            f"{name} {kind}"
            for name, kind in TYPES.items()
            if (name != VERDICT or options.plan) and (name != _HEADERS or options.with_headers)
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader, after the topics were read from the cluster.

        Raises:
            ConfigurationError: An option, the file or a topic is not usable.
            ClusterError: The cluster does not answer.
        """
        with in_one_line():
            source = _source(self.options)
            check_batch(source.options.start or EARLIEST, source.options.end or LATEST)
            topics = source.topics()
            source.warn_of_hidden(topics)
            if not topics:
                raise source.no_topic()
            return BatchReader(source, topics, _reading(source, topics, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream; if it cannot be read, a reader that raises the error."""
        try:
            source = _source(self.options)
            if source.options.end is not None:
                raise ConfigurationError("a stream has no endingOffsets and no endingTimestamp")
            topics = source.topics_left()
            source.warn_of_hidden(topics)
            return StreamReader(source, _reading(source, topics, schema))
        except (ConfigurationError, UnavailableError) as error:
            return UnusableReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        """Return the writer of a frame; see `penstock.spark.sink.penstock_format.data_sink`."""
        _send_no_profile()
        from penstock.spark.sink.penstock_format.data_sink import batch_sink  # noqa: PLC0415 - readers do without

        with in_one_line():
            return batch_sink(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: ARG002, N802
        """Return the writer of a stream; see `penstock.spark.sink.penstock_format.data_sink`."""
        _send_no_profile()
        from penstock.spark.sink.penstock_format.data_sink import stream_sink  # noqa: PLC0415

        with in_one_line():
            return stream_sink(self.options, schema)


class BatchReader(DataSourceReader):
    """Reads a fixed range of topics."""

    def __init__(
        self, source: ClusterSource, topics: Sequence[Topic], reading: SourceReading
    ) -> None:
        """Set the ranges.

        Args:
            source: The cluster, for the driver.
            reading: What the tasks do.
        """
        self._reading = reading
        self._plan: tuple[ClusterSource, Sequence[Topic]] | None = (source, topics)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks.

        Raises:
            ConfigurationError: An offset that was named is not there.
            ClusterError: The cluster does not answer.
        """
        with in_one_line():
            return self._tasks()

    def _tasks(self) -> Sequence[InputPartition]:
        if self._plan is None:
            raise RuntimeError("tasks are planned on the driver")
        source, topics = self._plan
        start, end = source.options.start or EARLIEST, source.options.end or LATEST
        starts = find_offsets(source.cluster, topics, start)
        ends = find_offsets(source.cluster, topics, end)
        check_order(start, starts, ends)
        ranges = [
            OffsetRange(*partition, starts[partition], end) for partition, end in ends.items()
        ]
        ids = {topic.name: topic.topic_id for topic in topics}
        return source_tasks(ranges, ids, source.sizes(topics), source.options.tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a task; Spark adds an empty partition if there is none."""
        if isinstance(partition, SourceTask):
            with in_one_line():
                yield from self._reading.read(partition.ranges)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plan": None}


def register(spark: SparkSession) -> None:
    """Register `format("penstock")` with a session, classic or of Spark Connect.

    Spark finds the format by itself where Penstock is installed for its Python; with Spark Connect,
    that is the server's (`pyspark_penstock`).
    """
    try:
        spark.dataSource.register(PenstockDataSource)
    except AnalysisException as error:  # before PySpark 4.1, of a format that Spark has found
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    classic = getattr(spark, "_jsparkSession", None)
    if classic is not None:
        # `writeStream.start()` looks for a sink in Python in the session that is active.
        classic.setActiveSession(classic)


def _source(options: Mapping[str, str]) -> ClusterSource:
    _send_no_profile()
    # Imported here: executors do without the client and the model of the configuration.
    from penstock.spark.source.access import ClusterSource  # noqa: PLC0415

    return ClusterSource(SourceOptions.read(options))


def _send_no_profile() -> None:
    """Have Spark's planning process send no profile of itself.

    It sends an empty profile to sessions of Spark Connect, which `spark-pipelines` of 4.2 takes for
    an error, after a run that was complete (`UNKNOWN_RESPONSE`).
    """
    ids: Any = getattr(accumulators, "SpecialAccumulatorIds", None)
    for profile in ("SQL_UDF_PROFIER", "SQL_UDF_PROFIER_V2"):
        if hasattr(ids, profile):
            accumulators._accumulatorRegistry.pop(getattr(ids, profile), None)  # noqa: SLF001


def _reading(source: ClusterSource, topics: Sequence[Topic], schema: StructType) -> SourceReading:
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    check_types(types)
    if VERDICT in types and source.options.plan is None:
        raise ConfigurationError("the column verdict needs the option plan: whose policies judge")
    plan = source.plan(topics) if VERDICT in types else None
    return SourceReading(
        source.access,
        plan,
        tuple(types),
        source.options.fails_on_loss,
        source.max_decompressed_bytes,
    )
