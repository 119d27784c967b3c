"""The cluster whose topics a job reads and writes, and the requests of a job before it begins."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.configuration.globs import is_glob
from penstock.engine.modes.dead_letters import PARKED_SUFFIX
from penstock.jobs.batches.targets import Target
from penstock.jobs.topics.access import ClusterAccess
from penstock.jobs.topics.hidden_topics import hidden_topics, logged_topics
from penstock.jobs.topics.sizes import measured
from penstock.kafka.cluster.offsets import Cluster
from penstock.kafka.cluster.places import read_places
from penstock.kafka.cluster.topic_names import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from penstock.jobs.tasks.planning import Sizes
    from penstock.kafka.cluster.offsets import Topic
    from penstock.kafka.cluster.places import Places

_NAMED_MAX: Final = 5


class StoredTopics:
    """The topics of a cluster.

    Attributes:
        properties: The keys after `upstream.`, as a Java client takes them.
        file: The configuration file.
        places_topic: The topic where positions last.
        hidden_topics: The topics that globs match and that may not be described, as far as they are
            known.
    """

    def __init__(self, properties: Mapping[str, str], file: Path, places_topic: str) -> None:
        """Prepare; nothing is read or contacted."""
        self.properties = properties
        self.file = file
        self.places_topic = places_topic
        self.hidden_topics: frozenset[str] = frozenset()

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster."""
        return Cluster(self.properties, self.file)

    @property
    def access(self) -> ClusterAccess:
        """How tasks over raw batches reach the cluster; stores are read each time.

        Raises:
            ConfigurationError: A store cannot be read.
        """
        return ClusterAccess.of(self.properties, self.file)

    def sources(
        self,
        topic_list: str,
        targets: Iterable[str] = (),
        *,
        key: str = "--topic",
        warn: Callable[[str], None],
    ) -> tuple[Topic, ...]:
        """Return the topics that are read.

        Args:
            topic_list: Names and globs, separated by commas.
            targets: The topics to write to: none of them may be read. Globs leave them
                out, and those of parked letters.
            key: The option of `topic_list`, for the error.
            warn: Called with a text if topics are left out because they may not be described.

        Raises:
            ConfigurationError: A topic does not exist, or is written to.
        """
        names = frozenset(targets)
        topics = self.cluster.topics(topic_list, without=with_parked(names))
        if any(map(is_glob, parse(topic_list))):
            self.warn_of_hidden(
                topic_list, logged_topics(self.access.connect()), topics, names, warn
            )
        if both := sorted({topic.name for topic in topics} & names):
            raise ConfigurationError(
                f"{key} {topic_list}: {names_of(both)} cannot be written to while it is read"
            )
        return topics

    def warn_of_hidden(
        self,
        topic_list: str,
        names: Collection[str],
        topics: Sequence[Topic],
        targets: Iterable[str],
        warn: Callable[[str], None],
    ) -> None:
        """Warn of topics that globs match and that may not be described, once of each.

        Args:
            topic_list: Names and globs, separated by commas.
            names: The names of topics that may exist.
            topics: The topics that are read.
            targets: The topics to write to.
            warn: Called with the text.
        """
        listed = self.hidden_topics.union(topic.name for topic in topics)
        hidden_names = hidden_topics(
            self.cluster, topic_list, names, listed, without=with_parked(targets)
        )
        self.hidden_topics |= set(hidden_names)
        if hidden_names:
            warn(
                f"{topic_list} matches {names_of(hidden_names)}, which the principal of "
                "upstream.* may not describe: the records there are left out"
            )

    def sizes(self, topics: Sequence[Topic]) -> Sizes:
        """Return how large the records of topics are, as far as brokers say."""
        return measured(self.access.connect(), self.cluster, topics)

    def places(self, *, create: bool = True) -> Places:
        """Read how far jobs have come, as far as that is kept in the topic of places.

        Args:
            create: Create the topic if it does not exist.

        Raises:
            ConfigurationError: Not authorized, or the topic is not suitable.
            CompactedTopicError: The cluster does not respond.
        """
        return read_places(
            self.properties, self.file, self.places_topic, key="redrive.places.topic", create=create
        )

    def has_records(self, name: str) -> bool:
        """Return whether a topic has records."""
        bounds = self.cluster.bounds(self.cluster.topic(name)).values()
        return any(end > start for start, end in bounds)

    def target(self, name: str) -> Target:
        """Return a topic to write to."""
        partitions = len(self.cluster.topic(name).partitions)
        return Target(name, partitions, self.cluster.max_message_bytes(name))


def with_parked(names: Iterable[str]) -> frozenset[str]:
    """Return topics that are written to, and those where `redrive` parks letters."""
    names = tuple(names)
    return frozenset((*names, *(name + PARKED_SUFFIX for name in names)))


def names_of(topics: Sequence[str]) -> str:
    """Return the names of topics for a line to a user; of many, the first."""
    shown = ", ".join(topics[:_NAMED_MAX])
    more = len(topics) - _NAMED_MAX
    return f"topic {shown}" + (f" and {more:,} more" if more > 0 else "")
