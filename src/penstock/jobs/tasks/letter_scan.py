"""Reads a topic of dead letters, and finds out whose letters are there, before one is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.jobs.batches.letter_topics import FoundLetters, LetterCounter, LetterTopics
from penstock.jobs.batches.task import ignore, read_batch
from penstock.jobs.tasks.planning import plan_tasks
from penstock.kafka.client.reading.reader import RangeReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from penstock.jobs.batches.task import TaskLimits
    from penstock.jobs.runner import OffsetCounter, Runner
    from penstock.jobs.tasks.planning import Task
    from penstock.jobs.topics.access import ClusterAccess
    from penstock.kafka.cluster.ranges import OffsetRange
    from penstock.kafka.records.stored_batch import StoredBatch


@dataclass(frozen=True)
class LetterScan:
    """Counts the letters of a task's ranges.

    Attributes:
        topic_ids: The ids of the topics that are read, by topic.
        limits: Of a batch that is read.
        topics: Whose letters are judged again.
    """

    access: ClusterAccess
    topic_ids: Mapping[str, UUID]
    limits: TaskLimits
    topics: LetterTopics

    def __call__(self, task: Task) -> Iterator[bytes | None]:
        """Do a task; yields None while it is at work, and its result.

        Raises:
            ConfigurationError: No connection can be made.
            ClientError: The cluster cannot be reached in time, or refuses.
            UnreadableBatchError: A batch is damaged.
        """
        connection, counter = self.access.connect(), LetterCounter(self.topics)
        for offsets in task.wanted(self.topic_ids):
            place = f"{offsets.topic}-{offsets.partition}"
            for fetched in RangeReader(connection, offsets, on_lost=ignore):
                batch = read_batch(fetched, offsets, self.limits)
                if not batch.is_control:
                    count_batch(batch, counter, place)
                yield None
        yield counter.found.encode()


def count_batch(batch: StoredBatch, counter: LetterCounter, place: str) -> None:
    """Count the records of a batch.

    Args:
        counter: Counts them.
        place: Its partition, for an error.
    """
    records = batch.records
    fields = zip(batch.offsets, records.headers, records.keys, records.values, strict=True)
    for offset, headers, key, value in fields:
        is_empty = key is None and value is None
        counter.add(headers, f"{place}, offset {offset}", is_empty=is_empty)


def scan_letters(
    runner: Runner, ranges: Sequence[OffsetRange], scan: LetterScan, counter: OffsetCounter
) -> FoundLetters:
    """Return whose letters are in offset ranges.

    Args:
        runner: Runs tasks.
        ranges: The ranges to read.
        scan: The work of tasks.
        counter: Counts the offsets of the tasks that have ended.
    """
    tasks = plan_tasks(ranges, cores=runner.cores)
    encoded_letters = runner.run(tasks, scan, _merged, counter=counter)
    return FoundLetters() if encoded_letters is None else FoundLetters.decode(encoded_letters)


def _merged(results: Iterable[bytes]) -> bytes:
    return FoundLetters.sum_of(results).encode()
