"""The counts of a trail: by topic, policy, client and so on, over time, each refusal once."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.jobs.audit_trail.numbers import Numbers
from penstock.jobs.audit_trail.plan_periods import PlanPeriods
from penstock.jobs.report.bounded_counter import BoundedCounter
from penstock.jobs.report.times import TimeBins, hour_of, in_range, moment

if TYPE_CHECKING:
    from collections.abc import Mapping

KEPT: Final = 2000
"""How many different values of each kind are kept while lines are counted."""
RUNS_MAX: Final = 100_000
"""More than gateways are started in years."""
LINE_MAX_BYTES: Final = 2**18
"""More than any line of a trail has."""
TEXT_MAX: Final = 1024
"""More characters than any field of a trail has: the writers of a topic may write anything."""
_NUMBER_MAX: Final = 2**53
_RECORDS_MAX: Final = 2**31 - 1
"""As many as the header of a batch can say; no count of refusals is higher."""
BY: Final = ("topic", "policy", "reason", "principal", "client_id", "address", "code", "gateway")
"""The keys of counts: fields of the record, and `reason` for its first reason."""


class Count(NamedTuple):
    """How often a value occurs.

    Attributes:
        value: The value; None where the field is null.
        refusals: In how many refusals.
        records: How many records they were about, according to their batches.
    """

    value: str | None
    refusals: int
    records: int


class _FieldCounts:
    """Refusals and records by the values of a field."""

    def __init__(self) -> None:
        self._refusals: BoundedCounter[str | None] = BoundedCounter(KEPT)
        self._records: Counter[str | None] = Counter()

    def add(self, value: str | None, refusals: int, records: int) -> None:
        self._records[value] += records
        if self._refusals.add(value, refusals):
            for rare in [name for name in self._records if name not in self._refusals]:
                del self._records[rare]

    def most_common(self, most: int) -> tuple[list[Count], int]:
        value_counts, rest = self._refusals.most_common(most)
        return [Count(value, count, self._records[value]) for value, count in value_counts], rest


@dataclass
class TrailCounts:
    """The counts of a trail, or of a part of a trail.

    Attributes:
        start: Refusals before are left aside; None for all.
        end: Refusals from then on are left aside; None for all.
        refusals: How many refusals there are.
        records: How many records they were about.
        outcomes: Refusals by outcome and subject.
        repeated_lines: How many lines were there again, and are not counted.
        plans: Which plans gateways enforced, and since when.
        plan_changes: How often topics got other plans.
        unreadable: How many lines are not records of a trail.
        first: The time of the first refusal.
        last: The time of the last.
        times: Refusals by hour and outcome.
    """

    start: datetime | None = None
    end: datetime | None = None
    refusals: int = 0
    records: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    repeated_lines: int = 0
    unreadable: int = 0
    plan_changes: int = 0
    plans: PlanPeriods = field(default_factory=PlanPeriods)
    first: datetime | None = None
    last: datetime | None = None
    times: TimeBins = field(default_factory=TimeBins)
    _field_counts: dict[str, _FieldCounts] = field(
        default_factory=lambda: {name: _FieldCounts() for name in BY}
    )
    _runs: dict[str, Numbers] = field(default_factory=dict)
    _counted_runs: set[str] = field(default_factory=set)

    @property
    def runs(self) -> int:
        """How many runs of gateways wrote the counted records."""
        return len(self._counted_runs)

    @property
    def missing(self) -> int:
        """How many numbers are missing between the first and the last of each run.

        The numbers of what `since` and `until` leave aside are not missing.
        """
        return sum(run.missing for run in self._runs.values())

    @property
    def before_the_first(self) -> int:
        """How many numbers of all runs are lower than the first number that was found."""
        return sum(run.first - 1 for run in self._runs.values() if run.count)

    def by(self, name: str, most: int) -> tuple[list[Count], int]:
        """Return the values of a field that are there most often, and the refusals of all others.

        Args:
            name: One of `BY`.
            most: How many values are returned at most.
        """
        return self._field_counts[name].most_common(most)

    def add(self, line: bytes) -> None:
        """Count a line, unless it was there already."""
        try:
            record: Any = json.loads(line) if len(line) <= LINE_MAX_BYTES else None
            when, run, number = _place(record)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            self.unreadable += 1
            return
        if not self._is_new(run, number):
            self.repeated_lines += 1
            return
        if (self.start is not None and when < self.start) or (
            self.end is not None and when >= self.end
        ):
            return
        if run in self._runs:
            self._counted_runs.add(run)
        self._count(record, when)

    def _is_new(self, run: str, number: int) -> bool:
        """Return whether a refusal was not there yet; with too many runs that is unknown."""
        if run not in self._runs:
            if len(self._runs) >= RUNS_MAX:
                return True
            self._runs[run] = Numbers()
        return self._runs[run].add(number)

    def _count(self, record: Mapping[str, Any], when: datetime) -> None:
        records, count = _within(record.get("records"), 0), _within(record.get("count"), 1)
        outcome = _text(record.get("outcome")) or ""
        subject = _text(record.get("subject")) or ""
        self._add_plan(record, when, is_new=subject == _PLAN)
        if subject == _PLAN:
            self.plan_changes += 1
            return
        self.refusals += count
        self.records += records
        self.outcomes[outcome[:_KIND_MAX], subject[:_KIND_MAX]] += count
        self.first = when if self.first is None else min(self.first, when)
        self.last = when if self.last is None else max(self.last, when)
        self.times.add(hour_of(int(when.timestamp() * 1000)), outcome[:_KIND_MAX], count)
        for name, counter in self._field_counts.items():
            value = _reason(record) if name == "reason" else _text(record.get(name))
            if name == "topic" and value is None and record.get("resource_name") is not None:
                value = _text(f"{record.get('resource_type')} {record['resource_name']}")
            counter.add(value, count, records)

    def _add_plan(self, record: Mapping[str, Any], when: datetime, *, is_new: bool) -> None:
        topic, gateway = _text(record.get("topic")), _text(record.get("gateway"))
        plan = _text(record.get("plan"))
        if topic is None or gateway is None or (plan is None and not is_new):
            return
        if is_new:
            self.plans.add(topic, gateway, when, _text(record.get("former_plan")))
        self.plans.add(topic, gateway, when, plan, is_new=is_new)


_KIND_MAX: Final = 20
_PLAN: Final = "plan"
"""The subject of a change of a topic's plan, which is no refusal."""


def _place(record: Any) -> tuple[datetime, str, int]:
    """Return when a refusal was, and its run and number.

    Raises:
        ValueError: They are not those of a refusal.
        OverflowError: Likewise.
        TypeError: Likewise, or it is not an object.
        KeyError: Likewise.
    """
    when = datetime.fromisoformat(record["time"])
    run, number = record["run"], record["number"]
    is_local = when.tzinfo is None
    when = when.astimezone(UTC)
    if is_local or not isinstance(run, str) or type(number) is not int:
        raise ValueError
    if not 0 < number < _NUMBER_MAX or len(run) > TEXT_MAX:
        raise ValueError
    return when, run, number


def _within(value: object, least: int) -> int:
    """Return a number of a record, within bounds; the least if the record has none."""
    return min(max(value, least), _RECORDS_MAX) if isinstance(value, int) else least


def _text(value: object) -> str | None:
    return None if value is None else str(value)[:TEXT_MAX]


def _reason(record: Mapping[str, Any]) -> str | None:
    """Return the message of the first reason."""
    reasons = record.get("reasons")
    first = reasons[0] if isinstance(reasons, list) and reasons else None
    return _text(first.get("message")) if isinstance(first, dict) else None


def as_document(counts: TrailCounts, most: int) -> dict[str, Any]:
    """Return everything as JSON has it: `trail.json` of a report.

    Args:
        counts: All that was counted.
        most: How many values of each field.
    """

    def text(when: datetime | None) -> str | None:
        return None if when is None else when.isoformat()

    fields = {}
    for name in BY:
        top_counts, rest = counts.by(name, most)
        fields[name] = {"values": [count._asdict() for count in top_counts], "others": rest}
    return {
        "refusals": counts.refusals,
        "records": counts.records,
        "first": text(counts.first),
        "last": text(counts.last),
        "runs": counts.runs,
        "missing": counts.missing,
        "before_the_first": counts.before_the_first,
        "twice": counts.repeated_lines,
        "unreadable": counts.unreadable,
        "plan_changes": counts.plan_changes,
        "plans": [
            {
                "topic": period.topic,
                "plan": period.plan,
                "since": text(period.begin),
                "until": text(period.end),
                "gateways": period.gateways,
            }
            for period in counts.plans.latest()[:most]
        ],
        "plans_left_out": counts.plans.not_kept,
        "outcomes": [
            {"outcome": outcome, "subject": subject, "refusals": count}
            for (outcome, subject), count in counts.outcomes.most_common(most)
        ],
        "hours": [
            {"hour": hour, "refusals": sum(refusals.values())}
            for hour, refusals in hours(counts.times)
        ],
        "hours_width": counts.times.width,
        "by": fields,
    }


def hours(times: TimeBins) -> list[tuple[str, Counter[str]]]:
    """Return refusals by the time at which an hour, or a wider bin, begins."""
    return [
        (moment(hour).isoformat(timespec="minutes"), refusals)
        for hour, refusals in sorted(times.bins.items())
        if in_range(hour)
    ]
