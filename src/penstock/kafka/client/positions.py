"""Tasks, their names in the cluster, and how far they have come.

A task reads one partition, or a range of it, and its position is the committed offset of the
source partition in the group of its job. The names:

=================  ==================================  =======================================
                   a whole partition                   the range from an offset on
=================  ==================================  =======================================
transactional id   ``penstock-JOB:TOPIC_ID:P``         ``penstock-JOB:TOPIC_ID:P:FIRST``
group              ``penstock-JOB``                    ``penstock-JOB:FIRST``
=================  ==================================  =======================================

`TOPIC_ID` is the id of the source topic as Kafka's tools print it: a topic that was deleted and
created again is another topic. ACLs for all of them are those with the prefix ``penstock-``. Ranges
of one partition have different groups, since a group has one position for a partition.

Groups without members keep their offsets for `offsets.retention.minutes` (7 days) after the last
commit: see `penstock.kafka.cluster.places` for positions that must last longer.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v8.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_commit.v8.response import OffsetCommitResponse
from kio.schema.offset_fetch.v7.request import OffsetFetchRequest, OffsetFetchRequestTopic
from kio.schema.offset_fetch.v7.response import OffsetFetchResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64

from penstock.configuration.errors import ConfigurationError
from penstock.kafka.client.connections.coordinators import CoordinatorKey, send_with_retries
from penstock.kafka.client.errors import ResponseError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from uuid import UUID

    from penstock.kafka.client.connections.connection import Connection

PREFIX: Final = "penstock-"
_LINE: Final = "\n"
_JOB: Final = re.compile(r"[A-Za-z0-9._-]{1,300}")


class Position(NamedTuple):
    """How far a task has come.

    Attributes:
        offset: The next offset to read.
        metadata: A text of the job that was committed with it, such as its counts.
        run: The id of the run of the job that committed it; empty for none.
    """

    offset: int
    metadata: str = ""
    run: str = ""

    @property
    def committed_metadata(self) -> str:
        """Return the metadata of the offset: the run and the text. Brokers accept 4096 bytes."""
        is_plain = not self.run and _LINE not in self.metadata
        return self.metadata if is_plain else f"{self.run}{_LINE}{self.metadata}"

    @classmethod
    def of(cls, offset: int, committed_metadata: str) -> Self:
        """Return the position that was committed."""
        run, line, text = committed_metadata.partition(_LINE)
        return cls(offset, text, run) if line else cls(offset, run)


class Claim(NamedTuple):
    """The claim of one run of a job to a task, so that two runs at a time do not alternate.

    Attempts at a task in the same run cannot be distinguished: the last wins. But a run that finds
    another's claim ends, unless it began after that run.

    Attributes:
        run: The id of this run, the same for all of its attempts, without line breaks.
        earlier_runs: The runs that had tasks of the job when this run began: a run that is at work
            may claim others of its tasks only later.
        start: Where the task begins if nothing has been committed.
        again: It begins there, too, where others have committed a position.
    """

    run: str
    earlier_runs: frozenset[str]
    start: int
    again: bool = False

    def allows(self, position: Position | None) -> bool:
        """Return whether the run that has come to a position may be followed by this run."""
        return position is None or position.run in {"", self.run, *self.earlier_runs}

    def first(self, position: Position | None) -> Position | None:
        """Return the first commit, which shows that the task belongs to this run.

        None where it has been.
        """
        if position is not None and position.run == self.run:
            return None
        return Position(self.start if position is None or self.again else position.offset)


class PositionTask(NamedTuple):
    """The range of records that a writer works on.

    Attributes:
        job: The id of the job: letters, digits, `.`, `_` and `-`, at most 300.
        topic: The source topic.
        topic_id: Its id; zero where the cluster has none.
        partition: The source partition.
        first: Where the range begins, if the partition is cut into ranges that are worked on at
            the same time; or None.
    """

    job: str
    topic: str
    topic_id: UUID
    partition: int
    first: int | None = None

    @property
    def transactional_id(self) -> str:
        """Of its transactions: there is one writer with it at a time."""
        return f"{PREFIX}{self.job}:{short_id(self.topic_id)}:{self.partition}{self._suffix}"

    @property
    def group(self) -> str:
        """The group whose committed offset is its position."""
        return f"{PREFIX}{self.job}{self._suffix}"

    @property
    def _suffix(self) -> str:
        return "" if self.first is None else f":{self.first}"


def short_id(topic_id: UUID) -> str:
    """Return a topic id as Kafka's tools print it."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def redrive_job(target: str, target_id: UUID, topics: Collection[str]) -> str:
    """Return the id of the job that returns dead letters to a topic.

    With the topic's id: a topic that was created again has got nothing back yet.

    Args:
        topics: The names and globs of the topics whose letters return. Each choice is a job:
            it leaves out the others.
    """
    name = f"redrive-{target}-{short_id(target_id)}"
    return name if set(topics) == {target} else f"{name}-{digest_of(topics)}"


def digest_of(topics: Iterable[str]) -> str:
    """Return a short text that is the same for the same names and globs of topics."""
    return hashlib.sha256(",".join(sorted(topics)).encode()).hexdigest()[:16]


def check_job(job: str, option: str) -> str:
    """Return the id of a job if it is valid.

    Args:
        option: How it was given, for the error.

    Raises:
        ConfigurationError: It cannot.
    """
    if not _JOB.fullmatch(job):
        raise ConfigurationError(
            f"{option} {job}: must be letters, digits, '.', '_' and '-', 1 to 300 of them"
        )
    return job


def read_positions(
    connection: Connection, group: str, partitions: Mapping[str, Collection[int]]
) -> dict[tuple[str, int], Position]:
    """Return the committed offsets of a group; without partitions that have none.

    Offsets that a transaction is about to commit are waited for (`require_stable`, KIP-447).

    Args:
        connection: To the cluster.
        group: From `PositionTask.group`.
        partitions: By topic.

    Raises:
        ClientError: They cannot be read: denied, or no response in time.
    """
    return _read(connection, group, partitions, stable=True)


def read_last_positions(
    connection: Connection, group: str, partitions: Mapping[str, Collection[int]]
) -> dict[tuple[str, int], Position]:
    """Return what `read_positions` does, without waiting for a writer that was killed.

    It can leave a transaction open that was about to commit a position, until the next writer of
    its task fences it, or its time is over. Then the positions before it are returned: they show
    where the task was, and not where to continue.

    Args:
        connection: To the cluster.
        group: From `PositionTask.group`.
        partitions: By topic.

    Raises:
        ClientError: They cannot be read: denied, or no response in time.
    """
    try:
        return read_positions(connection, group, partitions)
    except ResponseError as error:
        if error.code != ErrorCode.unstable_offset_commit:
            raise
        return _read(connection, group, partitions, stable=False)


def peek_positions(
    connection: Connection, group: str, partitions: Mapping[str, Collection[int]]
) -> dict[tuple[str, int], Position]:
    """Return what `read_positions` does, as of now: a writer may be about to commit a position.

    Args:
        connection: To the cluster.
        group: From `PositionTask.group`.
        partitions: By topic.

    Raises:
        ClientError: They cannot be read: denied, or no response in time.
    """
    return _read(connection, group, partitions, stable=False)


def _read(
    connection: Connection, group: str, partitions: Mapping[str, Collection[int]], *, stable: bool
) -> dict[tuple[str, int], Position]:
    request = OffsetFetchRequest(
        group_id=GroupId(group),
        topics=tuple(
            OffsetFetchRequestTopic(
                name=TopicName(topic), partition_indexes=tuple(map(i32, numbers))
            )
            for topic, numbers in partitions.items()
        ),
        require_stable=stable,
    )
    response = send_with_retries(
        connection, CoordinatorKey(group), request, OffsetFetchResponse, _fetch_codes
    )
    return {
        (str(topic.name), int(partition.partition_index)): Position.of(
            int(partition.committed_offset), partition.metadata or ""
        )
        for topic in response.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0
    }


def commit_positions(
    connection: Connection, group: str, positions: Mapping[tuple[str, int], Position]
) -> None:
    """Commit offsets outside of transactions, to a group without members.

    Args:
        connection: To the cluster.
        group: From `PositionTask.group`.
        positions: By topic and partition.

    Raises:
        ClientError: They cannot be committed: denied, or no response in time.
    """
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), position in positions.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=i32(partition),
                committed_offset=i64(position.offset),
                committed_metadata=position.committed_metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=GroupId(group),
        member_id="",
        topics=tuple(
            OffsetCommitRequestTopic(name=TopicName(topic), partitions=tuple(partitions))
            for topic, partitions in topics.items()
        ),
    )
    send_with_retries(
        connection, CoordinatorKey(group), request, OffsetCommitResponse, _commit_codes
    )


def _fetch_codes(response: OffsetFetchResponse) -> list[int]:
    codes = [partition.error_code for topic in response.topics for partition in topic.partitions]
    return [response.error_code, *codes]


def _commit_codes(response: OffsetCommitResponse) -> list[int]:
    return [partition.error_code for topic in response.topics for partition in topic.partitions]
