"""Runs the policies for topics and configs (KIP-108, KIP-133), in a separate worker.

One process has the only instances, so the state of a policy covers all requests, and requests do
not wait for the judging of records. It is killed at the deadline and replaced, like any worker.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from penstock.configuration.interfaces import ALTER_CONFIG, CREATE_TOPIC
from penstock.engine.verdict import ACCEPTED, FailureCause, Outcome
from penstock.engine.workers.messages import (
    JudgeConfigAlteration,
    JudgeTopicCreation,
    TryRecordsPolicy,
    TryTopic,
)
from penstock.engine.workers.supervisor import Supervisor

if TYPE_CHECKING:
    from penstock.configuration import Configuration
    from penstock.engine.admin_policies import AdminContext, ConfigAlteration, TopicCreation
    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.messages import AdminRequest
    from penstock.gateway.observing.metrics.counts import GatewayCounts

log = structlog.get_logger()

_KEYS: Final = (CREATE_TOPIC, ALTER_CONFIG)
_OBSERVED_MAX: Final = 100
"""The most requests that are judged in the background at a time."""


class TopicPolicies:
    """The policies for topics and configs of one configuration.

    Attributes:
        create_topic: The class of the `CreateTopicPolicy`; None without one.
        alter_config: The class of the `AlterConfigPolicy`; None without one.
        judges_partitions: Whether `CreateTopicPolicy` is applied to CreatePartitions.
        refused_automatic_creation_code: The error code in Metadata responses for a topic whose
            automatic creation was refused.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        tries_classes: bool,
        counts: GatewayCounts | None = None,
    ) -> None:
        """Make the policies; `start` starts the worker.

        Args:
            configuration: Names the policies.
            tries_classes: Whether topics may name KIP-686 classes, which are tested first.
            counts: Counts the verdicts.
        """
        self._counts = counts
        self._observing = 0
        self.create_topic = configuration.create_topic_policy_class_name
        self.alter_config = configuration.alter_config_policy_class_name
        self.judges_partitions = configuration.create_topic_policy_create_partitions
        self.refused_automatic_creation_code = int(
            configuration.create_topic_policy_auto_create_error_code
        )
        named = {CREATE_TOPIC: self.create_topic, ALTER_CONFIG: self.alter_config}
        names = {key: (name,) if name else () for key, name in named.items()}
        self._pool: Supervisor | None = None
        if tries_classes or any(names.values()):
            self._pool = Supervisor(
                configuration, names=names, size=1, spare=False, observer=counts
            )

    async def start(self) -> None:
        """Start the worker.

        Raises:
            ConfigurationError: A policy cannot be loaded or configured.
        """
        if self._pool is not None:
            await self._pool.start()

    async def close(self, *, drain_s: float = 0.0) -> None:
        """Close the policies; see `Supervisor.close`."""
        if self._pool is not None:
            await self._pool.close(drain_s=drain_s)

    @property
    def needs_context(self) -> bool:
        """Whether a policy uses the principal, the client id or the existing topics."""
        return self._pool is not None and self._pool.needs_context

    @property
    def pool(self) -> Supervisor | None:
        """The pool that runs them, or None."""
        return self._pool

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return self._pool.pids if self._pool is not None else []

    async def creation(
        self, creation: TopicCreation, context: AdminContext, *, is_observed: bool = False
    ) -> PolicyVerdict:
        """Judge the creation of a topic.

        Args:
            creation: The topic to judge.
            context: The client, and the existing topics.
            is_observed: Whether the verdict changes nothing (`penstock.mode`).
        """
        if self.create_topic is None:
            return ACCEPTED
        request = JudgeTopicCreation(creation, context)
        return await self._judge(request, self.create_topic, is_observed=is_observed)

    async def alteration(
        self, alteration: ConfigAlteration, context: AdminContext, *, is_observed: bool = False
    ) -> PolicyVerdict:
        """Judge the alteration of configs; see `creation`."""
        if self.alter_config is None:
            return ACCEPTED
        request = JudgeConfigAlteration(alteration, context)
        return await self._judge(request, self.alter_config, is_observed=is_observed)

    def begin_observing(self, policy: str) -> bool:
        """Return whether there is room to judge another request in the background."""
        if self._observing >= _OBSERVED_MAX:
            self.not_observed(policy)
            return False
        self._observing += 1
        return True

    def end_observing(self) -> None:
        """Make room again."""
        self._observing -= 1

    def not_observed(self, policy: str) -> None:
        """Count requests that were to be observed, and were not judged."""
        if self._counts is not None:
            self._counts.topic_not_observed(policy)

    async def cannot_use(self, records_policy: str) -> str | None:
        """Return why a KIP-686 class cannot be used; None if it can be."""
        request = TryRecordsPolicy(records_policy)
        event = "a topic names a class that cannot be used"
        # The reason may name files of this machine.
        return await self._reason_against(request, records_policy, event, shows_refusal=False)

    async def cannot_judge(self, plan: TopicPlan) -> str | None:
        """Return why the policies of KIP-940 of a topic cannot judge it; None if they can."""
        if self._pool is None or not (plan.validation_policy or plan.named):
            return None
        request = TryTopic(plan.encoded.decode())
        event = "a topic has policies that cannot judge it"
        return await self._reason_against(request, plan.policy_names, event, topic=plan.topic)

    async def _reason_against(
        self,
        request: AdminRequest,
        policy: str,
        event: str,
        *,
        shows_refusal: bool = True,
        **about: str,
    ) -> str | None:
        """Return why a policy cannot be used, for the client; None if it can be.

        Args:
            request: The request to the worker.
            policy: The name of the policy.
            event: The event of the log, where the reason is only logged.
            shows_refusal: Whether the client gets the message of a refusal.
            about: What the event is about.
        """
        verdict = await self._submit(request, policy)
        if verdict.outcome is Outcome.ACCEPTED:
            return None
        if verdict.outcome is Outcome.REFUSED and shows_refusal:
            return verdict.message
        log.warning(event, **about, policy=policy, reason=verdict.detail or verdict.message)
        return "the gateway's log says why"

    async def _judge(
        self, request: AdminRequest, policy: str, *, is_observed: bool
    ) -> PolicyVerdict:
        verdict = await self._submit(request, policy)
        if is_observed and verdict.cause is FailureCause.NOT_JUDGED:
            self.not_observed(policy)
        elif self._counts is not None:
            count = self._counts.topic_observed if is_observed else self._counts.topic_judged
            count(policy, verdict)
        return verdict

    async def _submit(self, request: AdminRequest, names: str) -> PolicyVerdict:
        assert self._pool is not None
        future: asyncio.Future[PolicyVerdict] = asyncio.get_running_loop().create_future()

        def done(verdict: PolicyVerdict) -> None:
            if not future.done():
                future.set_result(verdict)

        self._pool.submit_admin(request, names, done)
        return await future
