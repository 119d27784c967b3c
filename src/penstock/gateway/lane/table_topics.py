"""The topics that a table of the lane knows: what Python has found out about each of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration.topic_keys import ENFORCE
from penstock.gateway.produce.gateway import KnownTopics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.gateway.context.topic_names import TopicNames
    from penstock.gateway.lane.table import ForwardingGateway, Rows
    from penstock.kafka.wire.requests.produce import TopicData
    from penstock.policies.by_columns import NativeJudge

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
        postponed = self._gateway.postponed
        are_stored = self._gateway.topic_configs.are_stored
        plans = {topic.key: plan for plan, topic in judged_topics}
        for topic in topics:
            plan = plans.get(topic.key)
            judge = self._judge(plan) if plan is not None else None
            name = names.name(topic.topic_id) if topic.topic_id is not None else topic.name
            is_judged_elsewhere = plan is not None and judge is None
            if name is None or is_judged_elsewhere or postponed.has_topic(name):
                continue
            if topic.topic_id is not None:
                self.table.know_id(topic.topic_id.bytes, name, judge)
            else:
                expiry = names.known_until(name) if are_stored else math.inf
                self.table.know_name(name, judge, expiry)

    def accepts(self, plan: TopicPlan, version: int, data: memoryview) -> bool:
        inline, judge = self._gateway.policies.inline, self._judge(plan)
        if inline is None or judge is None:
            return False
        return inline.accepts_large(plan, version, data, judge)

    def forget(self, name: str | None) -> None:
        """Forget a topic, or all of them."""
        if name is None:
            self.table.forget_topics()
        else:
            self.table.forget(name)

    def forget_affected(self, affects: Callable[[str], bool]) -> None:
        """Forget the topics that a change affects; all of them if they are too many to compare."""
        names = self.table.names()
        if len(names) > _COMPARED_MAX:
            self.table.forget_topics()
            return
        for name in filter(affects, names):
            self.table.forget(name)

    def _judge(self, plan: TopicPlan) -> NativeJudge | None:
        """Return the native judge that accepts the same batches as Python does inline, or None.

        All policies have to be enforced: batches in mode `observe` are judged separately, and the
        modes `mark` and `quarantine` change batches.
        """
        inline = self._gateway.policies.inline
        if inline is None or plan.unusable or plan.judging_modes != (ENFORCE,):
            return None
        return inline.natively(plan, self._new_judge)
