"""Loads the policies of a configuration: starts the workers that run them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from penstock.engine.inline import InlineJudge
from penstock.engine.plans.files_below import NotKnownError
from penstock.engine.plans.outcome_digest import OutcomeDigest
from penstock.engine.plans.plan_digest import PlanDigests
from penstock.engine.workers.processes.child import Child
from penstock.engine.workers.supervisor import Supervisor
from penstock.gateway.admin.topic_policies import TopicPolicies
from penstock.gateway.importing import import_in_thread
from penstock.gateway.lane.availability import find_observing, find_rings
from penstock.gateway.observing.metrics.cells import BOUNDS
from penstock.gateway.produce.idempotence import Idempotence
from penstock.gateway.produce.observed_batches import BATCHES_MAX, ObservedBatches, TimesBeside
from penstock.gateway.produce.policy_set import PolicySet, submit_or_accept, submit_or_drop_again
from penstock.gateway.produce.repeated_drops import RepeatedDrops

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Container, Coroutine, Mapping, Sequence

    from penstock.configuration import Configuration
    from penstock.configuration.topic_keys import TopicKey
    from penstock.engine.plans.plan import Plan
    from penstock.engine.workers.batch_to_judge import Submit
    from penstock.engine.workers.gathered_writes import GatheredWrites
    from penstock.engine.workers.shared_values import SharedValues
    from penstock.gateway.observing.metrics.counts import GatewayCounts
    from penstock.gateway.refusal_log import Refused

    Patterns = Sequence[tuple[str, re.Pattern[str]]]

log = structlog.get_logger()

_NICE: Final = 10
"""Of the workers for observed topics: those that clients wait for go first."""
_BLOCKED_AFTER_S: Final = 1.0
"""Of these workers: they may only be slow because others go first, and nobody waits for them."""


class LoadedPolicies(NamedTuple):
    """Policies whose workers have started.

    Attributes:
        pool: Runs the policies of records, or None.
        topic_keys: The topic level keys that the validation policy declares.
        loses_records: Whether records of idempotent producers may be dropped, by interceptors or
            into quarantine.
        digest: The digest of everything that decides which records are stored; empty if it is
            unknown, or if no record is lost.
        why_no_digest: The reason if it is unknown.
    """

    policies: PolicySet
    pool: Supervisor | None
    topic_keys: Mapping[str, TopicKey]
    loses_records: bool = False
    digest: str = ""
    why_no_digest: str = ""

    @property
    def parts(self) -> list[Supervisor | TopicPolicies | ObservedBatches]:
        """Everything that has to be closed when these policies are replaced."""
        every = (self.pool, self.policies.topics, self.policies.observed)
        return [part for part in every if part is not None]

    async def close(self) -> None:
        """Stop the workers."""
        for part in self.parts:
            await part.close()


class PolicyLoader(NamedTuple):
    """Loads policies for a gateway.

    Attributes:
        run: Runs a coroutine until it ends or the gateway stops.
        refused: Called for each refusal of an observed batch.
        counts: Counts the work of workers; None if nothing reads them.
        clock: Returns the monotonic time in seconds.
        observed_max_bytes: The most bytes of observed batches that wait to be judged.
        shared: The values that policies share, which outlive them.
        writes: Gathers writes of the event loop.
    """

    run: Callable[[Coroutine[object, object, Any]], asyncio.Task[Any]]
    refused: Callable[[Refused], None]
    counts: GatewayCounts | None
    clock: Callable[[], float]
    observed_max_bytes: int
    shared: SharedValues
    writes: GatheredWrites

    async def load(
        self, configuration: Configuration, plan: Plan, *, topics_have_settings: bool
    ) -> LoadedPolicies:
        """Start the workers for a plan, if it has any policies.

        Args:
            topics_have_settings: Whether a topic may name policies that the file does not.

        Raises:
            ConfigurationError: A policy cannot be loaded.
        """
        topics = TopicPolicies(
            configuration, tries_classes=topics_have_settings, counts=self.counts
        )
        if plan.is_empty and not topics_have_settings:
            log.warning("no topic has a policy: every record passes", file=str(configuration.path))
        pool = observed = inline = None
        if topics_have_settings or not plan.is_empty or any(plan.names.values()):
            pool = Supervisor(
                configuration,
                observer=self.counts,
                shared=self.shared,
                writes=self.writes,
                rings=find_rings(),
            )
            observed = self._observed_batches(configuration)
        submit: Submit = _nothing_to_judge
        patterns: Patterns = ()
        try:
            decides: OutcomeDigest | str = ""
            # The digest imports classes once more.
            if pool is not None and plan.may_lose_records(
                topics_have_settings=topics_have_settings
            ):
                decides = await _read_digest(configuration, plan)
            digests = await asyncio.to_thread(PlanDigests, configuration.policies)
            await topics.start()
            if pool is not None:
                await pool.start()
                plan.set_interceptor_patterns(pool.patterns)
                submit, patterns = pool.submit, pool.patterns
                inline = await self._inline_judge(configuration)
                if inline is not None:
                    submit = partial(submit_or_accept, inline, submit)
            submit = partial(
                submit_or_drop_again, RepeatedDrops(configuration, self.run).submit, submit
            )
            plan.set_digests(digests)
            for warning in digests.warnings:
                log.warning("configuration", file=str(configuration.path), text=warning)
            digest, why_no_digest = await _digest(decides, patterns)
        except BaseException:
            await topics.close()
            if pool is not None:
                await pool.close()
            raise
        policies = PolicySet(
            plan,
            submit,
            whole_request=configuration.produce_rejection_scope == "request",
            topics=topics,
            retain=partial(_retain, pool, observed) if pool else _nothing_to_retain,
            cancel=pool.cancel if pool else _nothing_to_cancel,
            leave=pool.leave if pool else _nothing_to_cancel,
            idempotence=Idempotence(configuration.produce_request_interceptors_idempotence),
            inline=inline,
            pool=pool,
            observed=observed,
        )
        loses_records = (
            pool is not None
            and (pool.drops_records or plan.may_quarantine)
            and policies.idempotence is not Idempotence.REFUSE
        )
        return LoadedPolicies(
            policies,
            pool,
            configuration.policies.topic_keys,
            loses_records,
            digest,
            why_no_digest,
        )

    def _observed_batches(self, configuration: Configuration) -> ObservedBatches:
        bounds, max_records = ((), 0) if self.counts is None else (BOUNDS, self.counts.records_max)
        ring_pool = find_observing(bounds, BATCHES_MAX, self.observed_max_bytes, max_records)

        def make_pool() -> Supervisor:
            return Supervisor(
                configuration,
                spare=False,
                child=partial(Child, nice=_NICE),
                observer=TimesBeside(self.counts) if self.counts is not None else None,
                shared=self.shared,
                rings=find_rings(ring_pool),
                blocked_after_s=_BLOCKED_AFTER_S,
            )

        return ObservedBatches(
            make_pool,
            max_bytes=self.observed_max_bytes,
            ring_pool=ring_pool,
            run=self.run,
            refused=self.refused,
            counts=self.counts,
            clock=self.clock,
        )

    async def _inline_judge(self, configuration: Configuration) -> InlineJudge | None:
        """Return the judge that accepts small batches without a worker; it may read files first."""
        inline = await asyncio.to_thread(
            InlineJudge,
            configuration.policies,
            in_background=self._in_background,
            on_accepted=self.counts.accepted_inline if self.counts is not None else None,
        )
        for warning in inline.warnings:
            log.warning("configuration", file=str(configuration.path), text=warning)
        return inline if inline.has_policy else None

    def _in_background(self, work: Callable[[], None]) -> None:
        self.run(asyncio.to_thread(work))


async def _read_digest(configuration: Configuration, plan: Plan) -> OutcomeDigest | str:
    """Return the digest, or why it is unknown; before workers read the files."""
    try:
        return await import_in_thread(partial(OutcomeDigest, configuration, plan))
    except NotKnownError as error:
        return str(error)


async def _digest(decides: OutcomeDigest | str, patterns: Patterns) -> tuple[str, str]:
    """Return the digest, or why it is not known."""
    if isinstance(decides, str):
        return "", decides
    try:
        return await asyncio.to_thread(decides.value, patterns), ""
    except NotKnownError as error:
        return "", str(error)


def _nothing_to_judge(*_: object) -> None:
    raise AssertionError("a topic without a policy is not judged")


def _retain(
    pool: Supervisor,
    observed: ObservedBatches | None,
    topic: str,
    records_policies: Container[str],
) -> None:
    pool.retain(topic, records_policies)
    if observed is not None:
        observed.retain(topic, records_policies)


def _nothing_to_retain(*_: object) -> None:
    """Do nothing: topics have no separate instances."""


def _nothing_to_cancel(_: object) -> None:
    """Nothing waits for a verdict."""
