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
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ConfigSource,
    OffsetSpec,
    ResourceType,
)

from penstock.errors import UnavailableError
from penstock.kafka.cluster.futures import result_of
from penstock.kafka.cluster.librdkafka import admin_client, client_settings
from penstock.kafka.cluster.offset_requests import OffsetRefusal, list_offsets
from penstock.kafka.cluster.offsets import uuid_of
from penstock.kafka.cluster.ranges import Partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from uuid import UUID

_TIMEOUT_S: Final = 5.0
_ALLOWED_COUNTS_S: Final = 30.0
_DEFAULTS_TTL_S: Final = 60.0
_MISSING_TTL_S: Final = 0.5
_OF_TOPIC: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED}
)
"""Errors about a topic: another client would get them, too."""

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
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make the metadata; the first call connects.

        Args:
            properties: The keys after `upstream.`, as for a Java client.
            folder: The folder of relative locations in them.
            clock: Returns the monotonic time in seconds.
        """
        self._settings = client_settings(properties, folder)
        self._admin: AdminClient | None = None
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
        topic_ids: dict[str, UUID | None] = {}
        names = list(names)
        if not names:
            return topic_ids
        admin = self._client()
        futures = admin.describe_topics(TopicCollection(names), request_timeout=_TIMEOUT_S)
        for name, future in futures.items():
            try:
                topic_ids[name] = uuid_of(result_of(future, _TIMEOUT_S + 1).topic_id)
            except (KafkaException, TimeoutError) as error:
                if _code(error) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    topic_ids[name] = None
                else:
                    self._replace(admin)
        return topic_ids

    def leader_epochs(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the epochs of partitions' leaders, which say them themselves. Blocks.

        Those that are not known, perhaps for lack of authorization, are left out.
        """
        requested_partitions = [Partition(*partition) for partition in partitions]
        if not requested_partitions:
            return {}
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        answers = list_offsets(self._client(), requested_partitions, latest, _TIMEOUT_S)
        return {
            partition: answer.leader_epoch
            for partition, answer in answers.items()
            if not isinstance(answer, OffsetRefusal) and answer.leader_epoch is not None
        }

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the dynamic configs of topics. Blocks.

        Raises:
            MetadataUnavailableError: The cluster does not return them.
        """
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        if not resources:
            return {}
        admin = self._client()
        futures = admin.describe_configs(resources, request_timeout=_TIMEOUT_S)
        try:
            return {
                resource.name: {
                    name: config.value
                    for name, config in result_of(future, _TIMEOUT_S + 1).items()
                    if config.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
                    and config.value is not None
                }
                for resource, future in futures.items()
            }
        except (KafkaException, TimeoutError) as error:
            self._replace(admin)
            raise MetadataUnavailableError(
                f"topics' configs cannot be described: {_text(error)}"
            ) from None

    def cleanup_policies(self, topics: Iterable[str]) -> tuple[dict[str, str], str]:
        """Return the `cleanup.policy` of topics. Blocks.

        Those that are not known, perhaps for lack of authorization, are left out.

        Returns:
            The values by topic, and why others are not known; empty if all are.
        """
        key, policies, why = "cleanup.policy", {}, ""
        try:
            admin = self._client()
            resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
            futures = admin.describe_configs(resources, request_timeout=_TIMEOUT_S)
        except (KafkaException, MetadataUnavailableError) as error:
            return {}, str(error)
        for resource, future in futures.items():
            try:
                policies[resource.name] = str(result_of(future, _TIMEOUT_S + 1)[key].value)
            except (KafkaException, TimeoutError, KeyError) as error:
                why = _text(error)
                if _code(error) not in _OF_TOPIC:
                    self._replace(admin)
        return policies, why

    def _list(self) -> dict[str, tuple[int, int]]:
        admin = self._client()
        try:
            topics = admin.list_topics(timeout=_TIMEOUT_S).topics
        except KafkaException as error:
            self._replace(admin)
            raise MetadataUnavailableError(
                f"the topics cannot be listed: {error.args[0].str()}"
            ) from None
        return {
            name: (
                len(topic.partitions),
                min((len(p.replicas) for p in topic.partitions.values()), default=0),
            )
            for name, topic in topics.items()
            if topic.error is None
        }

    def _describe_broker(self) -> dict[str, str]:
        admin = self._client()
        try:
            brokers = admin.list_topics(timeout=_TIMEOUT_S).brokers
            resource = ConfigResource(ResourceType.BROKER, str(min(brokers)))
            described = admin.describe_configs([resource], request_timeout=_TIMEOUT_S)
            configs = result_of(described[resource], _TIMEOUT_S + 1)
        except (KafkaException, TimeoutError, ValueError) as error:
            self._replace(admin)
            raise MetadataUnavailableError(
                f"the brokers' configs cannot be described: {_text(error)}"
            ) from None
        return {name: config.value for name, config in configs.items() if config.value is not None}

    def _client(self) -> AdminClient:
        if self._admin is None:
            try:
                self._admin = admin_client(self._settings)
            except KafkaException as error:
                raise MetadataUnavailableError(
                    f"the cluster cannot be reached: {_text(error)}"
                ) from None
        return self._admin

    def _replace(self, failed: AdminClient) -> None:
        """Use another client from now on: the current client may have lost its brokers for good."""
        if self._admin is failed:
            self._admin = None


def _code(error: BaseException) -> int | None:
    return error.args[0].code() if isinstance(error, KafkaException) else None


def _text(error: BaseException) -> str:
    return error.args[0].str() if isinstance(error, KafkaException) else "no answer"
