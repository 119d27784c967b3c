"""Metadata of the cluster for policies, requested by the gateway's own principal.

Topics that a policy has accepted count as existing at once, while the cluster is still creating
them, so that the next request is judged correctly.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from cachetools import TTLCache

from penstock.errors import UnavailableError
from penstock.kafka.client.admin.configs import broker_configs, topic_configs
from penstock.kafka.client.admin.offsets import ListedOffset, list_offsets
from penstock.kafka.client.admin.topics import describe_topics, list_topics
from penstock.kafka.client.connections.connection import Connection, connect
from penstock.kafka.client.errors import ClientError, ResponseError
from penstock.kafka.client.protocol.log_offsets import LATEST
from penstock.kafka.wire.errors import UNKNOWN_TOPIC_OR_PARTITION, WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from uuid import UUID

_TIMEOUT_S: Final = 5.0
_ALLOWED_COUNTS_S: Final = 30.0
_DEFAULTS_TTL_S: Final = 60.0
_MISSING_TTL_S: Final = 0.5
_CLEANUP_POLICY: Final = "cleanup.policy"

_OFFSETS: Final = ("offsets.topic.num.partitions", "offsets.topic.replication.factor")
_TRANSACTIONS: Final = (
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
)
_SHARES: Final = (
    "share.coordinator.state.topic.num.partitions",
    "share.coordinator.state.topic.replication.factor",
)
INTERNAL_TOPICS: Final = {
    "__consumer_offsets": _OFFSETS,
    "__transaction_state": _TRANSACTIONS,
    "__share_group_state": _SHARES,
}
"""By topic, the broker keys for its partition count and replication factor."""


class MetadataUnavailableError(UnavailableError):
    """The cluster does not return the metadata. The message is for users."""


class MissingTopic(NamedTuple):
    """An internal topic of Kafka, as brokers would create it."""

    name: str
    num_partitions: int
    replication_factor: int
    configs: dict[str, str]


class ClusterMetadata:
    """The metadata of the cluster, with caches."""

    def __init__(
        self,
        properties: Mapping[str, str],
        file: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make the metadata; the first call connects.

        Args:
            properties: The keys after `upstream.`, as for a Java client.
            file: The configuration file; relative locations start at its folder.
            clock: Returns the monotonic time in seconds.
        """
        self._properties = properties
        self._file = file
        self._clock = clock
        self._new_topics: TTLCache[str, tuple[int, int]] = TTLCache(
            math.inf, _ALLOWED_COUNTS_S, timer=clock
        )
        self._defaults: tuple[dict[str, str], float] = ({}, -1.0)
        self._internal: set[str] = set()
        self._missing_topics: TTLCache[str, None] = TTLCache(
            len(INTERNAL_TOPICS), _MISSING_TTL_S, timer=clock
        )
        self.deciding = asyncio.Lock()
        """Held from the request for the topics until a new topic is counted."""

    async def topics(self) -> dict[str, tuple[int, int]]:
        """Return partition count and replication factor of all topics, accepted topics included.

        Raises:
            MetadataUnavailableError: The cluster does not respond.
        """
        # Not cached: an earlier response may lack topics that were created since.
        topics = await asyncio.to_thread(self._list)
        for name in [
            name for name, counts in self._new_topics.items() if topics.get(name) == counts
        ]:
            del self._new_topics[name]
        return {**topics, **self._new_topics}

    def allow(self, topic: str, partitions: int, replicas: int) -> None:
        """Count a topic as existing from now on."""
        self._new_topics[topic] = (partitions, replicas)

    def disallow(self, topic: str) -> None:
        """Stop counting a topic that was accepted, because it was not created, or is deleted."""
        self._new_topics.pop(topic, None)

    async def counts(self, partitions: int, replicas: int) -> tuple[int, int]:
        """Return partition count and replication factor with the cluster's defaults for -1.

        Raises:
            MetadataUnavailableError: The cluster does not return them.
        """
        if partitions < 0:
            partitions = await self.default("num.partitions")
        if replicas < 0:
            replicas = await self.default("default.replication.factor")
        return int(partitions), int(replicas)

    async def default(self, key: str) -> int:
        """Return the numeric value of a broker config.

        Raises:
            MetadataUnavailableError: The cluster does not return it.
        """
        values = await self._broker_configs()
        try:
            return int(values[key])
        except (KeyError, ValueError):
            raise MetadataUnavailableError(f"the brokers do not return {key}") from None

    async def creates_topics(self) -> bool:
        """Return whether brokers create topics automatically; True if it is not known."""
        try:
            return (await self._broker_configs()).get("auto.create.topics.enable") != "false"
        except MetadataUnavailableError:
            return True

    async def _broker_configs(self) -> Mapping[str, str]:
        values, expiry = self._defaults
        if self._clock() >= expiry:
            values = await asyncio.to_thread(self._describe_broker)
            self._defaults = (values, self._clock() + _DEFAULTS_TTL_S)
        return values

    async def missing_internal_topic(self, topic: str) -> MissingTopic | None:
        """Return an internal topic as brokers would create it; None if it exists.

        It is also None for the topic of share groups where the brokers have no share groups.

        Raises:
            MetadataUnavailableError: The cluster does not return the metadata.
        """
        if topic in self._internal or topic not in INTERNAL_TOPICS:
            return None
        if topic not in self._missing_topics:
            if topic in await asyncio.to_thread(self._list):
                self._internal.add(topic)
                return None
            self._missing_topics[topic] = None
        partitions, replicas = INTERNAL_TOPICS[topic]
        if partitions in _SHARES and partitions not in await self._broker_configs():
            return None
        return MissingTopic(
            topic,
            await self.default(partitions),
            await self.default(replicas),
            {"cleanup.policy": "compact"},
        )

    def ids(self, names: Iterable[str]) -> dict[str, UUID | None]:
        """Return the ids of topics, with None for topics that do not exist. Blocks.

        Topics that are not known, perhaps for lack of authorization, are left out.
        """
        names = list(names)
        if not names:
            return {}
        try:
            topics = describe_topics(self._connection(), names, _TIMEOUT_S)
        except (ClientError, WireError):
            return {}
        return {
            name: topic.topic_id if not topic.code else None
            for name, topic in topics.items()
            if topic.code in {0, UNKNOWN_TOPIC_OR_PARTITION}
        }

    def leader_epochs(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the epochs of partitions' leaders, which say them themselves. Blocks.

        Those that are not known, perhaps for lack of authorization, are left out.
        """
        requested_partitions = list(partitions)
        if not requested_partitions:
            return {}
        try:
            answers = list_offsets(self._connection(), requested_partitions, LATEST, _TIMEOUT_S)
        except (ClientError, WireError):
            return {}
        return {
            partition: answer.leader_epoch
            for partition, answer in answers.items()
            if isinstance(answer, ListedOffset) and answer.leader_epoch >= 0
        }

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the dynamic configs of topics. Blocks.

        Raises:
            MetadataUnavailableError: The cluster does not return them.
        """
        configs: dict[str, dict[str, str]] = {}
        try:
            for topic, answer in topic_configs(self._connection(), topics, _TIMEOUT_S).items():
                if isinstance(answer, ResponseError):
                    raise answer
                configs[topic] = {
                    name: config.value
                    for name, config in answer.items()
                    if config.is_set_on_topic and config.value is not None
                }
        except (ClientError, WireError) as error:
            raise MetadataUnavailableError(
                f"topics' configs cannot be described: {error}"
            ) from None
        return configs

    def cleanup_policies(self, topics: Iterable[str]) -> tuple[dict[str, str], str]:
        """Return the `cleanup.policy` of topics. Blocks.

        Those that are not known, perhaps for lack of authorization, are left out.

        Returns:
            The values by topic, and why others are not known; empty if all are.
        """
        policies, why = {}, ""
        try:
            answers = topic_configs(self._connection(), topics, _TIMEOUT_S, keys=(_CLEANUP_POLICY,))
        except (ClientError, WireError) as error:
            return {}, str(error)
        for topic, answer in answers.items():
            if isinstance(answer, ResponseError):
                why = str(answer)
            elif _CLEANUP_POLICY in answer:
                policies[topic] = str(answer[_CLEANUP_POLICY].value)
        return policies, why

    def _list(self) -> dict[str, tuple[int, int]]:
        try:
            topics = list_topics(self._connection(), _TIMEOUT_S)
        except (ClientError, WireError) as error:
            raise MetadataUnavailableError(f"the topics cannot be listed: {error}") from None
        return {
            topic.name: (topic.partitions, topic.replication_factor)
            for topic in topics
            if not topic.code and topic.name is not None
        }

    def _describe_broker(self) -> dict[str, str]:
        try:
            configs = broker_configs(self._connection(), _TIMEOUT_S)
        except (ClientError, WireError) as error:
            raise MetadataUnavailableError(
                f"the brokers' configs cannot be described: {error}"
            ) from None
        return {name: config.value for name, config in configs.items() if config.value is not None}

    def _connection(self) -> Connection:
        return connect(self._properties, self._file)
