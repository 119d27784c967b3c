"""The topics of a stream, as the cluster has them now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.jobs.positions import check_runs, group_of, placed
from penstock.kafka.client.errors import response_error
from penstock.kafka.client.partitions import numbers_by_topic
from penstock.kafka.client.positions import Position, commit_positions, read_positions
from penstock.kafka.cluster.ranges import Partition
from penstock.kafka.cluster.topic_names import existing
from penstock.kafka.wire.errors import RETRIABLE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from uuid import UUID

    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.cluster.offset_requests import Answers
    from penstock.kafka.cluster.offsets import Cluster, Topic
    from penstock.kafka.cluster.places import Places


class StreamSource:
    """Sends requests to the cluster; none is retried here."""

    def __init__(
        self,
        cluster: Cluster,
        connection: Connection,
        topic_option: str,
        job: str,
        run: str,
        target_topics: Collection[str],
        *,
        topic_ids: Mapping[str, UUID],
        places: Places,
    ) -> None:
        """Prepare; nothing is contacted.

        Args:
            connection: To the same cluster.
            topic_option: The value of `--topic`.
            job: The id of the job.
            run: The id of this run.
            target_topics: Topics that are written to, which no glob means.
            topic_ids: The ids of the existing topics, by name.
            places: The places of the job when it began.
        """
        self._ids = dict(topic_ids)
        self._places = places
        self._cluster = cluster
        self._connection = connection
        self._given = topic_option
        self._group = group_of(job)
        self._job = job
        self._run = run
        self._written = frozenset(target_topics)

    def topics(self) -> tuple[Topic, ...]:
        """Return the topics that there are now.

        Raises:
            ClusterError: The cluster does not answer.
        """
        topics = self._cluster.existing_topics(self._given, without=self._written)
        self._ids |= {topic.name: topic.topic_id for topic in topics}
        return topics

    def read_earlier(self) -> AbstractSet[str]:
        """Return the topics that runs of the job have read, as far as they are still meant."""
        earlier_topics = self._places.topics_of(self._job)
        return set(existing(self._given, earlier_topics, without=self._written))

    def deleted(self, names: AbstractSet[str]) -> AbstractSet[str]:
        """Return those of some topics that do not exist.

        Raises:
            NotDescribedError: The principal may not describe one.
            ClusterError: The cluster does not answer.
        """
        return self._cluster.missing(names)

    def positions(self, partitions: Iterable[Partition]) -> Mapping[Partition, Position]:
        """Return the positions of partitions; without those that have none.

        They are the committed offsets, and the places of partitions that have none any more.

        Raises:
            LostPlaceError: A place cannot be read.
            ClientError: They cannot be read.
        """
        partitions = tuple(partitions)
        partition_numbers = numbers_by_topic(partitions)
        if not partition_numbers:
            return {}
        positions = read_positions(self._connection, self._group, partition_numbers)
        committed = {Partition(*partition): position for partition, position in positions.items()}
        rest = set(partitions) - committed.keys()
        return placed(self._job, self._ids, rest, self._places) | committed

    def check(self, runs: Iterable[str]) -> None:
        """Check that earlier runs of the job did the same; see `check_runs`."""
        check_runs(self._job, self._run, runs)

    def commit(self, positions: Mapping[Partition, Position]) -> None:
        """Commit positions of partitions that no task works on.

        Raises:
            ClientError: They cannot be committed.
        """
        commit_positions(
            self._connection,
            self._group,
            {
                (partition.topic, partition.number): position
                for partition, position in positions.items()
            },
        )

    def starts(self, partitions: Sequence[Partition]) -> Mapping[Partition, int]:
        """Return where logs start; without those whose leader does not answer now.

        Raises:
            ClientError: A broker refuses it.
        """
        return _offsets(self._cluster.log_starts(partitions))

    def ends(self, partitions: Sequence[Partition]) -> Mapping[Partition, int]:
        """Return where the committed records of logs end; otherwise as `starts`."""
        return _offsets(self._cluster.log_ends(partitions))


def _offsets(answers: Answers) -> dict[Partition, int]:
    """Return the offsets of those partitions that have a leader now."""
    offsets = {}
    for partition, answer in answers.items():
        if isinstance(answer, int):
            offsets[partition] = answer
        elif answer.code >= 0 and answer.code not in RETRIABLE:
            raise response_error(answer.code, str(partition))
        # Codes below 0: there is no connection, or no answer in time.
    return offsets
