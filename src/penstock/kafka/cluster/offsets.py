"""Offsets and topics of the cluster, for commands that read stored records.

Through confluent-kafka, as the principal of `upstream.*`: topics' ids and partitions, offsets of
a range, and the offsets that `redrive` has come to.
"""

from __future__ import annotations

import datetime as dt
import re
import time
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from penstock.configuration import ConfigurationError
from penstock.configuration.globs import is_glob
from penstock.kafka.cluster import created_topics, librdkafka, offset_requests, topic_names
from penstock.kafka.cluster.errors import ClusterError, NotDescribedError
from penstock.kafka.cluster.futures import result_of
from penstock.kafka.cluster.librdkafka import admin_client, client_settings
from penstock.kafka.cluster.offset_requests import all_offsets, in_chunks
from penstock.kafka.cluster.ranges import OffsetRange, Partition
from penstock.policy import Header, Record
from penstock.progress import waiting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from penstock.kafka.cluster.offset_requests import Answers

_TIMEOUT_S: Final = 15.0
_TOPICS_AT_ONCE: Final = 500
_PAUSE_S: Final = 0.2
_ERRORS_MAX: Final = 10
_ALL_BROKERS_DOWN: Final = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - its name
_NO_COORDINATOR_YET: Final = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Errors of a cluster whose first group this is."""
_NO_TOPIC: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})
_BOUNDS: Final = frozenset({"earliest", "latest"})
_OFFSETS: Final = re.compile(r"\d+:\d+(,\d+:\d+)*")
_BITS: Final = 2**64


@dataclass(frozen=True)
class Topic:
    """A topic as the cluster describes it.

    Attributes:
        topic_id: Its id; zero if the cluster returns none.
        partitions: Its partitions' numbers.
    """

    name: str
    topic_id: UUID
    partitions: tuple[int, ...]

    @property
    def all_partitions(self) -> tuple[Partition, ...]:
        """Its partitions, with its name."""
        return tuple(Partition(self.name, number) for number in self.partitions)


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
        self._errors: deque[KafkaError] = deque(maxlen=_ERRORS_MAX)
        self._settings = {
            **client_settings(properties, folder),
            "error_cb": self._errors.append,
        }

    def topics(self, patterns: str, *, without: Collection[str] = ()) -> tuple[Topic, ...]:
        """Describe the topics that `--topic` means: names and globs, separated by commas.

        Args:
            patterns: The value of `--topic`.
            without: Topics that no glob means.

        Raises:
            ConfigurationError: One of them does not exist, or a glob matches none.
            NotDescribedError: The principal may not describe one that is named.
            ClusterError: The cluster does not answer.
        """
        names = topic_names.parse(patterns)
        if any(map(is_glob, names)):
            listed = self.names()
            self.missing({name for name in names if not is_glob(name)} - listed)
            names = topic_names.select(patterns, listed, servers=self.servers, without=without)
        return self._described(names)

    def existing_topics(self, patterns: str, *, without: Collection[str] = ()) -> tuple[Topic, ...]:
        """Describe those of the topics that `--topic` means that exist now; perhaps none.

        Args:
            patterns: The value of `--topic`.
            without: Topics that no glob means.

        Raises:
            ClusterError: The cluster does not answer.
        """
        names = topic_names.parse(patterns)
        if any(map(is_glob, names)):
            names = topic_names.existing(patterns, self.names(), without=without)
        return tuple(
            _topic(name, description)
            for name, description in self._answers(tuple(names))
            if description is not None and not isinstance(description, NotDescribedError)
        )

    def log_starts(self, partitions: Sequence[Partition]) -> Answers:
        """Return the first offset of each partition, or the error; without a retry."""
        return in_chunks(partitions, offset_requests.earliest_of(self._admin))

    def log_ends(self, partitions: Sequence[Partition]) -> Answers:
        """Return the offset after the last committed record of each partition, or why not."""
        return in_chunks(partitions, offset_requests.latest_of(self._admin))

    def topic(self, name: str) -> Topic:
        """Describe a topic.

        Raises:
            ConfigurationError: There is no topic of this name.
            ClusterError: The cluster does not respond.
        """
        return self._described((name,))[0]

    def exists(self, name: str) -> bool:
        """Return whether there is a topic of a name.

        Raises:
            ClusterError: The cluster does not answer.
        """
        return name in self.names()

    def missing(self, names: Collection[str]) -> set[str]:
        """Return those of some topics that do not exist.

        The cluster says so of each by its name: a list of all topics also leaves out those that the
        principal may not describe.

        Raises:
            NotDescribedError: The principal may not describe one.
            ClusterError: The cluster does not answer.
        """
        return {name for name, answer in self._descriptions(tuple(names)) if answer is None}

    def hidden(self, names: Collection[str]) -> set[str]:
        """Return those of some topics that the principal may not describe.

        The cluster does not say whether these exist.

        Raises:
            ClusterError: The cluster does not answer.
        """
        answers = self._answers(tuple(names))
        return {name for name, answer in answers if isinstance(answer, NotDescribedError)}

    def _described(self, names: tuple[str, ...]) -> tuple[Topic, ...]:
        topics = []
        for name, description in self._descriptions(names):
            if description is None:
                raise ConfigurationError(topic_names.unknown(name, self.names(), self.servers))
            topics.append(_topic(name, description))
        return tuple(topics)

    def _descriptions(self, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        """Yield each topic with what the cluster says of it; None if it does not exist."""
        for name, answer in self._answers(names):
            if isinstance(answer, NotDescribedError):
                raise answer
            yield name, answer

    def _answers(self, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        """Yield what `_descriptions` does, and the errors of topics that may not be described."""
        for start in range(0, len(names), _TOPICS_AT_ONCE):
            some = TopicCollection(list(names[start : start + _TOPICS_AT_ONCE]))
            for name, future in self._admin.describe_topics(
                some, request_timeout=_TIMEOUT_S
            ).items():
                try:
                    with self._waiting():
                        answer = result_of(future, _TIMEOUT_S + 1)
                except (KafkaException, TimeoutError) as error:
                    code = error.args[0].code() if isinstance(error, KafkaException) else None
                    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                        answer = NotDescribedError(name)
                    elif code in _NO_TOPIC:
                        answer = None
                    else:
                        raise self._unreachable(error) from None
                yield name, answer

    def names(self) -> frozenset[str]:
        """Return the names of all topics.

        Raises:
            ClusterError: The cluster does not answer.
        """
        try:
            with self._waiting():
                return frozenset(self._admin.list_topics(timeout=_TIMEOUT_S).topics)
        except KafkaException as error:
            raise self._unreachable(error) from None

    @cached_property
    def _admin(self) -> AdminClient:
        try:
            return admin_client(self._settings)
        except KafkaException as error:
            raise self._unreachable(error) from None

    def create_like(self, name: str, other: Topic) -> None:
        """Create a topic with the partitions of another, if it does not exist.

        A broker may know a new topic a moment after the controller has created it, so this waits.

        Raises:
            ClusterError: It cannot be created, or brokers do not know it in time.
        """
        new = NewTopic(name, num_partitions=len(other.partitions), replication_factor=-1)
        try:
            is_known = created_topics.create(self._admin, new, _TIMEOUT_S)
        except KafkaException as error:
            raise ClusterError(
                f"topic {name} cannot be created on {self.servers}: {error.args[0].str()}"
            ) from None
        if not is_known:
            raise ClusterError(f"topic {name} was created on {self.servers}, but is not found")

    def max_message_bytes(self, name: str) -> int:
        """Return the size of the largest batch that a topic takes: its `max.message.bytes`.

        Raises:
            ClusterError: The cluster refuses, such as for its ACLs.
        """
        resource = ConfigResource(ResourceType.TOPIC, name)
        try:
            configs = result_of(self._admin.describe_configs([resource])[resource], _TIMEOUT_S)
        except (KafkaException, TimeoutError) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
            raise ClusterError(
                f"max.message.bytes of topic {name} cannot be read: {reason}"
            ) from None
        return int(configs["max.message.bytes"].value)

    def bounds(self, topic: Topic) -> dict[int, tuple[int, int]]:
        """Return each partition's first offset and the offset after its last.

        Raises:
            ClusterError: The cluster does not answer.
        """
        return self._bounds((topic,))[topic.name]

    def ranges(
        self, topics: Sequence[Topic], start: str, end: str = "latest"
    ) -> tuple[OffsetRange, ...]:
        """Return the offsets from and up to which each partition is read.

        With four requests to each broker at most, and two where no time is given.

        Args:
            start: The value of `--from`, as for `offsets`.
            end: The value of `--to`.

        Raises:
            ConfigurationError: A value is not one of these, or an offset is out of range, or the
                start is behind the end.
            ClusterError: The cluster does not answer.
        """
        bounds = self._bounds(topics)
        starts = self._places(topics, start, bounds, "--from")
        ends = self._places(topics, end, bounds, "--to")
        offset_ranges = []
        for topic in topics:
            for partition in topic.all_partitions:
                offset_range = OffsetRange(*partition, starts[partition], ends[partition])
                if offset_range.start > offset_range.end:
                    raise ConfigurationError(
                        f"--from {start} is after --to {end} in partition {partition.number} of "
                        f"{topic.name}: {offset_range.start} and {offset_range.end}"
                    )
                offset_ranges.append(offset_range)
        return tuple(offset_ranges)

    def offsets(self, topic: Topic, where: str, *, key: str) -> dict[int, int]:
        """Turn a place in a topic into an offset for each partition.

        Args:
            where: `earliest`, `latest`, an ISO time (without a zone: UTC), or `P:N,...`;
                partitions left out of the latter start at their beginning for `--from` and
                end at their end for `--to`.
            key: The option it was given with, for errors and for that default.

        Raises:
            ConfigurationError: It is not one of these, or an offset is out of range.
            ClusterError: The cluster does not respond.
        """
        offsets = self._places((topic,), where, self._bounds((topic,)), key)
        return {partition.number: offset for partition, offset in offsets.items()}

    def first_offsets(self, topics: Sequence[Topic]) -> dict[Partition, int]:
        """Return the first offset of each partition.

        Raises:
            ClusterError: The cluster does not answer.
        """
        return all_offsets(_partitions(topics), offset_requests.earliest_of(self._admin))

    def end_offsets(self, topics: Sequence[Topic]) -> dict[Partition, int]:
        """Return the offset after the last record of each partition, open transactions left out.

        Raises:
            ClusterError: The cluster does not answer.
        """
        return all_offsets(_partitions(topics), offset_requests.latest_of(self._admin))

    def offsets_since(self, topics: Sequence[Topic], timestamp_ms: int) -> dict[Partition, int]:
        """Return the first offset of a time or later in each partition; -1 if there is none.

        Raises:
            ClusterError: The cluster does not answer.
        """
        return all_offsets(_partitions(topics), offset_requests.since(self._admin, timestamp_ms))

    def _bounds(self, topics: Sequence[Topic]) -> dict[str, dict[int, tuple[int, int]]]:
        first, end = self.first_offsets(topics), self.end_offsets(topics)
        return {
            topic.name: {
                partition.number: (first[partition], end[partition])
                for partition in topic.all_partitions
            }
            for topic in topics
        }

    def _places(
        self,
        topics: Sequence[Topic],
        where: str,
        bounds: Mapping[str, Mapping[int, tuple[int, int]]],
        key: str,
    ) -> dict[Partition, int]:
        if where in _BOUNDS:
            return {
                partition: bounds[partition.topic][partition.number][where == "latest"]
                for partition in _partitions(topics)
            }
        if _OFFSETS.fullmatch(where):
            if len(topics) != 1:
                raise ConfigurationError(
                    f"{key} {where}: PARTITION:OFFSET needs one topic, not "
                    f"{', '.join(topic.name for topic in topics)}"
                )
            (topic,) = topics
            offsets_by_number = self._given(topic, where, bounds[topic.name], key)
            return {
                Partition(topic.name, number): offset
                for number, offset in offsets_by_number.items()
            }
        offsets = self.offsets_since(topics, _timestamp_ms(where, key))
        for partition, offset in offsets.items():
            first, end = bounds[partition.topic][partition.number]
            # The log can have lost its first records, or have got more, since the response.
            offsets[partition] = min(max(offset, first), end) if offset >= 0 else end
        return offsets

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
            ConfigurationError: There is no record at this offset.
            ClusterError: The cluster does not respond.
        """
        self._given(topic, f"{partition}:{offset}", self.bounds(topic), "--offset")
        with _Requests(self, "penstock") as consumer:
            consumer.assign([TopicPartition(topic.name, partition, offset)])
            message = consumer.poll(_TIMEOUT_S)
        if message is None:
            raise ClusterError(f"{topic.name} {partition}:{offset} was not sent in time")
        if message.error() or message.offset() != offset:
            raise ConfigurationError(f"--offset {partition}:{offset}: there is no record there")
        pairs: Any = message.headers() or ()
        headers = tuple(Header(key, value) for key, value in pairs)
        return Record(message.timestamp()[1], message.key(), message.value(), headers)

    def committed(self, topic: Topic, group: str) -> dict[int, int]:
        """Return the offsets that a group has committed; the beginning where it has none.

        Raises:
            ClusterError: The cluster does not answer, or has no coordinator in time.
        """
        bounds = self.bounds(topic)
        deadline = time.monotonic() + _TIMEOUT_S
        with _Requests(self, group) as consumer:
            partitions = [TopicPartition(topic.name, p) for p in topic.partitions]
            while True:
                try:
                    positions = consumer.committed(partitions, _TIMEOUT_S)
                    break
                except KafkaException as error:
                    is_starting = error.args[0].code() in _NO_COORDINATOR_YET
                    if not is_starting or time.monotonic() > deadline:
                        raise
                time.sleep(_PAUSE_S)
        return {
            position.partition: max(position.offset, bounds[position.partition][0])
            for position in positions
        }

    def commit(self, topic: Topic, group: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets for a group."""
        with _Requests(self, group) as consumer:
            consumer.commit(
                offsets=[TopicPartition(topic.name, p, o) for p, o in offsets.items()],
                asynchronous=False,
            )

    def consumer(self, group: str) -> Consumer:
        """Make a consumer that commits nothing by itself.

        Raises:
            ClusterError: There is no token to log in with.
        """
        settings = {
            **self._settings,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
        try:
            return librdkafka.consumer(settings)
        except KafkaException as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: BaseException) -> ClusterError:
        if isinstance(error, KafkaException):
            self._errors.appendleft(error.args[0])
        if "_admin" in vars(self):
            self._admin.poll(0)  # hands over the errors of its connections
        # The errors of connections say more than the error of the request that they delayed.
        errors = [error.str() for error in self._errors if error.code() != _ALL_BROKERS_DOWN]
        why = errors[-1] if errors else "no answer"
        return ClusterError(f"the cluster at {self.servers} cannot be reached: {why}")

    def _waiting(self) -> AbstractContextManager[None]:
        return waiting(
            f"waiting for the cluster at {self.servers}: gives up after {_TIMEOUT_S:.0f} s"
        )


def _topic(name: str, description: Any) -> Topic:
    """Return a topic that confluent-kafka describes."""
    partitions = tuple(sorted(partition.id for partition in description.partitions))
    return Topic(name, uuid_of(description.topic_id), partitions)


def _partitions(topics: Sequence[Topic]) -> list[Partition]:
    return [partition for topic in topics for partition in topic.all_partitions]


def check_place(where: str, key: str) -> None:
    """Check the form of a place in a topic, without a request.

    Args:
        where: As for `Cluster.offsets`.
        key: The option it was given with.

    Raises:
        ConfigurationError: It is none.
    """
    if where not in _BOUNDS and not _OFFSETS.fullmatch(where):
        _timestamp_ms(where, key)


def _timestamp_ms(where: str, key: str) -> int:
    try:
        moment = dt.datetime.fromisoformat(where)
    except ValueError:
        raise ConfigurationError(
            f"{key} {where}: must be earliest, latest, an ISO time such as "
            "2026-01-31T12:00:00, or PARTITION:OFFSET,..."
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return int(moment.timestamp() * 1000)


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
