"""The topics that a table of the lane knows: what Python has found out about each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.configuration.topic_keys import ENFORCE
from penstock.gateway.lane.topics import KnownTopics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.inline import NativeJudge
    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.gateway.context.gateway_context import GatewayContext
    from penstock.gateway.lane.table import Rows
    from penstock.wire.requests.produce import TopicData


class TableTopics(KnownTopics):
    """Topics that nobody judges, and those whose policies are judged natively.

    Attributes:
        table: The native table.
    """

    def __init__(self, native: Any, gateway: GatewayContext, rows: Rows) -> None:
        """Make a table that knows no topic.

        Args:
            native: The native module.
            gateway: The gateway.
            rows: What happens to requests.
        """
        self.table = native.Table(list(rows))
        self._new_judge = native.Judge
        self._gateway = gateway
        self._knows_judged = False

    def passed(
        self, topics: Iterable[TopicData], judged: Iterable[tuple[TopicPlan, TopicData]]
    ) -> None:
        """Remember topics; those that are judged only if that can be done natively.

        And only if no batch for them is to come again before what is behind it.
        """
        postponed = self._gateway.postponed
        plans = {topic.key: plan for plan, topic in judged}
        for topic in topics:
            plan = plans.get(topic.key)
            judge = None
            if plan is not None:
                judge = None if postponed.has_topic(plan.topic) else self._judge(plan)
                if judge is None:
                    continue
                self._knows_judged = True
            name = plan.topic if plan is not None else topic.name or ""
            if topic.topic_id is not None:
                self.table.know_id(topic.topic_id.bytes, name, judge)
            elif topic.name is not None:
                self.table.know_name(name, judge)

    def forget_judged(self) -> None:
        """Forget those that are judged."""
        if self._knows_judged:
            self._knows_judged = False
            self.table.forget_judged()

    def _judge(self, plan: TopicPlan) -> NativeJudge | None:
        """Return what accepts batches natively as Python does inline; None if nothing can.

        All policies have to be enforced: what is observed is judged beside, and what is marked or
        goes to quarantine is changed.
        """
        inline = self._gateway.policies.inline
        if inline is None or plan.unusable or plan.judging_modes != (ENFORCE,):
            return None
        return inline.natively(plan, self._new_judge)
