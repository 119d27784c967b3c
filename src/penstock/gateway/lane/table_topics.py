"""The topics that a table of the lane knows: what Python has found out about each of them."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.gateway.produce.forwarded_at_once import passes_accepted
from penstock.gateway.produce.gateway import KnownTopics
from penstock.kafka.wire.names import NO_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.workers.supervisor import Supervisor
    from penstock.gateway.context.topic_names import TopicNames
    from penstock.gateway.lane.table import ForwardingGateway, Rows
    from penstock.kafka.wire.requests.produce import TopicData
    from penstock.policies.by_columns import NativeJudge

    _Part = tuple[str, bytes, bool, Any]
    """The names of policies, their plan, whether one takes the client, and the rings."""
    _Judging = tuple[list[NativeJudge], _Part | None, _Part | None]
    """Native judges, the policies that requests wait for, and those that only observe."""

_COMPARED_MAX: Final = 500
"""The most topics that are compared with a change at once: requests wait meanwhile."""


class TableTopics(KnownTopics):
    """Topics without policies, and topics whose policies are native.

    Attributes:
        table: The native table.
    """

    def __init__(self, native: Any, gateway: ForwardingGateway, rows: Rows) -> None:
        """Make a table that knows no topic.

        Args:
            native: The native module.
            rows: The treatment of requests.
        """
        self.table = native.Table(list(rows))
        self._new_judge = native.Judge
        self._gateway = gateway
        self._worked: dict[str, bool] = {}

    def passed(
        self,
        topics: Iterable[TopicData],
        judged_topics: Iterable[tuple[TopicPlan, TopicData]],
        names: TopicNames,
    ) -> None:
        """Remember topics; those that are judged only if that can be done natively.

        Topics are left out that have a batch to be retried before later batches. If topics have
        settings, their names are remembered for as long as the connection knows the names of their
        ids.
        """
        missing_batches = self._gateway.missing_batches
        are_stored = self._gateway.topic_configs.are_stored
        plans = {topic.key: plan for plan, topic in judged_topics}
        for topic in topics:
            plan = plans.get(topic.key)
            judges = self._judges(plan) if plan is not None else []
            name = names.name(topic.topic_id) if topic.topic_id is not None else topic.name
            if name is None or missing_batches.has_topic(name):
                continue
            is_unnumbered = plan is not None and plan.quarantines
            if judges is None:
                self._know_worked(plan, topic, name, names, are_stored=are_stored)
            elif topic.topic_id is not None:
                self.table.know_id(topic.topic_id.bytes, name, judges, is_unnumbered)
            else:
                expiry = names.known_until(name) if are_stored else math.inf
                self.table.know_name(name, judges, is_unnumbered, expiry)

    def _know_worked(
        self,
        plan: TopicPlan | None,
        topic: TopicData,
        name: str,
        names: TopicNames,
        *,
        are_stored: bool,
    ) -> None:
        """Remember a topic whose batches workers judge, if they do so through rings."""
        judging = self._judging(plan, name) if plan is not None else None
        if plan is None or judging is None:
            return
        self._worked[name] = self._may_observe(name)
        if topic.topic_id is not None:
            self.table.know_worked_id(topic.topic_id.bytes, name, judging, plan.quarantines)
            return
        topic_id = NO_ID
        if plan.needs_topic_id:
            known_id = names.topic_id(name)
            if known_id is None:
                return
            topic_id = known_id
        is_temporary = are_stored or plan.needs_topic_id
        expiry = names.known_until(name) if is_temporary else math.inf
        self.table.know_worked_name(name, topic_id.bytes, judging, plan.quarantines, expiry)

    def _judging(self, plan: TopicPlan, name: str) -> _Judging | None:
        """Return who judges a topic natively, and through rings; None if that is not possible.

        In quarantine that is for batches without a producer id (`passes_accepted`).
        """
        policies = self._gateway.policies
        if (
            plan.unusable
            or plan.interceptors
            or (plan.quarantines and not passes_accepted(plan, self._gateway))
        ):
            return None
        judges: list[NativeJudge] = []
        parts: list[_Part | None] = []
        through_ring = partial(_through_ring, pool=policies.pool)
        for part, part_source in ((plan.waited_for, through_ring), (plan.observed, self._observed)):
            judge = self._judge_of(part) if part is not None else None
            worked = None
            if judge is not None:
                judges.append(judge)
            elif part is not None:
                worked = part_source(part, name)
                if worked is None:
                    return None
            parts.append(worked)
        return judges, parts[0], parts[1]

    def _observed(self, plan: TopicPlan, name: str) -> _Part | None:
        """Return the policies of a topic that only observe, and the rings of their workers.

        Whether or not these can judge now, requests need not wait for Python, which has batches
        judged without rings then.
        """
        observed = self._gateway.policies.observed
        if observed is None or observed.ring_pool is None:
            return None
        pool, ring_pool = observed.open_pool, observed.ring_pool
        if not self._may_observe(name) or (pool is not None and not pool.may_be_known(plan)):
            ring_pool = ring_pool.beside()
        takes_client = pool is None or pool.needs_client(plan)
        return plan.policy_names, plan.encoded, takes_client, ring_pool

    def _may_observe(self, name: str) -> bool:
        """Return whether rings may have the batches of a topic that are only observed."""
        observed = self._gateway.policies.observed
        pool = observed.open_pool if observed is not None else None
        return pool is None or pool.rings is None or pool.rings.serves(name)

    def _judge_of(self, plan: TopicPlan) -> NativeJudge | None:
        inline = self._gateway.policies.inline
        return None if inline is None else inline.natively(plan, self._new_judge)

    def look_again(self) -> None:
        """Forget the topics whose batches have blocked a worker, or do so no more."""
        policies = self._gateway.policies
        if policies.observed is not None:
            policies.observed.look()
        rings = policies.pool.rings if policies.pool is not None else None
        for name, was_observed in list(self._worked.items()):
            is_slow = rings is not None and not rings.serves(name)
            if is_slow or was_observed != self._may_observe(name):
                del self._worked[name]
                self.table.forget(name)

    def accepts(self, plan: TopicPlan, version: int, data: memoryview) -> bool:
        inline, waited_for = self._gateway.policies.inline, plan.waited_for
        judges = self._judges(plan)
        if inline is None or waited_for is None or not judges:
            return False
        return inline.accepts_large(waited_for, version, data, judges[0])

    def forget(self, name: str | None) -> None:
        """Forget a topic, or all of them."""
        if name is None:
            self.table.forget_topics()
        else:
            self.table.forget(name)

    def forget_numbered(self, name: str | None) -> None:
        """Forget a topic, or all of them, but for batches without a producer id."""
        if name is None:
            self.table.forget_topics()
        else:
            self.table.forget_numbered(name)

    def forget_affected(self, affects: Callable[[str], bool]) -> None:
        """Forget the topics that a change affects; all of them if they are too many to compare."""
        names = self.table.names()
        if len(names) > _COMPARED_MAX:
            self.table.forget_topics()
            return
        for name in filter(affects, names):
            self.table.forget_numbered(name)

    def _judges(self, plan: TopicPlan) -> list[NativeJudge] | None:
        """Return the native judges that accept the same batches as Python, or None.

        Their order is that of the policies that requests wait for, and those that only observe.
        What any of them does not accept is Python's, which observes it in workers and forwards it.
        In quarantine they are for batches without a producer id (`passes_accepted`).
        """
        if self._gateway.policies.inline is None or plan.unusable:
            return None
        if plan.quarantines and not passes_accepted(plan, self._gateway):
            return None
        judges = []
        for part in filter(None, (plan.waited_for, plan.observed)):
            judge = self._judge_of(part)
            if judge is None:
                return None
            judges.append(judge)
        return judges


def _through_ring(plan: TopicPlan, name: str, pool: Supervisor | None) -> _Part | None:
    """Return the policies of a topic, and the rings of their workers; None if these judge none."""
    rings = pool.rings if pool is not None else None
    if pool is None or rings is None or not rings.serves(name) or not pool.may_be_known(plan):
        return None
    return plan.policy_names, plan.encoded, pool.needs_client(plan), rings.pool
