"""Topics of Penstock's own that are created where they do not exist."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from penstock.kafka.cluster.futures import result_of
from penstock.kafka.wire.errors import RETRIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

_REPLICAS: Final = 3
_APPEARS_WITHIN_S: Final = 15.0
DENIED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""Errors that are not worth a retry: the configuration or the ACLs have to be changed."""


_PASSING: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - their public names
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
    }
)
"""librdkafka's own errors while a broker is slow, starts, or is away."""


def may_pass(error: KafkaError) -> bool:
    """Whether the same request may succeed later, without a change of anything."""
    return error.code() in RETRIABLE or error.code() in _PASSING


class Replicas(NamedTuple):
    """How many brokers have a topic's records.

    Attributes:
        count: The replication factor.
        min_insync: `min.insync.replicas`: a write succeeds only if so many have it.
    """

    count: int  # type: ignore[assignment]  # tuples have a method of that name
    min_insync: int

    @classmethod
    def of(cls, admin: AdminClient, timeout_s: float) -> Replicas:
        """Return a replication that suffices for state: it survives the loss of a broker of three.

        Raises:
            KafkaException: The brokers are not known.
        """
        cluster = result_of(admin.describe_cluster(request_timeout=timeout_s), timeout_s + 1)
        count = min(_REPLICAS, len(cluster.nodes))
        return cls(count, 2 if count == _REPLICAS else 1)

    def are_fewer_than(self, others: Replicas) -> bool:
        """Whether records are lost here sooner than with others."""
        return self.count < others.count or self.min_insync < others.min_insync


def describe(admin: AdminClient, topic: str, timeout_s: float, *, operations: bool = False) -> Any:
    """Return a topic's description; None if it does not exist. It is not created.

    Args:
        topic: The name of the topic.
        operations: Whether to request the operations that the client's principal may perform.

    Raises:
        KafkaException: It cannot be described.
    """
    described = admin.describe_topics(
        TopicCollection([topic]),
        request_timeout=timeout_s,
        include_authorized_operations=operations,
    )
    try:
        return result_of(described[topic], timeout_s + 1)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise


def configs_of(admin: AdminClient, topic: str, timeout_s: float) -> dict[str, str] | None:
    """Return the configs of a topic; None if the client's principal may not describe them.

    Raises:
        KafkaException: They cannot be described.
    """
    resource = ConfigResource(ResourceType.TOPIC, topic)
    described = admin.describe_configs([resource], request_timeout=timeout_s)
    try:
        entries = result_of(described[resource], timeout_s + 1)
    except KafkaException as error:
        if error.args[0].code() in DENIED:
            return None
        raise
    return {name: entry.value or "" for name, entry in entries.items()}


def partitions_of(admin: AdminClient, topic: str, timeout_s: float) -> Sequence[Any] | None:
    """Return the partitions of a topic; None if it does not exist.

    Raises:
        KafkaException: It cannot be described.
    """
    description = describe(admin, topic, timeout_s)
    return None if description is None else list(description.partitions)


def create(admin: AdminClient, new: NewTopic, timeout_s: float) -> bool:
    """Create a topic, and wait until it has leaders; return whether it has.

    Raises:
        KafkaException: It cannot be created.
    """
    try:
        result_of(admin.create_topics([new], request_timeout=timeout_s)[new.topic], timeout_s + 1)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    deadline = time.monotonic() + _APPEARS_WITHIN_S
    while time.monotonic() < deadline:
        partitions = partitions_of(admin, new.topic, timeout_s)
        if partitions and all(partition.leader is not None for partition in partitions):
            return True
        time.sleep(0.05)
    return False
