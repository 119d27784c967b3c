"""Policies over topics: KIP-108 (creation) and KIP-133 (configuration).

The classes `...WithContext` also get the client's principal and the cluster's topics, as KIP-170
and KIP-201 proposed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class CreateTopicPolicy:
    """Decides which topics can be created (KIP-108).

    A gateway has one instance. ``configure`` is called once before the first ``validate``,
    ``close`` once at the end. Calls never overlap. It is also called for topics that are created
    automatically, and for partitions that are added to a topic.
    """

    class RequestMetadata(NamedTuple):
        """The request of a client.

        Attributes:
            num_partitions: The cluster's default replaces -1. None if the request assigns
                replicas.
            replicas_assignments: Broker ids by partition, or None if the request has counts.
            configs: The configs of the request, without the cluster's defaults, with Penstock's
                topic level keys. Read-only.
        """

        topic: str
        num_partitions: int | None
        replication_factor: int | None
        replicas_assignments: Mapping[int, Sequence[int]] | None
        configs: Mapping[str, str]

    def configure(self, configs: Mapping[str, str]) -> None:
        """Receive the whole configuration file, as text by key."""

    def validate(self, request: RequestMetadata) -> None:
        """Return to allow the topic; raise ``PolicyViolationException`` to refuse it."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what ``configure`` acquired."""


class ConfigResource(NamedTuple):
    """The owner of a configuration.

    Attributes:
        type: ``TOPIC``, ``BROKER``, ... as ``org.apache.kafka.common.config.ConfigResource``.
        name: The topic's name or the broker's id.
    """

    type: str
    name: str


class AlterConfigPolicy:
    """Decides which configs can be altered (KIP-133). Its life cycle is that of KIP-108.

    Attributes:
        sees_unset_keys: Whether it also gets the deletions of keys that are not set, which change
            nothing. By default it does, as from brokers (KAFKA-19028).
    """

    sees_unset_keys: ClassVar[bool] = True

    class RequestMetadata(NamedTuple):
        """The request of a client.

        Attributes:
            resource: The resource whose configs are altered.
            configs: The altered keys; None as the value of a deleted key.
        """

        resource: ConfigResource
        configs: Mapping[str, str | None]

    def configure(self, configs: Mapping[str, str]) -> None:
        """Receive the whole configuration file, as text by key."""

    def validate(self, request: RequestMetadata) -> None:
        """Return to allow the change; raise ``PolicyViolationException`` to refuse it."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what ``configure`` acquired."""


class TopicDescription(NamedTuple):
    """An existing topic.

    Attributes:
        num_partitions: The number of partitions.
        replication_factor: The number of replicas of the first partition.
    """

    num_partitions: int
    replication_factor: int


class RequestContext(NamedTuple):
    """The client, and the topics of the cluster.

    Attributes:
        principal: The principal of the client, like ``User:alice``; None if the gateway does not
            know it (see docs/topics.md).
        client_id: The client id, or None.
        topics: The topics by name that the gateway's own principal can describe, with topics that
            were allowed and may not exist yet. Read-only.
    """

    principal: str | None
    client_id: str | None
    topics: Mapping[str, TopicDescription]


class CreateTopicPolicyWithContext:
    """A `CreateTopicPolicy` that also gets the client and the topics of the cluster.

    ``create.topic.policy.class.name`` names it.
    """

    RequestMetadata = CreateTopicPolicy.RequestMetadata

    def configure(self, configs: Mapping[str, str]) -> None:
        """Receive the whole configuration file, as text by key."""

    def validate(self, request: CreateTopicPolicy.RequestMetadata, context: RequestContext) -> None:
        """Return to allow the topic; raise ``PolicyViolationException`` to refuse it."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what ``configure`` acquired."""


class AlterConfigPolicyWithContext:
    """An `AlterConfigPolicy` that also gets the client and the topics of the cluster.

    ``alter.config.policy.class.name`` names it.
    """

    RequestMetadata = AlterConfigPolicy.RequestMetadata

    def configure(self, configs: Mapping[str, str]) -> None:
        """Receive the whole configuration file, as text by key."""

    def validate(self, request: AlterConfigPolicy.RequestMetadata, context: RequestContext) -> None:
        """Return to allow the change; raise ``PolicyViolationException`` to refuse it."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what ``configure`` acquired."""
