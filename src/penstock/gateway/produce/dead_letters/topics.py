"""The topics of dead letters: their leaders, and how they are created where they are not there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from penstock.configuration.topic_keys import DEAD_LETTER_REPLICAS
from penstock.gateway.produce.dead_letters.rules import MAX_MESSAGE_BYTES, configs_of_letters
from penstock.kafka.client.admin.configs import configs_of_topic
from penstock.kafka.client.admin.topics import NewTopic
from penstock.kafka.client.connections.connection import LEADER_NOT_AVAILABLE, Connection
from penstock.kafka.client.connections.metadata import NO_NODE
from penstock.kafka.client.errors import (
    BrokerUnreachableError,
    ClientError,
    ResponseError,
    response_error,
)
from penstock.kafka.cluster.created_topics import create
from penstock.kafka.wire.errors import (
    INVALID_REPLICATION_FACTOR,
    INVALID_TOPIC_EXCEPTION,
    POLICY_VIOLATION,
    UNKNOWN_TOPIC_OR_PARTITION,
    WireError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.gateway.produce.dead_letters.dead_letter_topic import DeadLetterTopic
    from penstock.gateway.produce.dead_letters.names import LetterNames
    from penstock.kafka.client.connections.metadata import PartitionLeader, TopicLeaders

log = structlog.get_logger()

_CREATE_TIMEOUT_S: Final = 10.0
_REFUSED: Final = frozenset({INVALID_TOPIC_EXCEPTION, POLICY_VIOLATION})
"""The errors for a name that the cluster never accepts, like one that differs from the name of a
topic only in dots and underscores."""


class LetterTopics:
    """Looks topics up, and creates them."""

    def __init__(self, names: LetterNames) -> None:
        """Prepare; nothing is contacted.

        Args:
            names: Checks which topics are created.
        """
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
        configs = await asyncio.to_thread(_limit, connection, target.source)
        await self._names.judge_creation(target, partitions, configs)
        new = NewTopic(target.name, partitions, target.replicas, configs)
        try:
            await asyncio.to_thread(create, connection, new, _CREATE_TIMEOUT_S)
        except (ClientError, WireError) as error:
            raise self._failure(target, error) from None
        log.info("a dead letter topic is created", topic=target.name, partitions=partitions,
                 replicas=target.replicas)  # fmt: skip

    def _failure(self, target: DeadLetterTopic, error: ClientError | WireError) -> ClientError:
        """Return the error for a response of the cluster to the request to create a topic."""
        response = error if isinstance(error, ResponseError) else None
        why = (response and response.reason) or str(error)
        if isinstance(error, ClientError) and error.retriable:
            text = f"the dead letter topic {target.name} cannot be created: {why}"
            return BrokerUnreachableError(text)
        code = response and response.code
        if code == INVALID_REPLICATION_FACTOR:
            why += (
                f"; {DEAD_LETTER_REPLICAS} is {target.replicas}: the cluster may have fewer brokers"
            )
        return self._names.not_created(target, why, is_final=code in _REFUSED)


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


def _limit(connection: Connection, source: str) -> dict[str, str]:
    """Return the configs of a dead letter topic: its letters are larger than records were."""
    try:
        configs = configs_of_topic(connection, source, _CREATE_TIMEOUT_S, keys=(MAX_MESSAGE_BYTES,))
        return configs_of_letters(int(configs[MAX_MESSAGE_BYTES].value or ""))
    except (ClientError, WireError, KeyError, ValueError):
        return {}  # not allowed to know it: brokers have a default


async def _described(connection: Connection, topic: str) -> TopicLeaders:
    # In no thread of the event loop's pool: it has a few, which read the state of producers, too.
    description = (await asyncio.wrap_future(connection.begin_describe([topic]))).get(topic)
    if description is None:
        raise response_error(UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic}")
    return description
