"""The topics of dead letters: their leaders, and how they are created where they are not there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from penstock.configuration.topic_keys import DEAD_LETTER_REPLICAS
from penstock.gateway.produce.dead_letters.rules import MAX_MESSAGE_BYTES, configs_of_letters
from penstock.kafka.client.connections.connection import LEADER_NOT_AVAILABLE, Connection
from penstock.kafka.client.connections.metadata import NO_NODE
from penstock.kafka.client.errors import BrokerUnreachableError, ClientError, response_error
from penstock.kafka.cluster.created_topics import create
from penstock.kafka.cluster.futures import result_of
from penstock.kafka.cluster.librdkafka import admin_client, client_settings
from penstock.kafka.wire.errors import UNKNOWN_TOPIC_OR_PARTITION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.gateway.produce.dead_letters.dead_letter_topic import DeadLetterTopic
    from penstock.gateway.produce.dead_letters.names import LetterNames
    from penstock.kafka.client.connections.metadata import PartitionLeader, TopicLeaders

log = structlog.get_logger()

_CREATE_TIMEOUT_S: Final = 10.0
_REFUSED: Final = frozenset({KafkaError.TOPIC_EXCEPTION, KafkaError.POLICY_VIOLATION})
"""The errors for a name that the cluster never accepts, like one that differs from the name of a
topic only in dots and underscores."""


class LetterTopics:
    """Looks topics up, and creates them."""

    def __init__(self, properties: Mapping[str, str], file: Path, names: LetterNames) -> None:
        """Prepare; nothing is contacted.

        Args:
            properties: The keys after `upstream.`, as for a Java client.
            file: The configuration file; relative locations start at its folder.
            names: Checks which topics are created.
        """
        self._properties = properties
        self._file = file
        self._names = names
        self._creating = asyncio.Lock()
        self._looking: dict[str, asyncio.Future[Mapping[int, PartitionLeader]]] = {}

    async def leaders(
        self, connection: Connection, target: DeadLetterTopic
    ) -> Mapping[int, PartitionLeader]:
        """Return the leaders of a dead letter topic, which is created where it is not there.

        All letters that wait for a topic share a look-up. A partition without a leader fails only
        the letters that go there.

        Raises:
            ClientError: They are not known; `retriable` is whether to try again.
        """
        looking = self._looking.get(target.name)
        if looking is None:
            looking = asyncio.ensure_future(self._look_up(connection, target))
            self._looking[target.name] = looking
            looking.add_done_callback(lambda lookup: self._end_look_up(target.name, lookup))
        # It continues for the others when a letter has waited for too long.
        try:
            leaders = await asyncio.shield(looking)
        finally:
            # An error keeps this frame: with its task it would be a cycle, collected seldom.
            del looking
        if leader_of(target, leaders) is None:
            connection.refresh(target.name)
            raise response_error(LEADER_NOT_AVAILABLE, f"topic {target.name}")
        return leaders

    def _end_look_up(
        self, topic: str, lookup: asyncio.Future[Mapping[int, PartitionLeader]]
    ) -> None:
        del self._looking[topic]
        if not lookup.cancelled():
            lookup.exception()  # it may be that nothing waits for it any more

    async def _look_up(
        self, connection: Connection, target: DeadLetterTopic
    ) -> Mapping[int, PartitionLeader]:
        requested_at = self._names.now()
        description = await _described(connection, target.name)
        if description.code == UNKNOWN_TOPIC_OR_PARTITION:
            async with self._creating:
                requested_at = self._names.now()
                description = await _described(connection, target.name)
                if description.code == UNKNOWN_TOPIC_OR_PARTITION:
                    await self._create(connection, target)
                    description = await _described(connection, target.name)
        if description.code or not description.leaders:
            raise response_error(
                description.code or UNKNOWN_TOPIC_OR_PARTITION, f"topic {target.name}"
            )
        await self._names.learn(description, requested_at)
        return description.leaders

    async def _create(self, connection: Connection, target: DeadLetterTopic) -> None:
        """Create a dead letter topic, if it may be created."""
        self._names.check(target)
        for other in self._names.must_not_exist(target):
            if not (await _described(connection, other)).code:
                why = f"topic {other} exists, and dead letters have one topic; create it yourself"
                raise self._names.not_created(target, why, is_final=True)
        source = await _described(connection, target.source)
        partitions = max(1, len(source.leaders)) if not source.code else 1
        admin = admin_client(client_settings(self._properties, self._file.parent))
        configs = await asyncio.to_thread(_limit, admin, target.source)
        await self._names.judge_creation(target, partitions, configs)
        new = NewTopic(target.name, partitions, target.replicas, config=configs)
        try:
            await asyncio.to_thread(create, admin, new, _CREATE_TIMEOUT_S)
        except KafkaException as error:
            raise self._failure(target, error.args[0]) from None
        log.info("a dead letter topic is created", topic=target.name, partitions=partitions,
                 replicas=target.replicas)  # fmt: skip

    def _failure(self, target: DeadLetterTopic, reason: KafkaError) -> ClientError:
        """Return the error for a response of the cluster to the request to create a topic."""
        why = reason.str()
        if reason.retriable():
            text = f"the dead letter topic {target.name} cannot be created: {why}"
            return BrokerUnreachableError(text)
        if reason.code() == KafkaError.INVALID_REPLICATION_FACTOR:
            why += (
                f"; {DEAD_LETTER_REPLICAS} is {target.replicas}: the cluster may have fewer brokers"
            )
        return self._names.not_created(target, why, is_final=reason.code() in _REFUSED)


def leader_of(
    target: DeadLetterTopic, leaders: Mapping[int, PartitionLeader]
) -> tuple[int, int] | None:
    """Return the partition for letters, and the node that leads it; None while there is none.

    Args:
        target: Where the letters go.
        leaders: The leaders of the dead letter topic, by partition; at least one.
    """
    count = len(leaders)
    if max(leaders) != count - 1:
        return None  # a broker does not know all partitions yet
    partition = target.partition % count
    node = leaders[partition].node
    return None if node == NO_NODE else (partition, node)


def _limit(admin: AdminClient, source: str) -> dict[str, str]:
    """Return the configs of a dead letter topic: its letters are larger than records were."""
    resource = ConfigResource(ResourceType.TOPIC, source)
    try:
        described = admin.describe_configs([resource], request_timeout=_CREATE_TIMEOUT_S)
        value = result_of(described[resource], _CREATE_TIMEOUT_S + 1)[MAX_MESSAGE_BYTES].value
        return configs_of_letters(int(value))
    except (KafkaException, KeyError, TypeError, ValueError):
        return {}  # not allowed to know it: brokers have a default


async def _described(connection: Connection, topic: str) -> TopicLeaders:
    # In no thread of the event loop's pool: it has a few, which read the state of producers, too.
    description = (await asyncio.wrap_future(connection.begin_describe([topic]))).get(topic)
    if description is None:
        raise response_error(UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic}")
    return description
