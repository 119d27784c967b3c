"""What a read of `format("penstock")` needs of the cluster and the plan; made on the driver."""

from __future__ import annotations

import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError, load_configuration
from penstock.configuration.properties import resolve_variables
from penstock.jobs.plan import MAX_DECOMPRESSED_BYTES, load_plan, readable_bytes
from penstock.jobs.topics.access import ClusterAccess
from penstock.jobs.topics.hidden_topics import logged_topics
from penstock.jobs.topics.sizes import measured
from penstock.jobs.topics.stored_topics import names_of
from penstock.jobs.topics.topic_settings import own_settings
from penstock.kafka.cluster.offsets import Cluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.configuration import Configuration
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.tasks.planning import Sizes
    from penstock.kafka.cluster.offsets import Topic
    from penstock.spark.source.options import SourceOptions

_NO_FILE: Final = "the options of penstock"
_INTERNAL: Final = "__"


class ClusterOfPlan:
    """The cluster that a plan's file or options name, and the policies of its topics."""

    def __init__(self, plan: str | None, client: Mapping[str, str]) -> None:
        """Read the file; nothing is contacted.

        Args:
            plan: The configuration file; or None.
            client: Keys of Kafka's clients, which win over the file's.

        Raises:
            ConfigurationError: It is not usable, or a variable is not there.
        """
        self._file = plan
        self._configuration: Configuration | None = None
        properties: dict[str, str] = {}
        file = Path.cwd() / _NO_FILE
        if plan is not None:
            self._configuration = load_configuration(plan)
            properties = self._configuration.upstream_properties
            file = self._configuration.path
        properties |= resolve_variables(file, client)
        self._properties = properties
        self.access = ClusterAccess.of(properties, file)

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster."""
        return Cluster(self._properties, self.access.file)

    @property
    def max_decompressed_bytes(self) -> int:
        """The size of the largest batch, decompressed, that is read."""
        if self._configuration is None:
            return MAX_DECOMPRESSED_BYTES
        return readable_bytes(self._configuration.decompressed_batch_max_bytes)

    def plan(self, topics: Sequence[Topic], records_policy_batch: int) -> RecordPlan | None:
        """Load the plan, with the ids and the own settings of topics; None without a file.

        Raises:
            ConfigurationError: A policy is not usable, or the settings may not be read.
            CompactedTopicError: The cluster does not answer.
        """
        if self._configuration is None or self._file is None:
            return None
        return load_plan(
            self._file,
            topic_ids={topic.name: topic.topic_id for topic in topics},
            records_policy_batch=records_policy_batch,
            topic_settings=own_settings(self._configuration, self._properties, topics),
        )


class ClusterSource:
    """The cluster that is read, and its topics."""

    def __init__(self, options: SourceOptions) -> None:
        """Read the file that the option `plan` names; nothing is contacted.

        Raises:
            ConfigurationError: It is not usable, or a variable is not there.
        """
        self.options = options
        self._there = ClusterOfPlan(options.plan, options.client)
        self.access = self._there.access
        self.max_decompressed_bytes = self._there.max_decompressed_bytes

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self._there.cluster

    def topics(self) -> tuple[Topic, ...]:
        """Describe the topics that are read; with a pattern, those that match it now.

        Raises:
            ConfigurationError: A named topic does not exist.
            ClusterError: The cluster does not answer.
        """
        names = self._names()
        return self.cluster.topics(",".join(names)) if names else ()

    def topics_left(self) -> tuple[Topic, ...]:
        """Describe the topics that are read, without deleted topics, if these are no error.

        Raises:
            ConfigurationError: A named topic does not exist, and has to.
            ClusterError: The cluster does not answer.
        """
        if self.options.fails_on_deletion:
            return self.topics()
        names = self._names()
        return self.cluster.existing_topics(",".join(names)) if names else ()

    def subscribes(self, topic: str) -> bool:
        """Return whether a topic is read, if it exists."""
        pattern = self.options.pattern
        if pattern is None:
            return topic in self.options.topics
        return bool(pattern.search(topic)) and not topic.startswith(_INTERNAL)

    def _names(self) -> tuple[str, ...]:
        if self.options.pattern is None:
            return self.options.topics
        return tuple(sorted(filter(self.subscribes, self.cluster.names())))

    def plan(self, topics: Sequence[Topic]) -> RecordPlan | None:
        """Load the plan; see `ClusterOfPlan.plan`."""
        return self._there.plan(topics, self.options.records_policy_batch)

    def sizes(self, topics: Sequence[Topic]) -> Sizes:
        """Return the size of the records of topics, as far as brokers report it."""
        return measured(self.access.connect(), self.cluster, topics)

    def warn_of_hidden(self, topics: Sequence[Topic]) -> None:
        """Print a warning if the pattern matches topics that may not be described.

        Args:
            topics: The topics that are read.

        Raises:
            ClusterError: The cluster does not answer.
        """
        if self.options.pattern is None:
            return
        listed = {topic.name for topic in topics}
        names = set(filter(self.subscribes, logged_topics(self.access.connect())))
        if hidden_topics := sorted(self.cluster.hidden(names - listed)):
            sys.stderr.write(
                f"warning: subscribePattern {self.options.pattern.pattern} matches "
                f"{names_of(hidden_topics)}, which the principal of upstream.* or kafka.* may not "
                "describe: the records there are left out\n"
            )

    def no_topic(self) -> ConfigurationError:
        """Return the error for a pattern that no topic matches."""
        pattern = self.options.pattern.pattern if self.options.pattern else ""
        return ConfigurationError(
            f"subscribePattern {pattern}: no topic of {self.cluster.servers} matches it"
        )
