"""Checks that several handlers use: policies for topics and configs, values of topic configs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from penstock.configuration.topic_keys import (
    ABOUT_BAD_RECORDS,
    BOOLEAN,
    DEAD_LETTER_TOPIC,
    GROUP_DEAD_LETTERS,
    POLICIES,
    RECORDS_POLICY,
    RECORDS_POLICY_ENABLED,
    TOPIC_KEYS,
)
from penstock.engine.admin_policies import AdminContext, ConfigAlteration, TopicCreation
from penstock.engine.topic_configs import definitions, misnamed
from penstock.engine.verdict import FailureCause, Outcome, bounded
from penstock.gateway.refusal_log import Refused
from penstock.kafka.cluster.metadata import MetadataUnavailableError
from penstock.kafka.wire.errors import INVALID_CONFIG, UNKNOWN_SERVER_ERROR

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from collections.abc import Set as AbstractSet

    from penstock.engine.verdict import PolicyVerdict
    from penstock.gateway.admin.gateway import AdminGateway
    from penstock.gateway.admin.topic_policies import TopicPolicies
    from penstock.gateway.context.handler_context import HandlerContext
    from penstock.kafka.cluster.metadata import MissingTopic

log = structlog.get_logger()

STORES_TOPIC_CONFIGS: Final = "This topic keeps the settings of topics"
"""Why the topic that stores topic configs cannot be changed through the gateway."""
_CLIENT_ID_MAX_BYTES: Final = 256
_KEYS_ALLOWED: Final = "topic.settings.keys.allowed"
_NOT_READ_BY_VALIDATION: Final = ABOUT_BAD_RECORDS | {
    POLICIES,
    RECORDS_POLICY,
    RECORDS_POLICY_ENABLED,
}
"""The topic level keys that no policy of KIP-940 reads: it reads its text, and what it declares."""


class PolicyRefusal(NamedTuple):
    """An error for the client: Kafka's error code, and an optional message."""

    code: int
    message: str | None


class Requester(NamedTuple):
    """Who wants a topic, or other configs; by default the gateway itself.

    Attributes:
        principal: The principal of the client; None if it is not known.
        client_id: The id that the client gives itself.
    """

    principal: str | None = None
    client_id: str | None = None
    address: str | None = None

    @classmethod
    def of(cls, context: HandlerContext[AdminGateway]) -> Requester:
        """Return the client that sent a request."""
        return cls(context.principal, context.request.client_id, context.address)


def _cannot_be_judged(error: MetadataUnavailableError) -> PolicyRefusal:
    """Return the refusal of a request that no policy can judge without cluster metadata."""
    return PolicyRefusal(UNKNOWN_SERVER_ERROR, f"The policy cannot be called: {error}")


_GATEWAY: Final = Requester()


class PolicyChecks:
    """Applies the policies for topics and configs to a request, and logs refusals.

    Where they only observe (`penstock.mode`), they judge in the background, and nothing is refused.
    """

    def __init__(
        self,
        gateway: AdminGateway,
        requester: Requester = _GATEWAY,
        *,
        are_awaited: bool = False,
    ) -> None:
        """Make the checks of a request.

        Args:
            requester: The sender of the request.
            are_awaited: Whether a client sends the request again until its topics exist.
        """
        self._gateway = gateway
        self._requester = requester
        self._are_awaited = are_awaited

    @classmethod
    def of(
        cls, context: HandlerContext[AdminGateway], *, are_awaited: bool = False
    ) -> PolicyChecks:
        """Return the checks of a client's request."""
        return cls(context.gateway, Requester.of(context), are_awaited=are_awaited)

    @property
    def _policies(self) -> TopicPolicies:
        """The current policies; a reload may change them between two checks."""
        return self._gateway.policies.topics

    def observes(self, topic: str) -> bool:
        """Whether the creation of a topic is only observed."""
        return self._gateway.policies.plan.observes_topic(topic)

    def cannot_be_judged(self, topic: str, error: MetadataUnavailableError) -> PolicyRefusal | None:
        """Return the refusal of a topic's creation; None if that is only observed."""
        return None if self.leaves_out(topic) else _cannot_be_judged(error)

    def leaves_out(self, topic: str) -> bool:
        """Return whether a creation that cannot be judged is only observed, and count it then."""
        policy = self._policies.create_topic
        if policy is None or not self.observes(topic):
            return False
        self._policies.not_observed(policy)
        return True

    async def creation(self, creation: TopicCreation) -> PolicyRefusal | None:
        """Apply `CreateTopicPolicy`. An accepted topic counts as existing from then on."""
        policy = self._policies.create_topic
        if policy is None:
            return None
        if self.observes(creation.topic):
            judge = partial(self._policies.creation, creation, is_observed=True)
            self._observe(creation.topic, policy, judge)
            return None
        if not self._policies.needs_context:
            return self._refusal(
                creation.topic, await self._policies.creation(creation, AdminContext())
            )
        async with self._gateway.cluster.deciding:
            return await self._counted(creation)

    async def internal_topic(self, topic: MissingTopic) -> PolicyRefusal | None:
        """Apply `CreateTopicPolicy` to an internal topic of Kafka."""
        name, partitions, replicas, configs = topic
        return await self.creation(TopicCreation(name, partitions, replicas, None, configs))

    async def _counted(self, creation: TopicCreation) -> PolicyRefusal | None:
        """Apply `CreateTopicPolicy` with the existing topics, one creation at a time."""
        context = await self._admin_context()
        if isinstance(context, PolicyRefusal):
            return context
        refusal = self._refusal(creation.topic, await self._policies.creation(creation, context))
        if refusal is None:
            assignments = creation.replicas_assignments or {}
            self._gateway.cluster.allow(
                creation.topic,
                len(assignments) if creation.num_partitions is None else creation.num_partitions,
                min(map(len, assignments.values()), default=0)
                if creation.replication_factor is None
                else creation.replication_factor,
            )
        return refusal

    async def alteration(self, alteration: ConfigAlteration) -> PolicyRefusal | None:
        """Apply `AlterConfigPolicy`."""
        policy = self._policies.alter_config
        if policy is None:
            return None
        kind, name = alteration.resource_type, alteration.resource_name
        what, resource = f"{kind} {name}", (kind, name)
        others = self._gateway.policies.plan.observes_others
        if self.observes(name) if kind == "TOPIC" else others:
            judge = partial(self._policies.alteration, alteration, is_observed=True)
            self._observe(what, policy, judge, resource)
            return None
        context = await self._admin_context()
        if isinstance(context, PolicyRefusal):
            return context
        verdict = await self._policies.alteration(alteration, context)
        return self._refusal(what, verdict, resource)

    def _observe(
        self,
        what: str,
        policy: str,
        judge: Callable[[AdminContext], Awaitable[PolicyVerdict]],
        resource: tuple[str, str] | None = None,
    ) -> None:
        """Judge a request that only is observed; nothing waits for it."""
        policies = self._policies
        if policies.begin_observing(policy):
            self._gateway.run(self._judge_in_background(policies, what, policy, judge, resource))

    async def _judge_in_background(
        self,
        policies: TopicPolicies,
        what: str,
        policy: str,
        judge: Callable[[AdminContext], Awaitable[PolicyVerdict]],
        resource: tuple[str, str] | None,
    ) -> None:
        try:
            context = await self._admin_context()
            if isinstance(context, PolicyRefusal):
                policies.not_observed(policy)
                return
            verdict = await judge(context)
            if (
                verdict.outcome is not Outcome.ACCEPTED
                and verdict.cause is not FailureCause.NOT_JUDGED
            ):
                self._report(what, verdict, resource, is_observed=True)
        except Exception:
            log.exception("an error of the gateway", action="observe")
        finally:
            policies.end_observing()

    async def _admin_context(self) -> AdminContext | PolicyRefusal:
        if not self._policies.needs_context:
            return AdminContext()
        try:
            topics = await self._gateway.cluster.topics()
        except MetadataUnavailableError as error:
            return _cannot_be_judged(error)
        return AdminContext(self._requester.principal, self._requester.client_id, topics)

    def _refusal(
        self, what: str, verdict: PolicyVerdict, resource: tuple[str, str] | None = None
    ) -> PolicyRefusal | None:
        if verdict.outcome is Outcome.ACCEPTED:
            return None
        self._report(what, verdict, resource)
        return PolicyRefusal(verdict.code, verdict.message)

    def _report(
        self,
        what: str,
        verdict: PolicyVerdict,
        resource: tuple[str, str] | None,
        *,
        is_observed: bool = False,
    ) -> None:
        self._gateway.refused(
            Refused(
                what,
                None,
                self._requester.client_id,
                verdict,
                is_observed=is_observed,
                principal=self._requester.principal,
                address=self._requester.address,
                resource=resource,
                is_awaited=self._are_awaited,
            )
        )


def keys_refused(context: HandlerContext[AdminGateway], topic: str, reason: str) -> PolicyRefusal:
    """Return the refusal of a topic's keys, and log it with its client.

    Some programs, such as MirrorMaker, continue without them, and their topic is not judged.
    """
    log.warning(
        "topic level keys refused",
        topic=topic,
        client_id=bounded(context.request.client_id, _CLIENT_ID_MAX_BYTES),
        principal=context.principal,
        address=context.address,
        code=INVALID_CONFIG,
        message=bounded(reason),
    )
    return PolicyRefusal(INVALID_CONFIG, reason)


def explained(gateway: AdminGateway, message: str | None) -> str | None:
    """Return a broker's message about an unknown config, with an explanation; None without one."""
    allowed = None
    if gateway.topic_configs.are_stored:
        keys = definitions.config_keys()
        allowed = [key for key in keys if gateway.policies.plan.allows_key(key)]
    return misnamed.explained(message, allowed)


def syntax_error(gateway: AdminGateway, key: str, value: str) -> str | None:
    """Return why a key may not be set on topics, or why a value is not of its type."""
    if not gateway.policies.plan.allows_key(key):
        return (
            f"Configuration {key} cannot be set on a topic: the gateway's configuration file does "
            f"not allow it ({_KEYS_ALLOWED})"
        )
    return definitions.value_error(key, value)


def group_dead_letters_error(
    gateway: AdminGateway, topic: str, value: str | None, own: Mapping[str, str]
) -> str | None:
    """Return why brokers may not write dead letters of share groups to a topic (KIP-1191).

    Args:
        topic: The name of the topic.
        value: The value of Kafka's key; None if it is not set.
        own: The topic level keys that are set on the topic, with those of the request.
    """
    if value is None or BOOLEAN.normalize(value) == "false":
        return None
    if gateway.policies.plan.allows_group_dead_letters(topic, own):
        return None
    why = (
        "policies judge the records of the topic, but not those that brokers write for share "
        f"groups; only the gateway's configuration file can allow it ({_KEYS_ALLOWED} with "
        "this key's name)"
    )
    return definitions.invalid_value(GROUP_DEAD_LETTERS, value, why)


async def judging_error(
    gateway: AdminGateway, topic: str, keys: AbstractSet[str], own: Mapping[str, str]
) -> str | None:
    """Return why a topic could not be judged after a request; None if it could be.

    A worker tries the policies that read the keys, as far as policies prepare for topics: otherwise
    each batch would fail.

    Args:
        topic: The name of the topic.
        keys: The topic level keys that the request changes.
        own: The keys that are set on the topic after it.
    """
    plan = gateway.policies.plan.for_topic(topic, own)
    names = POLICIES in keys
    validation_keys = [key for key in sorted(keys) if key not in _NOT_READ_BY_VALIDATION]
    if plan is None or not keys - ABOUT_BAD_RECORDS:
        return None
    if plan.unusable:
        return f"Topic {topic} could not be judged: {plan.unusable}"
    if not (names or validation_keys):
        return None
    tried = replace(
        plan,
        validation_policy=plan.validation_policy if validation_keys else None,
        named=plan.named if names else (),
    )
    why = await gateway.policies.topics.cannot_judge(tried)
    key = POLICIES if not validation_keys or tried.validation_policy is None else validation_keys[0]
    return why and definitions.invalid_value(key, own.get(key, "null"), why)


async def config_error(gateway: AdminGateway, key: str, value: str) -> str | None:
    """Return why a topic level key cannot have a value on a topic; None if it can."""
    reason = syntax_error(gateway, key, value)
    if reason is not None:
        return reason
    why = None
    if key == DEAD_LETTER_TOPIC and not gateway.policies.plan.allows_dead_letters(value):
        default = TOPIC_KEYS[DEAD_LETTER_TOPIC].default
        why = (
            f"On a topic, it must be one of those in the gateway's configuration file, or {default}"
        )
    if key == RECORDS_POLICY:
        why = await _about_class(gateway, value.strip())
    if why is None:
        missing_reader = gateway.policies.plan.missing_reader(key)
        why = missing_reader and f"the gateway has no {missing_reader} to read it"
    if key == POLICIES:
        why = gateway.policies.plan.unknown_policy(value)
    return why and definitions.invalid_value(key, value, why)


async def _about_class(gateway: AdminGateway, name: str) -> str | None:
    if not gateway.policies.plan.allows_class(name):
        return (
            f"Class {name} may not be named: it is neither in the gateway's configuration file "
            "nor allowed by its records.policy.class.names.allowed"
        )
    why = await gateway.policies.topics.cannot_use(name)
    return why and f"Class {name} cannot be used: {why}"
