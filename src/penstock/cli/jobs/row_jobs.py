"""What `split`, `redact` and `redrive` do where a source or a target is a folder or a table."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.jobs.batches.letter_outcomes import PARKED, RETURNED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.modes.dead_letters import Attempts
    from penstock.jobs.batches.letter_topics import FoundLetters, LetterTopics
    from penstock.jobs.locations import RecordLocation
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.report.bounded_counter import BoundedCounter
    from penstock.jobs.report.counts import Reason
    from penstock.kafka.cluster.offsets import Cluster, Topic
    from penstock.kafka.cluster.ranges import OffsetRange


class RowSource(NamedTuple):
    """The records to read.

    Attributes:
        topics: The topics; none for files.
        ranges: The offset ranges of the topics.
        files: The path of the files of `--input`; empty for others.
        folder: The folder of dead letters, as it was named; None for others.
    """

    topics: Sequence[Topic] = ()
    ranges: Sequence[OffsetRange] = ()
    files: str = ""
    folder: str | None = None


class Letters(NamedTuple):
    """Dead letters to judge again.

    Attributes:
        source: The dead letters. A folder is replaced by the letters that remain.
        locations: The targets by the names of `penstock.jobs.batches.letter_outcomes`.
        target: The topic whose policies judge; None for the original topic of each letter.
        topics: Whose letters return.
        attempts: How often a letter is judged again before it is parked.
        dry_run: Only count.
    """

    source: RowSource
    locations: Mapping[str, RecordLocation]
    target: str | None
    topics: LetterTopics
    attempts: Attempts
    dry_run: bool

    @property
    def appended(self) -> tuple[str, ...]:
        """The sinks whose folders are appended to."""
        return (RETURNED,) if self.source.folder is None else (RETURNED, PARKED)


class RowJobs(Protocol):
    """The commands over rows, on Spark or in this process.

    Each returns the number of records by outcome.
    """

    def split(
        self, source: RowSource, plan: RecordPlan, locations: Mapping[str, RecordLocation]
    ) -> Mapping[str, int]:
        """Write accepted records and dead letters.

        Args:
            locations: The targets, by `ACCEPTED` and `REJECTED` of
                `penstock.jobs.tasks.writing_task`. Folders are empty or missing.
        """

    def redact(
        self, source: RowSource, plan: RecordPlan, target: RecordLocation
    ) -> tuple[Mapping[str, int], BoundedCounter[Reason]]:
        """Write records as interceptors leave them; return why the others are left out, too."""

    def find_letters(self, letters: Letters, plan: RecordPlan) -> FoundLetters:
        """Return whose letters are there; nothing is judged or written."""

    def redrive(
        self, letters: Letters, found_letters: FoundLetters, plan: RecordPlan
    ) -> Mapping[str, int]:
        """Judge dead letters again, with the interceptor that repairs, and write them.

        Args:
            found_letters: From `find_letters`.
            plan: The policies, with the interceptor.
        """


def only(topics: Sequence[Topic]) -> str | None:
    """Return the name of the only topic; None if there are several, or none."""
    return topics[0].name if len(topics) == 1 else None


class LetterRanges:
    """The unfinished offset ranges of a dead letter topic whose records return to a folder.

    A consumer group of the cluster keeps the position.
    """

    def __init__(
        self,
        cluster: Cluster,
        letters: RecordLocation,
        target: RecordLocation,
        topics: LetterTopics,
    ) -> None:
        """Read the position.

        Args:
            topics: Whose letters return; each choice has its position.

        Raises:
            ConfigurationError: There is no such topic.
            ClusterError: The cluster does not answer.
        """
        from penstock.jobs.redrive_job import FORMER_GROUP  # noqa: PLC0415
        from penstock.kafka.client.positions import digest_of  # noqa: PLC0415
        from penstock.kafka.cluster.ranges import OffsetRange  # noqa: PLC0415

        self._cluster = cluster
        path = hashlib.sha256(target.full_path.encode()).hexdigest()[:16]
        self._group = f"{FORMER_GROUP}-path-{path}"
        if topics.parts is not None:
            self._group += f"-{digest_of(topics.parts)}"
        self.topic = cluster.topic(letters.name)
        start = cluster.committed(self.topic, self._group)
        self._end = cluster.offsets(self.topic, "latest", key="--to")
        self.ranges = tuple(
            OffsetRange(self.topic.name, number, start[number], self._end[number])
            for number in self.topic.partitions
        )

    def done(self) -> None:
        """Remember that all of it has been."""
        self._cluster.commit(self.topic, self._group, self._end)
