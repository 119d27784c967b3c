"""Checks that several handlers use: policies for topics and configs, values of topic configs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.cluster.metadata import MetadataUnavailableError
from penstock.configuration.topic_keys import RECORDS_POLICY, VALIDATION_POLICY
from penstock.engine.admin_policies import AdminContext, ConfigAlteration, TopicCreation
from penstock.engine.verdict import Outcome, Verdict
from penstock.gateway.refusal_log import Refused
from penstock.topic_configs import definitions
from penstock.wire.errors import UNKNOWN_SERVER_ERROR

if TYPE_CHECKING:
    from penstock.cluster.metadata import MissingTopic
    from penstock.gateway.admin.topic_policies import TopicPolicies
    from penstock.gateway.gateway_context import GatewayContext
    from penstock.gateway.request_context import RequestContext


STORES_TOPIC_CONFIGS: Final = "This topic keeps the settings of topics"
"""Why the topic that stores topic configs cannot be changed through the gateway."""


class Refusal(NamedTuple):
    """An error for the client: Kafka's error code, and an optional message."""

    code: int
    message: str | None


def cannot_be_judged(error: MetadataUnavailableError) -> Refusal:
    """Return the refusal of what a policy cannot judge, because cluster metadata is missing."""
    return Refusal(UNKNOWN_SERVER_ERROR, f"The policy cannot be asked: {error}")


class PolicyChecks:
    """Applies the policies for topics and configs to one request, and logs refusals."""

    def __init__(self, context: RequestContext) -> None:
        self._gateway = context.gateway
        self._principal = context.principal
        self._client_id = context.request.client_id
        self._address = context.address

    @property
    def _policies(self) -> TopicPolicies:
        """The current policies; a reload may change them between two checks."""
        return self._gateway.policies.topics

    async def creation(self, asked: TopicCreation) -> Refusal | None:
        """Apply `CreateTopicPolicy`. An accepted topic counts as existing from then on."""
        if self._policies.create_topic is None:
            return None
        if not self._policies.needs_context:
            return self._refusal(asked.topic, await self._policies.creation(asked, AdminContext()))
        async with self._gateway.cluster.deciding:
            return await self._counted(asked)

    async def internal_topic(self, missing: MissingTopic) -> Refusal | None:
        """Apply `CreateTopicPolicy` to an internal topic of Kafka."""
        name, partitions, replicas, configs = missing
        return await self.creation(TopicCreation(name, partitions, replicas, None, configs))

    async def _counted(self, asked: TopicCreation) -> Refusal | None:
        """Apply `CreateTopicPolicy` with the existing topics, one creation at a time."""
        asking = await self._asking()
        if isinstance(asking, Refusal):
            return asking
        refusal = self._refusal(asked.topic, await self._policies.creation(asked, asking))
        if refusal is None:
            assignments = asked.replicas_assignments or {}
            self._gateway.cluster.allow(
                asked.topic,
                len(assignments) if asked.num_partitions is None else asked.num_partitions,
                min(map(len, assignments.values()), default=0)
                if asked.replication_factor is None
                else asked.replication_factor,
            )
        return refusal

    async def alteration(self, asked: ConfigAlteration) -> Refusal | None:
        """Apply `AlterConfigPolicy`."""
        if self._policies.alter_config is None:
            return None
        asking = await self._asking()
        if isinstance(asking, Refusal):
            return asking
        verdict = await self._policies.alteration(asked, asking)
        resource = asked.resource_type, asked.resource_name
        return self._refusal(" ".join(resource), verdict, resource)

    async def _asking(self) -> AdminContext | Refusal:
        if not self._policies.needs_context:
            return AdminContext()
        try:
            topics = await self._gateway.cluster.topics()
        except MetadataUnavailableError as error:
            return cannot_be_judged(error)
        return AdminContext(self._principal, self._client_id, topics)

    def _refusal(
        self, what: str, verdict: Verdict, resource: tuple[str, str] | None = None
    ) -> Refusal | None:
        if verdict.outcome is Outcome.ACCEPTED:
            return None
        self._gateway.refused(
            Refused(
                what,
                None,
                self._client_id,
                verdict,
                principal=self._principal,
                address=self._address,
                resource=resource,
            )
        )
        return Refusal(verdict.code, verdict.message)


async def config_error(gateway: GatewayContext, key: str, value: str) -> str | None:
    """Return why a value of a topic level key is invalid; None if it is valid."""
    reason = definitions.value_error(key, value)
    if reason is not None:
        return reason
    why = None
    if key == RECORDS_POLICY:
        why = await _about_class(gateway, value.strip())
    if why is None:
        missing = gateway.policies.plan.missing_reader(key)
        why = missing and f"the gateway has no {missing} to read it"
    if why is None and key == VALIDATION_POLICY:
        why = await gateway.policies.topics.cannot_judge_by(value)
    return why and definitions.invalid_value(key, value, why)


async def _about_class(gateway: GatewayContext, name: str) -> str | None:
    if not gateway.policies.plan.allows_class(name):
        return (
            f"Class {name} may not be named: it is neither in the gateway's configuration file "
            "nor allowed by its records.policy.class.names.allowed"
        )
    why = await gateway.policies.topics.cannot_use(name)
    return why and f"Class {name} cannot be used: {why}"
