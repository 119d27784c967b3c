"""Whether dead letters may go to a topic, and whether the gateway may create it for them.

Dead letters are written with the gateway's principal, past ACLs and policies, and a client may have
chosen the name of their source. So the name of the dead letter topic is checked here, where it is
used: `Plan.dead_letter_obstacle` has the rules for names. The `CreateTopicPolicy` judges a topic
that the gateway creates; the client needs no right to create topics, because the name comes from
the file.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol
from weakref import ref

from cachetools import TTLCache

from penstock.engine.admin_policies import TopicCreation
from penstock.engine.plans.plan import NO_SETTINGS
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.gateway.produce.dead_letters.failures import LetterRefusedError
from penstock.gateway.produce.dead_letters.rules import name_obstacle
from penstock.kafka.client.errors import BrokerUnreachableError, ClientError
from penstock.kafka.cluster.compacted_topic import CompactedTopicError
from penstock.kafka.wire.errors import POLICY_VIOLATION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from uuid import UUID

    from penstock.engine.plans.plan import Plan
    from penstock.gateway.admin.topic_configs import TopicConfigs
    from penstock.gateway.produce.dead_letters.dead_letter_topic import DeadLetterTopic
    from penstock.kafka.client.connections.metadata import TopicLeaders
    from penstock.kafka.cluster.metadata import ClusterMetadata

_NOT_CREATED_S: Final = 10.0
"""So long after a topic was not created, neither policies nor the cluster get the request again."""
_ID_KNOWN_S: Final = 60.0
_TOPICS_MAX: Final = 10_000


class Policies(Protocol):
    """The policies of a configuration."""

    @property
    def plan(self) -> Plan:
        """The policies of each topic."""


class GatewayOfLetters(Protocol):
    """What the names of dead letter topics depend on."""

    @property
    def policies(self) -> Policies:
        """The current policies."""

    @property
    def topic_configs(self) -> TopicConfigs:
        """The topic level keys that were set on topics."""

    @property
    def cluster(self) -> ClusterMetadata:
        """Counts a topic that policies have accepted."""


class LetterNames:
    """Checks the names of dead letter topics."""

    def __init__(
        self,
        gateway: GatewayOfLetters,
        own_topics: Mapping[str, str],
        judge: Callable[[TopicCreation], Awaitable[tuple[int, str | None] | None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is contacted.

        Args:
            gateway: Has the policies and the topic level keys.
            own_topics: `Configuration.own_topics`.
            judge: Applies the `CreateTopicPolicy`; returns the code and the message of a refusal.
            clock: Returns the time in seconds, as that of `TopicConfigs.changed_at`.
        """
        self._gateway = gateway
        self._judge = judge
        self._own_topics = own_topics
        self._clock = clock
        self._ids: TTLCache[str, tuple[UUID, float]] = TTLCache(
            _TOPICS_MAX, _ID_KNOWN_S, timer=clock
        )
        # By reference: policies that a reload replaced are not kept in memory.
        self._not_created: TTLCache[DeadLetterTopic, tuple[ref[Plan], str, bool]] = TTLCache(
            _TOPICS_MAX, _NOT_CREATED_S, timer=clock
        )

    def refusal(self, target: DeadLetterTopic) -> str:
        """Return why dead letters are refused, as far as it is known; empty if they are not."""
        try:
            self.check(target)
        except LetterRefusedError as error:
            return str(error)
        except ClientError:
            return ""
        return ""

    def check(self, target: DeadLetterTopic) -> None:
        """Check a name, for a topic that exists as it is known.

        Raises:
            LetterRefusedError: The topic may not have these dead letters.
            ClientError: It is not known whether it may.
        """
        plan, own = self._gateway.policies.plan, self._own_keys(target.name)
        why_not = name_obstacle(plan, self._own_topics, target.source, target.name, own)
        if why_not:
            raise LetterRefusedError(why_not)
        refusal = self._not_created.get(_named(target))
        if refusal is None:
            return
        earlier_plan, why_not, is_final = refusal
        if earlier_plan() is self._gateway.policies.plan:
            raise (LetterRefusedError if is_final else ClientError)(why_not)

    def _own_keys(self, topic: str) -> Mapping[str, str]:
        """Return the topic level keys that were set on a topic."""
        entry = self._ids.get(topic)
        if entry is None:
            return NO_SETTINGS
        try:
            return self._gateway.topic_configs.of(topic, entry[0])
        except UnreadableTopicConfigsError as error:
            raise ClientError(f"the dead letter topic {topic}: {error}") from None

    def is_outdated(self, topic: str) -> bool:
        """Whether a topic has to be looked up again, because its own keys matter and its id may."""
        configs = self._gateway.topic_configs
        if not configs.names(topic):
            return False
        entry = self._ids.get(topic)
        return entry is None or entry[1] < configs.changed_at(topic)

    async def learn(self, topic: TopicLeaders, requested_at: float) -> None:
        """Learn the id of a topic, and read the keys that have been set on it before.

        Args:
            topic: The topic, as it was found.
            requested_at: When it was looked up.

        Raises:
            ClientError: The keys cannot be read now.
        """
        for target in [each for each in self._not_created if each.name == topic.name]:
            self._not_created.pop(target, None)  # it was created elsewhere
        configs = self._gateway.topic_configs
        if not configs.are_stored:
            return
        unknown = configs.unknown((topic.topic_id,))
        if unknown:
            try:
                await configs.store.read_to_end()
            except CompactedTopicError as error:
                raise BrokerUnreachableError(str(error)) from None
            configs.see(unknown)
        self._ids[topic.name] = topic.topic_id, requested_at

    def must_not_exist(self, target: DeadLetterTopic) -> list[str]:
        """Return the topics of which none may exist if a dead letter topic is created."""
        return self._gateway.policies.plan.must_not_exist(target.source, target.name)

    async def judge_creation(
        self, target: DeadLetterTopic, partitions: int, configs: Mapping[str, str]
    ) -> None:
        """Let the `CreateTopicPolicy` judge a topic that is to be created.

        Raises:
            ClientError: It does not accept the topic, or cannot judge it.
        """
        policies = self._gateway.policies
        creation = TopicCreation(target.name, partitions, target.replicas, None, configs)
        refusal = await self._judge(creation)
        if refusal is not None:
            code, message = refusal
            why = message or "its policy gave no reason"
            is_final = code == POLICY_VIOLATION
            raise self.not_created(target, why, is_final=is_final, policies=policies)

    def not_created(
        self,
        target: DeadLetterTopic,
        why: str,
        *,
        is_final: bool,
        policies: Policies | None = None,
    ) -> ClientError:
        """Record that a topic is not created, so that this is not tried for each batch.

        Args:
            is_final: Whether its dead letters are refused; if not, clients may try again.
            policies: Those whose verdict it is; those of now by default.

        Returns:
            The error.
        """
        self._gateway.cluster.disallow(target.name)
        text = f"the dead letter topic {target.name} cannot be created: {why}"
        plan = (policies or self._gateway.policies).plan
        self._not_created[_named(target)] = ref(plan), text, is_final
        return LetterRefusedError(text) if is_final else ClientError(text)

    def now(self) -> float:
        """Return the time, for `learn`."""
        return self._clock()


def _named(target: DeadLetterTopic) -> DeadLetterTopic:
    """Return the same topic for all partitions of its source."""
    return target._replace(partition=0)
