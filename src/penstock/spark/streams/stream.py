"""The loop of a stream: looks at its topics again and again, and has micro-batches done.

While there are no new records, the stream only looks up where logs end. It waits for temporary
failures: of a leader, a broker, all of them. Topics are looked up now and then: new
topics, new partitions, and deleted topics.
"""

from __future__ import annotations

import time
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.errors import UnavailableError
from penstock.kafka.client.errors import ClientError
from penstock.kafka.client.positions import Position
from penstock.kafka.cluster.errors import ClusterError, NotDescribedError
from penstock.kafka.wire.names import NO_ID, is_another
from penstock.spark.execution.failures import SparkError
from penstock.spark.streams.offsets import KEPT_AT_ONCE, StreamOffsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from uuid import UUID

    from penstock.jobs.tasks.planning import Limit
    from penstock.jobs.tasks.writing_task import WritingResult
    from penstock.kafka.cluster.offsets import Topic
    from penstock.kafka.cluster.ranges import Partition
    from penstock.spark.streams.offsets import MicroBatch

TOPICS_EVERY_S: Final = 30.0
_PAUSE_MAX_S: Final = 30.0
_LEADERS_WITHIN_S: Final = 60.0
"""As long as Kafka's clients wait (`default.api.timeout.ms`)."""
_NAMED_MAX: Final = 3


class StreamTopics(Protocol):
    """The topics; `penstock.spark.streams.source.StreamSource`."""

    def topics(self) -> tuple[Topic, ...]: ...

    def read_earlier(self) -> AbstractSet[str]: ...

    def deleted(self, names: AbstractSet[str]) -> AbstractSet[str]: ...

    def positions(self, partitions: Iterable[Partition]) -> Mapping[Partition, Position]: ...

    def check(self, runs: Iterable[str]) -> None: ...

    def commit(self, positions: Mapping[Partition, Position]) -> None: ...

    def starts(self, partitions: Sequence[Partition]) -> Mapping[Partition, int]: ...

    def ends(self, partitions: Sequence[Partition]) -> Mapping[Partition, int]: ...


class MicroBatchWork(Protocol):
    """Has Spark do a micro-batch."""

    def __call__(
        self,
        batch: MicroBatch,
        counted_as: str,
        topics: Mapping[str, Topic],
        earlier_runs: frozenset[str],
    ) -> WritingResult:
        """Do a micro-batch.

        Args:
            counted_as: The owner of its counts.
            topics: All topics, by name.
            earlier_runs: The runs that had tasks of the job when this run began.

        Raises:
            UnavailableError: The cluster fails.
            PySparkException: The job fails.
        """


class Observer(Protocol):
    """Observes a stream."""

    def looked(self, behind: Mapping[Partition, int], unavailable: int) -> None:
        """Take note of how many offsets partitions are behind, and how many cannot be read now."""

    def done(self, batch: MicroBatch, result: WritingResult, seconds: float) -> None:
        """Take note of a micro-batch."""

    def warn(self, text: str) -> None:
        """Report a problem and its remedy; may be called often with the same."""

    def note(self, text: str) -> None:
        """Report a change."""


class StreamSettings(NamedTuple):
    """How a stream continues.

    Attributes:
        run: The id of the run.
        limit: The most of a micro-batch.
        every_s: How often new records are looked for. If there are more than fit into a
            micro-batch, the next begins at once.
        strict: End with an error where records were removed before they were read.
        available_now: End where the logs end at the beginning.
        again: Begin again, wherever earlier runs of the job have come to.
    """

    run: str
    limit: Limit
    every_s: float = 1.0
    strict: bool = False
    available_now: bool = False
    again: bool = False


class _Round(Enum):
    """The result of a look-up of the topics."""

    MORE = auto()
    """There is more to be done, at once."""
    IDLE = auto()
    TROUBLE = auto()
    """Something failed for now, and nothing was done."""
    END = auto()


class Stream:
    """A stream from topics to topics."""

    def __init__(
        self,
        source: StreamTopics,
        work: MicroBatchWork,
        observer: Observer,
        settings: StreamSettings,
        *,
        is_ended: Callable[[], bool],
        wait: Callable[[float], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is contacted.

        Args:
            work: Does micro-batches.
            observer: Observes the stream.
            settings: How it continues.
            is_ended: Whether to end; the current micro-batch is finished first.
            wait: Waits for seconds, or until `is_ended`.
            clock: Returns seconds that never go back.
        """
        self._source = source
        self._work = work
        self._observer = observer
        self._settings = settings
        self._is_ended = is_ended
        self._wait = wait
        self._clock = clock
        self._offsets = StreamOffsets(settings.run, available_now=settings.available_now)
        self._topics: dict[str, Topic] = {}
        self._ids: dict[str, UUID] = {}
        self._seen: frozenset[str] = frozenset()
        self._unavailable = 0
        self._topics_at = clock() + TOPICS_EVERY_S

    def begin(
        self, topics: Sequence[Topic], first: Callable[[], Mapping[Partition, int]] | None
    ) -> int:
        """Find where the stream continues; return how many partitions have a position already.

        Positions are waited for: a run that was killed may have left a transaction with a position.

        Args:
            first: Returns where a job begins that has no position yet; None for where the logs
                start, as it is for partitions that come later.

        Raises:
            ConfigurationError: Another command has used the id of the job.
            UnavailableError: The cluster does not answer, or does not describe a topic that
                earlier runs of the job have read.
        """
        partitions = _partitions(topics)
        positions = self._wait_for_positions(partitions)
        if positions is None:
            return 0
        self._seen = frozenset(position.run for position in positions.values())
        self._source.check(self._seen)
        self._source.deleted(self._source.read_earlier() - {topic.name for topic in topics})
        self._topics = {topic.name: topic for topic in topics}
        self._ids = {topic.name: topic.topic_id for topic in topics}
        if (positions and not self._settings.again) or first is None:
            self._add(partitions, positions)
            if self._settings.available_now:
                self._wait_for_starts(partitions)
            return len(positions)
        for partition, offset in first().items():
            self._offsets.add(partition, offset)
        self._commit_first()
        return 0

    def _wait_for_positions(
        self, partitions: Sequence[Partition]
    ) -> Mapping[Partition, Position] | None:
        """Return the committed positions; None if it was ended before they could be read."""
        while not self._is_ended():
            try:
                return self._source.positions(partitions)
            except UnavailableError as error:
                if not _may_pass(error):
                    raise
                self._observer.warn(f"{error}; waiting")
                self._wait(1.0)
        return None

    def _wait_for_starts(self, partitions: Sequence[Partition]) -> None:
        """Wait until all partitions are added: a leader may be elected in a moment."""
        deadline = self._clock() + _LEADERS_WITHIN_S
        while not self._is_ended():
            missing_partitions = sorted(set(partitions) - set(self._offsets.partitions))
            if not missing_partitions:
                return
            if self._clock() >= deadline:
                raise ClusterError(
                    f"{_named(missing_partitions)} cannot be read: no leader answers"
                )
            self._observer.warn(f"{_named(missing_partitions)}: no leader answers; waiting")
            self._wait(1.0)
            self._add(missing_partitions, {})

    def _commit_first(self) -> None:
        """Commit where the job begins: another run could not find out any more."""
        batch = self._offsets.first()
        while batch.kept and not self._is_ended():
            result = self._do(batch)
            self._offsets.done(batch, result, self._clock())
            failed = {(entry.topic, entry.partition) for entry in result.unfinished}
            kept_ranges = tuple(
                offset_range for offset_range in batch.kept if offset_range.of in failed
            )
            batch = self._offsets.first()._replace(kept=kept_ranges)
            self._report_failures(result)
            if kept_ranges:
                self._wait(1.0)

    def run(self) -> None:
        """Go on until the end.

        Raises:
            UnavailableError: The cluster refuses, or records were removed and `strict` is set.
            PySparkException: A job failed.
        """
        failures = 0
        every_s = 1.0 if self._settings.available_now else self._settings.every_s
        while not self._is_ended():
            began = self._clock()
            try:
                outcome = self._round()
            except UnavailableError as error:
                if not _may_pass(error):
                    raise
                self._observer.warn(f"{error}; waiting")
                self._topics_at = began
                outcome = _Round.TROUBLE
            failures = failures + 1 if outcome is _Round.TROUBLE else 0
            if outcome is _Round.END:
                return
            if outcome is _Round.IDLE:
                self._wait(max(began + every_s - self._clock(), 0))
            elif outcome is _Round.TROUBLE:
                self._wait(min(2.0 ** (failures - 1), _PAUSE_MAX_S))

    def _round(self) -> _Round:
        now = self._clock()
        if now >= self._topics_at:
            self._look_for_topics()
        partitions = self._offsets.partitions
        ends = self._source.ends(partitions)
        self._offsets.learn(ends, now)
        pending = self._offsets.pending(ends)
        starts = self._source.starts(pending) if pending else {}
        missing_partitions = {
            *(partition for partition in partitions if partition not in ends),
            *pending,
        } - starts.keys()
        self._unavailable = len(missing_partitions)
        self._observer.looked(self._offsets.behind, self._unavailable)
        if missing_partitions:
            self._observer.warn(f"{_named(missing_partitions)} cannot be read now; waiting")
            self._topics_at = now
        available = [partition for partition in ends if partition not in missing_partitions]
        batch = self._offsets.next(available, starts, self._settings.limit, now)
        if batch is not None:
            return self._done(batch)
        is_end = self._settings.available_now and self._offsets.is_at_end
        return _Round.END if is_end else _Round.IDLE

    def _done(self, batch: MicroBatch) -> _Round:
        began = self._clock()
        try:
            result = self._do(batch)
        except Exception:
            if not self._is_ended():
                raise
            # Everything that ends this process has ended Spark, too: the next run continues.
            self._observer.note("the last micro-batch was given up; the next run goes on with it")
            return _Round.END
        is_any = self._offsets.done(batch, result, self._clock())
        self._observer.looked(self._offsets.behind, self._unavailable)
        self._observer.done(batch, result, self._clock() - began)
        self._report_failures(result)
        if result.counts.removed:
            self._report_removed(result)
        if not is_any:
            return _Round.TROUBLE
        if self._settings.available_now:
            return _Round.MORE
        is_more = any(self._offsets.behind.values()) or len(batch.kept) == KEPT_AT_ONCE
        return _Round.MORE if is_more else _Round.IDLE

    def _do(self, batch: MicroBatch) -> WritingResult:
        return self._work(batch, self._offsets.counted_as(batch), self._topics, self._seen)

    def _report_failures(self, result: WritingResult) -> None:
        failed = [entry for entry in result.unfinished if entry.reason]
        if failed:
            self._topics_at = self._clock()
            more = f" (and {len(failed) - 1:,} more partitions)" if len(failed) > 1 else ""
            self._observer.warn(f"{failed[0].reason}{more}; waiting")

    def _report_removed(self, result: WritingResult) -> None:
        shown = ", ".join(f"{count:,} of {topic}" for topic, count in result.removed.items())
        text = f"{shown}: offsets were removed before they were read (retention)"
        if self._settings.strict:
            raise SparkError(f"{text}; all others up to here are written")
        self._observer.note(f"warning: {text}")

    def _look_for_topics(self) -> None:
        """Drop topics that are gone, and add new topics and new partitions."""
        current_topics = {topic.name: topic for topic in self._source.topics()}
        deleted = self._source.deleted(self._topics.keys() - current_topics.keys())
        self._topics_at = self._clock() + TOPICS_EVERY_S
        for name, topic in list(self._topics.items()):
            if name not in current_topics:
                if name not in deleted:
                    continue  # a broker did not list it for a moment
                self._observer.note(note_of_deleted(name))
            elif is_another(topic.topic_id, current_topics[name].topic_id):
                self._observer.note(f"topic {name} was deleted and created again")
            else:
                continue
            self._offsets.drop(name)
            del self._topics[name]
        if self._settings.available_now:
            return
        new = [
            partition
            for partition in _partitions(current_topics.values())
            if partition not in self._offsets
        ]
        if new:
            self._add_new(current_topics, new)

    def _add_new(self, current_topics: Mapping[str, Topic], new: Sequence[Partition]) -> None:
        again = {
            name
            for name, topic in current_topics.items()
            if is_another(self._ids.get(name, NO_ID), topic.topic_id)
        }
        if again:
            # The committed position of the name belongs to a topic that was deleted.
            starts = self._source.starts(
                [partition for partition in new if partition.topic in again]
            )
            run = self._settings.run
            self._source.commit(
                {partition: Position(offset, run=run) for partition, offset in starts.items()}
            )
            new = [
                partition
                for partition in new
                if partition.topic not in again or partition in starts
            ]
        self._add(new, self._source.positions(new))
        for name in {partition.topic for partition in new}:
            if name not in self._topics:
                self._observer.note(f"topic {name} is new; the stream reads it, too")
            self._topics[name] = current_topics[name]
            self._ids[name] = current_topics[name].topic_id

    def _add(
        self, partitions: Sequence[Partition], positions: Mapping[Partition, Position]
    ) -> None:
        """Add partitions, each at its position, or where its log starts."""
        without = [partition for partition in partitions if partition not in positions]
        starts = self._source.starts(without) if without else {}
        for partition in partitions:
            if partition in positions:
                self._offsets.add(partition, positions[partition].offset)
            elif partition in starts:
                self._offsets.add(partition, starts[partition])
        if len(starts) < len(without):
            self._topics_at = self._clock()


def note_of_deleted(topic: str) -> str:
    """Return what is printed when a topic of a stream was deleted."""
    return f"topic {topic} was deleted; the stream continues without it"


def _partitions(topics: Iterable[Topic]) -> list[Partition]:
    return [partition for topic in topics for partition in topic.all_partitions]


def _named(partitions: Iterable[Partition]) -> str:
    ordered = sorted(partitions)
    shown = ", ".join(map(str, ordered[:_NAMED_MAX]))
    more = len(ordered) - _NAMED_MAX
    return shown + (f" and {more:,} more partitions" if more > 0 else "")


def _may_pass(error: UnavailableError) -> bool:
    if isinstance(error, ClientError):
        return error.retriable
    return isinstance(error, ClusterError) and not isinstance(error, NotDescribedError)
