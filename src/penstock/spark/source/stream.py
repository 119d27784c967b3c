"""`readStream.format("penstock")`: the offsets of micro-batches, checked against the topics."""

from __future__ import annotations

import time
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyspark.sql.datasource import DataSourceStreamReader

from penstock.configuration import ConfigurationError
from penstock.jobs.tasks.planning import Limit, Sizes, next_batch
from penstock.kafka.cluster.ranges import OffsetRange, Partition
from penstock.kafka.wire.names import NO_ID, is_another
from penstock.spark.execution.worker_errors import in_one_line
from penstock.spark.source.bounds import LATEST, find_offsets
from penstock.spark.source.reading import SourceError
from penstock.spark.source.tasks import SourceTask, source_tasks

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before PySpark 4.2 a micro-batch has all available records

    class ReadMaxRows:  # type: ignore[no-redef]
        """Not there."""

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Not there."""


if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    from penstock.kafka.cluster.offsets import Topic
    from penstock.spark.source.access import ClusterSource
    from penstock.spark.source.reading import SourceReading

Offsets = dict[Partition, int]
BOUNDS_BATCHES: Final[bool] = hasattr(DataSourceStreamReader, "getDefaultReadLimit")
"""Since PySpark 4.2 Spark passes the start of a micro-batch, and its limit."""
_ATTEMPTS: Final = 5
_PAUSE_S: Final = 1.0


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as they grow.

    An offset of the stream is, for each topic, its id and the offset of each partition. Where the
    stream begins, and at the end of its first micro-batch, it also has the first offset of each
    partition: Spark keeps only where a micro-batch ends.
    """

    def __init__(self, source: ClusterSource, reading: SourceReading) -> None:
        """Set the options.

        Args:
            source: The cluster, for the driver.
            reading: What the tasks do.
        """
        self._source: ClusterSource | None = source
        self._reading = reading
        self._target: Offsets | None = None
        self._known: dict[str, Any] = {}
        self._initial: dict[str, Any] | None = None
        self._planned: list[dict[str, Any]] = []

    @in_one_line()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new query starts: by default the end of the topics."""
        topics = self._driver.topics()
        if not BOUNDS_BATCHES and self._driver.options.batch_offsets is not None:
            raise ConfigurationError("maxOffsetsPerTrigger needs PySpark 4.2 or newer")
        place = self._driver.options.start or LATEST
        first = find_offsets(self._driver.cluster, topics, place)
        self._initial = _json(first, {topic.name: topic.topic_id for topic in topics}, first)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the most of a micro-batch."""
        most = self._driver.options.batch_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @in_one_line()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix where the query ends: at the current ends."""
        self._target = self._driver.cluster.end_offsets(self._driver.topics_left())

    @in_one_line()
    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return where the next micro-batch ends.

        Before PySpark 4.2, Spark does not say where it starts, nor how much it wants: it ends
        where the topics do, and `partitions` checks them.

        Raises:
            SourceError: A topic was created again, or is gone, or a log has become
                shorter.
            ClusterError: The cluster does not answer.
        """
        topics = self._driver.topics_left()
        if start is None:
            return self._plan(self._remembered(to_json(self._ends(topics), topics)))
        start_offsets = from_json(start)
        self._check_topics(start, topics)
        there = chain.from_iterable(topic.all_partitions for topic in topics)
        new = [partition for partition in there if partition not in start_offsets]
        starts = start_offsets | self._first(topics, new)
        ranges = self._ranges(topics, starts)
        if isinstance(limit, ReadMaxRows):
            ranges = list(next_batch(ranges, Limit(limit.max_rows))[0])
        reached = starts | {offset_range.of: offset_range.end for offset_range in ranges}
        ids = {**_ids(start), **{topic.name: topic.topic_id for topic in topics}}
        if reached == start_offsets and ids == _ids(start):
            return start
        return _json(reached, ids, starts if _first_offsets(start) == start_offsets else {})

    @in_one_line()
    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the ends of the topics, for the progress of the query."""
        topics = self._driver.topics_left()
        return to_json(self._driver.cluster.end_offsets(topics), topics)

    @in_one_line()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch.

        Raises:
            SourceError: As for `latestOffset`, or it is a first micro-batch that was interrupted,
                before PySpark 4.2.
            ClusterError: The cluster does not answer.
        """
        start_offsets, ends = _first_offsets(end) or from_json(start), from_json(end)
        if not BOUNDS_BATCHES:
            if start == self._initial and end not in self._planned:
                raise SourceError(
                    "the first micro-batch was interrupted, and the checkpoint of a PySpark before "
                    "4.2 does not have the offsets at which it began; start with a new checkpoint"
                )
            self._check_topics(start, self._driver.topics_left())
            self._check_positions(start_offsets, ends)
            self._remembered(end)
            self._planned = [end]
        read_topics = {
            partition.topic
            for partition, offset in ends.items()
            if offset > start_offsets.get(partition, -1)
        }
        if not self._driver.options.fails_on_deletion:
            deleted = self._deleted(read_topics)
            ends = {
                partition: offset
                for partition, offset in ends.items()
                if partition.topic not in deleted
            }
            read_topics -= deleted
        for name in sorted(read_topics):
            if not self._driver.subscribes(name):  # its policies are not loaded
                self._check_missing(name)
        new = [partition for partition in ends if partition not in start_offsets]
        if new:
            start_offsets |= self._first(self._driver.topics_left(), new)
        ranges = [
            OffsetRange(*partition, start_offsets[partition], offset)
            for partition, offset in ends.items()
        ]
        return source_tasks(ranges, _ids(end), self._sizes, self._driver.options.tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a task."""
        if isinstance(partition, SourceTask):
            with in_one_line():
                yield from self._reading.read(partition.ranges)

    @property
    def _driver(self) -> ClusterSource:
        if self._source is None:
            raise RuntimeError("offsets are found on the driver")
        return self._source

    @cached_property
    def _sizes(self) -> Sizes:
        return self._driver.sizes(self._driver.topics_left())

    def _remembered(self, end: dict[str, Any]) -> dict[str, Any]:
        """Return the end of a micro-batch with the positions of topics that are not described now.

        Without its position, a topic would be read from its start when it is described again.
        """
        self._known |= end
        return dict(self._known)

    def _plan(self, end: dict[str, Any]) -> dict[str, Any]:
        """Remember an end until a micro-batch is read: Spark may get others before it is."""
        if end not in self._planned[-1:]:
            self._planned.append(end)
        return end

    def _check_positions(self, start_offsets: Offsets, ends: Offsets) -> None:
        """Check that a micro-batch keeps the positions of the stream, except in deleted topics."""
        absent_topics = {partition.topic for partition in start_offsets.keys() - ends.keys()}
        if lost_topics := sorted(absent_topics - self._deleted(absent_topics)):
            raise SourceError(
                f"topic {lost_topics[0]} was not described when a micro-batch was planned: the "
                "stream has lost its position; start with a new checkpoint"
            )

    def _first(self, topics: Sequence[Topic], new: Sequence[Partition]) -> Offsets:
        """Return where partitions start that the stream did not know."""
        if not new:
            return {}
        first = self._driver.cluster.first_offsets(topics)
        return {partition: first[partition] for partition in new if partition in first}

    def _ends(self, topics: Sequence[Topic]) -> Offsets:
        if self._target is not None:
            return self._target
        return self._driver.cluster.end_offsets(topics)

    def _ranges(self, topics: Sequence[Topic], starts: Offsets) -> list[OffsetRange]:
        """Return what can be read; a leader that was just elected may not know the end yet."""
        for attempt in range(_ATTEMPTS):
            ends = {
                partition: end
                for partition, end in self._ends(topics).items()
                if partition in starts
            }
            ranges = [
                OffsetRange(*partition, starts[partition], end) for partition, end in ends.items()
            ]
            shorter = [
                offset_range for offset_range in ranges if offset_range.end < offset_range.start
            ]
            if not shorter:
                return ranges
            if attempt + 1 < _ATTEMPTS:
                time.sleep(_PAUSE_S)
                self._update_ends(topics, shorter)
        first = shorter[0]
        raise SourceError(
            f"{first.of}: the log ends at offset {first.end}, before {first.start}, the "
            "position of the stream"
        )

    def _deleted(self, topics: Collection[str]) -> set[str]:
        """Return the topics that were deleted; a broker may not know a topic for a moment."""
        deleted = set(topics)
        for attempt in range(_ATTEMPTS if deleted else 0):
            if attempt:
                time.sleep(_PAUSE_S)
            deleted = self._driver.cluster.missing(deleted)
            if not deleted:
                break
        return deleted

    def _update_ends(self, topics: Sequence[Topic], shorter: Sequence[OffsetRange]) -> None:
        """Replace ends that the query began with, which are before its position."""
        if self._target is not None:
            ends = self._driver.cluster.end_offsets(topics)
            places = {offset_range.of for offset_range in shorter}
            self._target |= {
                partition: end for partition, end in ends.items() if partition in places
            }

    def _check_topics(self, start: Mapping[str, Any], topics: Sequence[Topic]) -> None:
        topic_ids = {topic.name: topic.topic_id for topic in topics}
        for name, topic_id in _ids(start).items():
            if name not in topic_ids:
                self._check_missing(name)
            elif is_another(topic_id, topic_ids[name]):
                raise SourceError(
                    f"topic {name} was deleted and created again: its offsets mean other records "
                    "now; start with a new checkpoint"
                )

    def _check_missing(self, topic: str) -> None:
        """Check that the stream may continue without a topic that it has read.

        Raises:
            SourceError: It may not. The message says whether the topic exists.
            ClusterError: The principal may not describe it.
        """
        options = self._driver.options
        if options.fails_on_loss and not self._driver.cluster.missing((topic,)):
            if self._driver.subscribes(topic):
                return  # a broker did not list it for a moment
            raise SourceError(
                f"topic {topic} is in the checkpoint, and is not subscribed to any more; subscribe "
                "to it, or start with a new checkpoint"
            )
        if options.fails_on_deletion:
            raise SourceError(
                f"topic {topic} was deleted; with failOnDeletedTopic=false the stream continues "
                "without it"
            )

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_source": None, "_known": {}, "_initial": None, "_planned": []}
        state.pop("_sizes", None)
        return state


class UnusableReader(DataSourceStreamReader):
    """Replaces a stream that cannot be read, and raises the error in each method.

    PySpark 4.2 replaces an error of `streamReader` by another error (UnboundLocalError).
    """

    def __init__(self, error: Exception) -> None:
        """Take the error."""
        self._error = error

    @in_one_line()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Raise the error."""
        raise self._error

    @in_one_line()
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """Raise the error."""
        raise self._error

    @in_one_line()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        """Raise the error."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Raise the error."""
        raise self._error


_ID, _OFFSETS, _FIRST = "id", "offsets", "first"


def to_json(offsets: Offsets, topics: Sequence[Topic]) -> dict[str, Any]:
    """Return offsets as Spark keeps them in a checkpoint."""
    return _json(offsets, {topic.name: topic.topic_id for topic in topics}, {})


def from_json(document: Mapping[str, Any]) -> Offsets:
    """Return the offsets that `to_json` was given, or those of Spark's Kafka source.

    A checkpoint of that source continues: it has no ids.
    """
    return {
        Partition(topic, int(number)): int(offset)
        for topic, entry in document.items()
        for number, offset in entry.get(_OFFSETS, entry).items()
    }


def _first_offsets(document: Mapping[str, Any]) -> Offsets:
    """Return where the first micro-batch begins; empty in offsets after its end."""
    return {
        Partition(topic, int(number)): int(offset)
        for topic, entry in document.items()
        for number, offset in entry.get(_FIRST, {}).items()
    }


def _json(
    offsets: Offsets, topic_ids: Mapping[str, UUID], first: Mapping[Partition, int]
) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for (topic, number), offset in sorted(offsets.items()):
        entry = document.setdefault(topic, {_ID: str(topic_ids.get(topic, NO_ID)), _OFFSETS: {}})
        entry[_OFFSETS][str(number)] = offset
    for (topic, number), offset in sorted(first.items()):
        document[topic].setdefault(_FIRST, {})[str(number)] = offset
    return document


def _ids(document: Mapping[str, Any]) -> dict[str, UUID]:
    return {topic: UUID(entry[_ID]) if _ID in entry else NO_ID for topic, entry in document.items()}
