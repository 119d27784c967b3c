"""What the handlers of topics and configs have in common: policies asked, values checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.cluster.metadata import UnknownError
from penstock.configuration.topic_keys import RECORDS_POLICY, VALIDATION_POLICY
from penstock.engine.admin_policies import AdminContext, ConfigAlteration, TopicCreation
from penstock.engine.verdict import Outcome, Verdict
from penstock.gateway.refusal_log import Refused
from penstock.topic_configs import settings as topic_settings
from penstock.wire.errors import UNKNOWN_SERVER_ERROR

if TYPE_CHECKING:
    from penstock.cluster.metadata import MissingTopic
    from penstock.gateway.admin.context import RequestContext
    from penstock.gateway.admin.topic_policies import TopicPolicies
    from penstock.gateway.host import Host


KEEPS_SETTINGS: Final = "This topic keeps the settings of topics"
"""Why the topic of settings is not changed through the gateway."""


class Refusal(NamedTuple):
    """An error for the client: Kafka's code, and a text or none."""

    code: int
    message: str | None


def cannot_be_asked(error: UnknownError) -> Refusal:
    """Refuse what a policy cannot judge, because the cluster does not tell what it needs."""
    return Refusal(UNKNOWN_SERVER_ERROR, f"The policy cannot be asked: {error}")


class Judgement:
    """Asks the policies on behalf of one request, and has refusals logged."""

    def __init__(self, context: RequestContext) -> None:
        self._host = context.host
        self._principal = context.principal
        self._client_id = context.request.client_id

    @property
    def _policies(self) -> TopicPolicies:
        """Those in force now: they may be others than a question ago."""
        return self._host.policies.topics

    async def creation(self, asked: TopicCreation) -> Refusal | None:
        """Have a topic judged; it is counted as there from then on, if it is allowed."""
        if self._policies.create_topic is None:
            return None
        if not self._policies.needs_context:
            return self._refusal(asked.topic, await self._policies.creation(asked, AdminContext()))
        async with self._host.cluster.deciding:
            return await self._counted(asked)

    async def internal_topic(self, missing: MissingTopic) -> Refusal | None:
        """Have one of Kafka's own topics judged."""
        name, partitions, replicas, configs = missing
        return await self.creation(TopicCreation(name, partitions, replicas, None, configs))

    async def _counted(self, asked: TopicCreation) -> Refusal | None:
        """Have a topic judged among those there are, one after the other."""
        asking = await self._asking()
        if isinstance(asking, Refusal):
            return asking
        refusal = self._refusal(asked.topic, await self._policies.creation(asked, asking))
        if refusal is None:
            assignments = asked.replicas_assignments or {}
            self._host.cluster.allow(
                asked.topic,
                len(assignments) if asked.num_partitions is None else asked.num_partitions,
                min(map(len, assignments.values()), default=0)
                if asked.replication_factor is None
                else asked.replication_factor,
            )
        return refusal

    async def alteration(self, asked: ConfigAlteration) -> Refusal | None:
        """Have altered configs judged."""
        if self._policies.alter_config is None:
            return None
        asking = await self._asking()
        if isinstance(asking, Refusal):
            return asking
        verdict = await self._policies.alteration(asked, asking)
        return self._refusal(f"{asked.resource_type} {asked.resource_name}", verdict)

    async def _asking(self) -> AdminContext | Refusal:
        if not self._policies.needs_context:
            return AdminContext()
        try:
            topics = await self._host.cluster.topics()
        except UnknownError as error:
            return cannot_be_asked(error)
        return AdminContext(self._principal, self._client_id, topics)

    def _refusal(self, what: str, verdict: Verdict) -> Refusal | None:
        if verdict.outcome is Outcome.ACCEPTED:
            return None
        self._host.refused(Refused(what, None, self._client_id, verdict))
        return Refusal(verdict.code, verdict.message)


async def complaint_about(host: Host, key: str, value: str) -> str | None:
    """Say what is wrong with a value for one of our own keys; None if nothing is."""
    complaint = topic_settings.complaint(key, value)
    if complaint is not None:
        return complaint
    why = None
    if key == RECORDS_POLICY:
        why = await _about_class(host, value.strip())
    if why is None:
        missing = host.policies.plan.missing_reader(key)
        why = missing and f"the gateway has no {missing} to read it"
    if why is None and key == VALIDATION_POLICY:
        why = await host.policies.topics.cannot_judge_by(value)
    return why and topic_settings.invalid(key, value, why)


async def _about_class(host: Host, name: str) -> str | None:
    if not host.policies.plan.allows_class(name):
        return (
            f"Class {name} may not be named: it is neither in the gateway's configuration file "
            "nor allowed by its records.policy.class.names.allowed"
        )
    why = await host.policies.topics.cannot_use(name)
    return why and f"Class {name} cannot be used: {why}"
