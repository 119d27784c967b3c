"""Since when gateways have enforced the plan of a topic, as their trail says.

Each refusal has the digest of the plan by which it was refused, and a record is written when a
topic gets another plan. A gateway that refuses nothing and is started with another file writes
neither.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

KEPT: Final = 10_000
"""How many plans and changes of plans: names in a trail that others can write may be long."""


class PlanPeriod(NamedTuple):
    """The plan that gateways enforce for a topic, according to the last record of each.

    Attributes:
        topic: The name of the topic.
        plan: Its digest; None if the topic has no policy any more.
        begin: From then on, no record of these gateways has another plan, nor of a gateway whose
            last record is older than the first of one of these: that may have taken its place.
            Where records of the topic are left out, it is later than those, or `end`.
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

    def since(self, other: datetime) -> datetime | None:
        """Return the first of the known times from that of the last other plan on."""
        if self.first >= other:
            return self.first
        times = (*self.changes, self.last)
        return min((time for time in times if time >= other), default=None)


class PlanPeriods:
    """The plans in a trail, whose records come in any order.

    Attributes:
        not_kept: How many records are left out: their topics had more plans than `KEPT`.
    """

    def __init__(self) -> None:
        self.not_kept = 0
        self._size = 0
        self._times: dict[str, dict[str, dict[str | None, _Times]]] = {}
        self._left_out: dict[str, datetime] = {}
        """By topic, the time of the last record that is left out: it may have another plan."""

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
            if topic in self._times:
                self._left_out[topic] = max(self._left_out.get(topic, when), when)
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
            period
            for topic, of_gateways in sorted(self._times.items())
            for period in _periods(topic, of_gateways, self._left_out.get(topic))
        ]


def _periods(
    topic: str, of_gateways: dict[str, dict[str | None, _Times]], left_out: datetime | None
) -> Iterator[PlanPeriod]:
    groups = _by_plan(of_gateways)
    ends = sorted(
        ((plans[plan].last, plan) for plan, group in groups.items() for plans in group.values()),
        key=itemgetter(0),
    )
    for plan, group in groups.items():
        yield _period(topic, plan, group, ends, left_out)


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
    topic: str,
    plan: str | None,
    gateways: dict[str, dict[str | None, _Times]],
    ends: list[tuple[datetime, str | None]],
    left_out: datetime | None,
) -> PlanPeriod:
    """Return since when all of some gateways have had a plan.

    A gateway that came later, with this plan, does not make it a later time, unless it may have
    taken the place of one with another plan.

    Args:
        ends: When each gateway had its last plan last, in order.
        left_out: The time of the last record that is left out.
    """
    others = [
        (plans[plan], max(times.last for digest, times in plans.items() if digest != plan))
        for plans in gateways.values()
        if len(plans) > 1
    ]
    begins = [times.since(other) for times, other in others]
    members = [plans[plan] for plans in gateways.values()]
    replaced_at = _last_of_another(plan, ends, limit=max(times.first for times in members))
    if replaced_at is not None:
        begins.append(min(filter(None, (times.since(replaced_at) for times in members))))
    first = min(times.first for times in members)
    last = max(times.last for times in members)
    if left_out is not None:
        begins.append(min(filter(None, (times.since(left_out) for times in members)), default=last))
    return PlanPeriod(topic, plan, max(filter(None, begins), default=first), last, list(gateways))


def _last_of_another(
    plan: str | None, ends: list[tuple[datetime, str | None]], *, limit: datetime
) -> datetime | None:
    """Return the last time of a gateway with another plan that had its last record before."""
    for index in reversed(range(bisect_left(ends, limit, key=itemgetter(0)))):
        end, other = ends[index]
        if other != plan:
            return end
    return None
