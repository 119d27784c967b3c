"""Policies over topics: KIP-108 (creation) and KIP-133 (configuration)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class CreateTopicPolicy:
    """Decides which topics may be created (KIP-108).

    One instance a process; ``configure`` is called once before the first ``validate``,
    ``close`` once at the end. Calls never overlap.
    """

    class RequestMetadata(NamedTuple):
        """What a client asks for.

        Attributes:
            topic: The name.
            num_partitions: Never -1 (the cluster's default is filled in); None where the
                request assigns replicas itself.
            replication_factor: The same.
            replicas_assignments: Partition to broker ids, or None where counts are given.
            configs: The configs in the request only, without the cluster's defaults.
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
        """What a client asks for.

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
