"""Offsets and topics of the cluster, for the commands that run on Spark.

Through confluent-kafka, as the principal of `upstream.*`: topics' ids and partitions, offsets of
a range, and the offsets that `redrive` has come to.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.configuration import ConfigurationError
from penstock.configuration.clients import client_properties
from penstock.errors import UnavailableError
from penstock.policy import Header, Record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_TIMEOUT_S: Final = 15.0
_OFFSETS: Final = re.compile(r"\d+:\d+(,\d+:\d+)*")
_BITS: Final = 2**64


class ClusterError(UnavailableError):
    """The cluster does not respond, or responds with an error. The message is for users."""


@dataclass(frozen=True)
class Topic:
    """A topic as the cluster describes it.

    Attributes:
        name: Its name.
        topic_id: Its id; zero where the cluster gives none.
        partitions: Its partitions' numbers.
    """

    name: str
    topic_id: UUID
    partitions: tuple[int, ...]


def uuid_of(uuid: Any) -> UUID:
    """Return an id that confluent-kafka returns as two signed numbers of 64 bits."""
    high, low = uuid.get_most_significant_bits(), uuid.get_least_significant_bits()
    return UUID(int=((high % _BITS) << 64) | (low % _BITS))


class Cluster:
    """A cluster, as a client sees it."""

    def __init__(self, properties: Mapping[str, str], folder: Path) -> None:
        """Prepare; nothing is contacted.

        Args:
            properties: The keys after `upstream.`, as a Java client takes them.
            folder: Where relative locations in them start.
        """
        self.servers = properties["bootstrap.servers"]
        self._settings: dict[str, Any] = {
            **client_properties(properties, folder),
            "log_level": 0,
            "client.id": "penstock",
        }

    def topic(self, name: str) -> Topic:
        """Describe a topic.

        Raises:
            ConfigurationError: There is none of this name.
            ClusterError: The cluster does not answer.
        """
        try:
            admin = AdminClient(self._settings)
            found = admin.describe_topics(TopicCollection([name]), request_timeout=_TIMEOUT_S)[
                name
            ].result(_TIMEOUT_S + 1)
        except (KafkaException, TimeoutError) as error:
            code = error.args[0].code() if isinstance(error, KafkaException) else None
            if code in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION}:
                raise ConfigurationError(
                    f"there is no topic {name} on {self.servers}; create it, or name another"
                ) from None
            raise self._unreachable(error) from None
        return Topic(
            name,
            uuid_of(found.topic_id),
            tuple(sorted(partition.id for partition in found.partitions)),
        )

    def create_like(self, name: str, other: Topic) -> None:
        """Create a topic with the partitions of another, if there is none.

        Raises:
            ClusterError: It cannot be created.
        """
        new = NewTopic(name, num_partitions=len(other.partitions), replication_factor=-1)
        admin = AdminClient(self._settings)
        try:
            admin.create_topics([new])[name].result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ClusterError(
                    f"topic {name} cannot be created on {self.servers}: {error.args[0].str()}"
                ) from None

    def bounds(self, topic: Topic) -> dict[int, tuple[int, int]]:
        """Return each partition's first offset and the one after its last."""
        with _Requests(self, "penstock") as consumer:
            return {
                partition: consumer.get_watermark_offsets(
                    TopicPartition(topic.name, partition), _TIMEOUT_S, cached=False
                )
                for partition in topic.partitions
            }

    def offsets(self, topic: Topic, where: str, *, key: str) -> dict[int, int]:
        """Turn a place in a topic into an offset for each partition.

        Args:
            topic: The topic.
            where: `earliest`, `latest`, an ISO time (without a zone: UTC), or `P:N,...`;
                partitions left out of the latter start at their beginning for `--from` and
                end at their end for `--to`.
            key: The option it was given with, for errors and for that default.

        Raises:
            ConfigurationError: It is none of these, or an offset is out of range.
            ClusterError: The cluster does not answer.
        """
        bounds = self.bounds(topic)
        if where in {"earliest", "latest"}:
            return {p: ends[where == "latest"] for p, ends in bounds.items()}
        if _OFFSETS.fullmatch(where):
            return self._given(topic, where, bounds, key)
        try:
            moment = dt.datetime.fromisoformat(where)
        except ValueError:
            raise ConfigurationError(
                f"{key} {where}: must be earliest, latest, an ISO time such as "
                "2026-01-31T12:00:00, or PARTITION:OFFSET,..."
            ) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        since = int(moment.timestamp() * 1000)
        with _Requests(self, "penstock") as consumer:
            partitions = [TopicPartition(topic.name, p, since) for p in topic.partitions]
            found = consumer.offsets_for_times(partitions, _TIMEOUT_S)
        return {
            one.partition: one.offset if one.offset >= 0 else bounds[one.partition][1]
            for one in found
        }

    def _given(
        self, topic: Topic, where: str, bounds: Mapping[int, tuple[int, int]], key: str
    ) -> dict[int, int]:
        offsets = {p: ends[key != "--from"] for p, ends in bounds.items()}
        for part in where.split(","):
            partition, offset = map(int, part.split(":"))
            if partition not in bounds:
                raise ConfigurationError(
                    f"{key} {part}: {topic.name} has the partitions "
                    f"{', '.join(map(str, topic.partitions))}"
                )
            first, end = bounds[partition]
            if not first <= offset <= end:
                raise ConfigurationError(
                    f"{key} {part}: partition {partition} of {topic.name} holds the offsets "
                    f"from {first} up to {end}"
                )
            offsets[partition] = offset
        return offsets

    def record(self, topic: Topic, partition: int, offset: int) -> Record:
        """Read one record.

        Raises:
            ConfigurationError: There is none at this offset.
            ClusterError: The cluster does not answer.
        """
        self._given(topic, f"{partition}:{offset}", self.bounds(topic), "--offset")
        with _Requests(self, "penstock") as consumer:
            consumer.assign([TopicPartition(topic.name, partition, offset)])
            found = consumer.poll(_TIMEOUT_S)
        if found is None:
            raise ClusterError(f"{topic.name} {partition}:{offset} was not sent in time")
        if found.error() or found.offset() != offset:
            raise ConfigurationError(f"--offset {partition}:{offset}: there is no record there")
        pairs: Any = found.headers() or ()
        headers = tuple(Header(key, value) for key, value in pairs)
        return Record(found.timestamp()[1], found.key(), found.value(), headers)

    def committed(self, topic: Topic, group: str) -> dict[int, int]:
        """Return the offsets that a group has committed; the beginning where it has none."""
        bounds = self.bounds(topic)
        with _Requests(self, group) as consumer:
            partitions = [TopicPartition(topic.name, p) for p in topic.partitions]
            found = consumer.committed(partitions, _TIMEOUT_S)
        return {one.partition: max(one.offset, bounds[one.partition][0]) for one in found}

    def commit(self, topic: Topic, group: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets for a group."""
        with _Requests(self, group) as consumer:
            consumer.commit(
                offsets=[TopicPartition(topic.name, p, o) for p, o in offsets.items()],
                asynchronous=False,
            )

    def consumer(self, group: str) -> Consumer:
        """Make a consumer that commits nothing by itself."""
        return Consumer(
            {
                **self._settings,
                "group.id": group,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
            }
        )

    def _unreachable(self, error: BaseException) -> ClusterError:
        why = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
        return ClusterError(f"the cluster at {self.servers} cannot be reached: {why}")


class _Requests:
    """A consumer for some requests; errors are raised as `ClusterError`."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._consumer = cluster.consumer(group)

    def __enter__(self) -> Consumer:
        return self._consumer

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._consumer.close()
        if isinstance(error, KafkaException):
            raise self._cluster._unreachable(error) from None  # noqa: SLF001 - of this module
