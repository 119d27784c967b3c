"""Since when gateways have enforced the plan of a topic, as their trail says.

Each refusal has the digest of the plan by which it was refused, and a record is written when a
topic gets another plan. A gateway that refuses nothing and is started with another file writes
neither.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

KEPT: Final = 10_000
"""How many plans and changes of plans: names in a trail that others can write may be long."""


class PlanPeriod(NamedTuple):
    """The plan that gateways enforce for a topic, according to the last record of each.

    Attributes:
        topic: The name of the topic.
        plan: Its digest; None if the topic has no policy any more.
        begin: From then on, no record of these gateways has another plan.
        end: The time of the last record with this plan.
        gateways: Their names, in order.
    """

    topic: str
    plan: str | None
    begin: datetime
    end: datetime
    gateways: list[str]


@dataclass
class _Times:
    """When a gateway had a plan for a topic: at these times, perhaps not all the time between."""

    first: datetime
    last: datetime
    changes: list[datetime] = field(default_factory=list)

    def since(self, other: datetime | None) -> datetime:
        """Return the first of the times after that of the last other plan."""
        if other is None or self.first >= other:
            return self.first
        return min((time for time in self.changes if time >= other), default=self.last)


class PlanPeriods:
    """The plans in a trail, whose records come in any order.

    Attributes:
        not_kept: How many records are left out: their topics had more plans than `KEPT`.
    """

    def __init__(self) -> None:
        self.not_kept = 0
        self._size = 0
        self._times: dict[str, dict[str, dict[str | None, _Times]]] = {}

    def add(
        self, topic: str, gateway: str, when: datetime, plan: str | None, *, is_new: bool = False
    ) -> None:
        """Take note that a gateway had a plan.

        Args:
            topic: The name of the topic.
            gateway: The name of the gateway.
            when: At this time.
            plan: The digest; None for no policy.
            is_new: Whether it had another plan before.
        """
        times = self._times.get(topic, {}).get(gateway, {}).get(plan)
        if (times is None or is_new) and self._size == KEPT:
            self.not_kept += 1
            return
        if times is None:
            times = _Times(when, when)
            self._times.setdefault(topic, {}).setdefault(gateway, {})[plan] = times
            self._size += 1
        times.first = min(times.first, when)
        times.last = max(times.last, when)
        if is_new:
            times.changes.append(when)
            self._size += 1

    def latest(self) -> list[PlanPeriod]:
        """Return the plan of each topic; several of a topic whose gateways differ."""
        return [
            _period(topic, plan, gateways)
            for topic, of_gateways in sorted(self._times.items())
            for plan, gateways in _by_plan(of_gateways).items()
        ]


def _by_plan(
    of_gateways: dict[str, dict[str | None, _Times]],
) -> dict[str | None, dict[str, dict[str | None, _Times]]]:
    """Return gateways, in order, by the plan that each had last."""
    groups: dict[str | None, dict[str, dict[str | None, _Times]]] = defaultdict(dict)
    for gateway, plans in sorted(of_gateways.items()):
        groups[max(plans, key=lambda plan: _rank(plans[plan]))][gateway] = plans
    return groups


def _rank(times: _Times) -> tuple[datetime, bool]:
    """Order plans by their last time; at the same time, the plan that was new comes later."""
    return times.last, times.last in times.changes


def _period(
    topic: str, plan: str | None, gateways: dict[str, dict[str | None, _Times]]
) -> PlanPeriod:
    """Return since when all of some gateways have had a plan.

    A gateway that came later, with this plan, does not make it a later time.
    """
    others = {
        name: max(times.last for digest, times in plans.items() if digest != plan)
        for name, plans in gateways.items()
        if len(plans) > 1
    }
    begins = [gateways[name][plan].since(other) for name, other in others.items()]
    first = min(plans[plan].first for plans in gateways.values())
    last = max(plans[plan].last for plans in gateways.values())
    return PlanPeriod(topic, plan, max(begins, default=first), last, list(gateways))
