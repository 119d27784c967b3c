"""Offsets and topics of the cluster, for commands that read stored records.

As the principal of `upstream.*`: topics' ids and partitions, offsets of a range, and the offsets
that `redrive` has come to.
"""

from __future__ import annotations

import datetime as dt
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.configuration.globs import is_glob
from penstock.errors import MalformedError
from penstock.kafka.client.admin.configs import configs_of_topic
from penstock.kafka.client.admin.topics import (
    DescribedTopic,
    NewTopic,
    describe_topics,
    list_topics,
)
from penstock.kafka.client.connections.connection import Connection, connect
from penstock.kafka.client.errors import ClientError, NotReadableYetError, response_error
from penstock.kafka.client.positions import Position, commit_positions, read_positions
from penstock.kafka.client.reading.batches import read_fetched_batch
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.cluster import created_topics, offset_requests, topic_names
from penstock.kafka.cluster.errors import ClusterError, NotDescribedError
from penstock.kafka.cluster.offset_requests import all_offsets, in_chunks
from penstock.kafka.cluster.ranges import OffsetRange, Partition
from penstock.kafka.wire.errors import (
    INVALID_TOPIC_EXCEPTION,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    WireError,
)
from penstock.policy import Record
from penstock.progress import waiting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from penstock.kafka.cluster.offset_requests import Answers

_TIMEOUT_S: Final = 15.0
_NO_TOPIC: Final = frozenset({UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION})
_MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_NO_LIMIT: Final = 2**31 - 1
_BOUNDS: Final = frozenset({"earliest", "latest"})
_OFFSETS: Final = re.compile(r"\d+:\d+(,\d+:\d+)*")


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


class Cluster:
    """A cluster, as a client sees it."""

    def __init__(self, properties: Mapping[str, str], file: Path) -> None:
        """Prepare; nothing is contacted.

        Args:
            properties: The keys after `upstream.`, as a Java client takes them.
            file: The configuration file; relative locations start at its folder.
        """
        self.servers = properties["bootstrap.servers"]
        self._properties = properties
        self._file = file

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
        return in_chunks(partitions, offset_requests.earliest_of(self._connection))

    def log_ends(self, partitions: Sequence[Partition]) -> Answers:
        """Return the offset after the last committed record of each partition, or why not."""
        return in_chunks(partitions, offset_requests.latest_of(self._connection))

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

    def _descriptions(self, names: tuple[str, ...]) -> Iterator[tuple[str, DescribedTopic | None]]:
        """Yield each topic with what the cluster says of it; None if it does not exist."""
        for name, answer in self._answers(names):
            if isinstance(answer, NotDescribedError):
                raise answer
            yield name, answer

    def _answers(
        self, names: tuple[str, ...]
    ) -> Iterator[tuple[str, DescribedTopic | NotDescribedError | None]]:
        """Yield what `_descriptions` does, and the errors of topics that may not be described."""
        with self._answering():
            topics = describe_topics(self._connection, names, _TIMEOUT_S)
        for name in names:
            topic = topics.get(name)
            if topic is None or topic.code in _NO_TOPIC:
                yield name, None
            elif topic.code == TOPIC_AUTHORIZATION_FAILED:
                yield name, NotDescribedError(name)
            elif topic.code:
                raise self._unreachable(response_error(topic.code, f"topic {name}"))
            else:
                yield name, topic

    def names(self) -> frozenset[str]:
        """Return the names of all topics.

        Raises:
            ClusterError: The cluster does not answer.
        """
        with self._answering():
            topics = list_topics(self._connection, _TIMEOUT_S)
        return frozenset(topic.name for topic in topics if topic.name is not None)

    @property
    def _connection(self) -> Connection:
        return connect(self._properties, self._file)

    def create_like(self, name: str, other: Topic) -> None:
        """Create a topic with the partitions of another, if it does not exist.

        A broker may know a new topic a moment after the controller has created it, so this waits.

        Raises:
            ClusterError: It cannot be created, or brokers do not know it in time.
        """
        new = NewTopic(name, len(other.partitions))
        try:
            is_known = created_topics.create(self._connection, new, _TIMEOUT_S)
        except (ClientError, WireError) as error:
            raise ClusterError(
                f"topic {name} cannot be created on {self.servers}: {error}"
            ) from None
        if not is_known:
            raise ClusterError(f"topic {name} was created on {self.servers}, but is not found")

    def max_message_bytes(self, name: str) -> int:
        """Return the size of the largest batch that a topic takes: its `max.message.bytes`.

        Raises:
            ClusterError: The cluster refuses, such as for its ACLs.
        """
        try:
            configs = configs_of_topic(
                self._connection, name, _TIMEOUT_S, keys=(_MAX_MESSAGE_BYTES,)
            )
            return int(configs[_MAX_MESSAGE_BYTES].value or "")
        except (ClientError, WireError, KeyError, ValueError) as error:
            reason = error if isinstance(error, ClientError) else "no answer"
            raise ClusterError(
                f"{_MAX_MESSAGE_BYTES} of topic {name} cannot be read: {reason}"
            ) from None

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
        return all_offsets(_partitions(topics), offset_requests.earliest_of(self._connection))

    def end_offsets(self, topics: Sequence[Topic]) -> dict[Partition, int]:
        """Return the offset after the last record of each partition, open transactions left out.

        Raises:
            ClusterError: The cluster does not answer.
        """
        return all_offsets(_partitions(topics), offset_requests.latest_of(self._connection))

    def offsets_since(self, topics: Sequence[Topic], timestamp_ms: int) -> dict[Partition, int]:
        """Return the first offset of a time or later in each partition; -1 if there is none.

        Raises:
            ClusterError: The cluster does not answer.
        """
        return all_offsets(
            _partitions(topics), offset_requests.since(self._connection, timestamp_ms)
        )

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
        offset_range = WantedRange(topic.name, partition, offset, offset + 1, topic.topic_id)
        try:
            with self._requesting():
                record = self._read(offset_range)
        except NotReadableYetError:
            raise ClusterError(f"{topic.name} {partition}:{offset} was not sent in time") from None
        if record is None:
            raise ConfigurationError(f"--offset {partition}:{offset}: there is no record there")
        return record

    def _read(self, offset_range: WantedRange) -> Record | None:
        """Return the first record of a range; None if it has none."""
        connection = self._connection
        reader = RangeReader(
            connection, offset_range, on_lost=lambda _: None, retries=connection.retries(_TIMEOUT_S)
        )
        for fetched in reader:
            records = read_fetched_batch(fetched, max_decompressed_bytes=_NO_LIMIT).records
            if len(records):
                return Record(
                    records.timestamps[0], records.keys[0], records.values[0], records.headers[0]
                )
        return None

    def committed(self, topic: Topic, group: str) -> dict[int, int]:
        """Return the offsets that a group has committed; the beginning where it has none.

        Raises:
            ClusterError: The cluster does not answer, or has no coordinator in time.
        """
        bounds = self.bounds(topic)
        with self._requesting():
            positions = read_positions(self._connection, group, {topic.name: topic.partitions})
        nowhere = Position(0)
        return {
            number: max(positions.get((topic.name, number), nowhere).offset, bounds[number][0])
            for number in topic.partitions
        }

    def commit(self, topic: Topic, group: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets for a group.

        Raises:
            ClusterError: The cluster does not answer, or refuses.
        """
        positions = {(topic.name, number): Position(o) for number, o in offsets.items()}
        with self._requesting():
            commit_positions(self._connection, group, positions)

    def _unreachable(self, error: Exception) -> ClusterError:
        return ClusterError(f"the cluster at {self.servers} cannot be reached: {error}")

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Let a user know that the cluster is waited for; otherwise as `_requesting`."""
        text = f"waiting for the cluster at {self.servers}: gives up after {_TIMEOUT_S:.0f} s"
        with self._requesting(), waiting(text):
            yield

    @contextmanager
    def _requesting(self) -> Iterator[None]:
        """Raise the errors of requests as `ClusterError`."""
        try:
            yield
        except NotReadableYetError:
            raise
        except (ClientError, MalformedError) as error:
            raise self._unreachable(error) from None


def _topic(name: str, topic: DescribedTopic) -> Topic:
    return Topic(name, topic.topic_id, tuple(sorted(topic.partitions)))


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
