"""Topics of Penstock's own that are created where they do not exist."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.kafka.client.admin.configs import configs_of_topic
from penstock.kafka.client.admin.topics import DescribedTopic, NewTopic, create_topic
from penstock.kafka.client.admin.topics import describe_topics as describe_all
from penstock.kafka.client.connections.retries import retried
from penstock.kafka.client.errors import DeniedError, ResponseError, response_error
from penstock.kafka.wire.errors import TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION

if TYPE_CHECKING:
    from penstock.kafka.client.connections.connection import Connection

_REPLICAS: Final = 3
_APPEARS_WITHIN_S: Final = 15.0
_PAUSE_S: Final = 0.05


class Replicas(NamedTuple):
    """How many brokers have a topic's records.

    Attributes:
        count: The replication factor.
        min_insync: `min.insync.replicas`: a write succeeds only if so many have it.
    """

    count: int  # type: ignore[assignment]  # tuples have a method of that name
    min_insync: int

    @classmethod
    def of(cls, connection: Connection, timeout_s: float) -> Replicas:
        """Return a replication that suffices for state: it survives the loss of a broker of three.

        Raises:
            ClientError: The brokers are not known.
        """
        nodes = retried(connection, timeout_s, connection.cluster)
        count = min(_REPLICAS, len(nodes.brokers))
        return cls(count, 2 if count == _REPLICAS else 1)

    def are_fewer_than(self, others: Replicas) -> bool:
        """Whether records are lost here sooner than with others."""
        return self.count < others.count or self.min_insync < others.min_insync


def describe(
    connection: Connection, topic: str, timeout_s: float, *, operations: bool = False
) -> DescribedTopic | None:
    """Return a topic's description; None if it does not exist. It is not created.

    Args:
        topic: The name of the topic.
        operations: Whether to request the operations that the client's principal may perform.

    Raises:
        ClientError: It cannot be described.
    """
    topics = describe_all(connection, (topic,), timeout_s, operations=operations)
    description = topics.get(topic)
    if description is None or description.code == UNKNOWN_TOPIC_OR_PARTITION:
        return None
    if description.code:
        raise response_error(description.code, f"topic {topic}")
    return description


def configs_of(connection: Connection, topic: str, timeout_s: float) -> dict[str, str] | None:
    """Return the configs of a topic; None if the client's principal may not describe them.

    Raises:
        ClientError: They cannot be described.
    """
    try:
        configs = configs_of_topic(connection, topic, timeout_s)
    except DeniedError:
        return None
    return {name: config.value or "" for name, config in configs.items()}


def create(connection: Connection, new: NewTopic, timeout_s: float) -> bool:
    """Create a topic, and wait until it has leaders; return whether it has.

    Raises:
        ClientError: It cannot be created.
    """
    try:
        create_topic(connection, new, timeout_s)
    except ResponseError as error:
        if error.code != TOPIC_ALREADY_EXISTS:
            raise
    deadline = time.monotonic() + _APPEARS_WITHIN_S
    while time.monotonic() < deadline:
        description = describe(connection, new.name, timeout_s)
        if description is not None and description.has_leaders:
            return True
        time.sleep(_PAUSE_S)
    return False
