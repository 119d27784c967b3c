"""Policies over topics: KIP-108 (creation) and KIP-133 (configuration).

The two classes `...WithContext` are for policies that need the client's principal and the
cluster's topics, as KIP-170 and KIP-201 proposed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class CreateTopicPolicy:
    """Decides which topics may be created (KIP-108).

    One instance a gateway; ``configure`` is called once before the first ``validate``,
    ``close`` once at the end. Calls never overlap. Besides CreateTopics it is called for
    topics that are created automatically, and about partitions that are added to a topic.
    """

    class RequestMetadata(NamedTuple):
        """The request of a client.

        Attributes:
            topic: The name.
            num_partitions: Never -1 (the cluster's default is filled in); None where the
                request assigns replicas itself.
            replication_factor: The same.
            replicas_assignments: Partition to broker ids, or None where counts are given.
            configs: The configs in the request only, without the cluster's defaults; those
                that Penstock keeps for the topic among them. Read-only.
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
    """What a configuration belongs to.

    Attributes:
        type: ``TOPIC``, ``BROKER``, ... as ``org.apache.kafka.common.config.ConfigResource``.
        name: The topic's name or the broker's id.
    """

    type: str
    name: str


class AlterConfigPolicy:
    """Decides which configurations may be changed (KIP-133). Lives as KIP-108's policy does."""

    class RequestMetadata(NamedTuple):
        """The request of a client.

        Attributes:
            resource: What is altered.
            configs: The altered keys only; None as the value of a key that is deleted.
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
    """A topic that is there.

    Attributes:
        num_partitions: How many partitions it has.
        replication_factor: How many replicas its first partition has.
    """

    num_partitions: int
    replication_factor: int


class RequestContext(NamedTuple):
    """The client, and the topics of the cluster.

    Attributes:
        principal: Who the client authenticated as, like ``User:alice``; None where that is
            not known to the gateway (docs/topics.md says when).
        client_id: What the client calls itself, or None.
        topics: The cluster's topics by name, as the gateway's own principal sees them, with
            those that were allowed and may not exist yet. Read-only.
    """

    principal: str | None
    client_id: str | None
    topics: Mapping[str, TopicDescription]


class CreateTopicPolicyWithContext:
    """A `CreateTopicPolicy` that also gets the client and the topics of the cluster.

    Named by ``create.topic.policy.class.name`` as any other.
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

    Named by ``alter.config.policy.class.name`` as any other.
    """

    RequestMetadata = AlterConfigPolicy.RequestMetadata

    def configure(self, configs: Mapping[str, str]) -> None:
        """Receive the whole configuration file, as text by key."""

    def validate(self, request: AlterConfigPolicy.RequestMetadata, context: RequestContext) -> None:
        """Return to allow the change; raise ``PolicyViolationException`` to refuse it."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what ``configure`` acquired."""
