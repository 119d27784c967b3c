"""Since when gateways have enforced a plan."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from penstock.jobs.audit_trail import plan_periods
from penstock.jobs.audit_trail.plan_periods import PlanPeriod, PlanPeriods


def at(minute):
    return datetime(2026, 1, 31, tzinfo=UTC) + timedelta(minutes=minute)


@pytest.fixture
def periods():
    return PlanPeriods()


def test_a_plan_is_there_from_its_first_refusal(periods):
    for minute in (3, 1, 2):
        periods.add("orders", "gw", at(minute), "p")
    assert periods.latest() == [PlanPeriod("orders", "p", at(1), at(3), ["gw"])]


def test_another_plan_ends_the_time_of_a_plan(periods):
    periods.add("orders", "gw", at(1), "p")
    periods.add("orders", "gw", at(2), "q")
    periods.add("orders", "gw", at(3), "q")
    assert periods.latest() == [PlanPeriod("orders", "q", at(2), at(3), ["gw"])]


def test_a_plan_that_returns_begins_with_its_change(periods):
    """Without the record of the change, only its last refusal is known to be after the other plan."""
    for minute in (1, 6, 8):
        periods.add("orders", "gw", at(minute), "p")
    periods.add("orders", "gw", at(3), "q")
    assert periods.latest()[0].begin == at(8)
    periods.add("orders", "gw", at(5), "p", is_new=True)
    assert periods.latest()[0].begin == at(5)


def test_a_change_is_later_than_the_plan_that_it_ends(periods):
    periods.add("orders", "gw", at(1), "p")
    periods.add("orders", "gw", at(2), "p")
    periods.add("orders", "gw", at(2), "q", is_new=True)
    assert periods.latest() == [PlanPeriod("orders", "q", at(2), at(2), ["gw"])]


def test_all_gateways_have_the_plan(periods):
    periods.add("orders", "a", at(1), "p")
    periods.add("orders", "b", at(2), "q")
    periods.add("orders", "b", at(4), "p")
    assert periods.latest() == [PlanPeriod("orders", "p", at(4), at(4), ["a", "b"])]


def test_a_new_gateway_does_not_begin_a_plan_again(periods):
    periods.add("orders", "a", at(1), "p")
    periods.add("orders", "b", at(9), "p")
    assert periods.latest()[0].begin == at(1)


def test_a_gateway_that_takes_the_place_of_one_with_another_plan(periods):
    """Deployments give their pods new names: after a plan is taken back, no name is the same."""
    periods.add("orders", "a", at(1), "p")
    periods.add("orders", "a", at(5), "p")
    periods.add("orders", "b", at(6), "q")
    periods.add("orders", "b", at(8), "q")
    periods.add("orders", "c", at(9), "p")
    periods.add("orders", "d", at(10), "p")
    assert periods.latest() == [
        PlanPeriod("orders", "p", at(9), at(10), ["a", "c", "d"]),
        PlanPeriod("orders", "q", at(6), at(8), ["b"]),
    ]


def test_gateways_that_differ_are_named(periods):
    periods.add("orders", "a", at(1), "p")
    periods.add("orders", "b", at(2), "q")
    assert [(period.plan, period.gateways) for period in periods.latest()] == [
        ("p", ["a"]),
        ("q", ["b"]),
    ]


def test_the_order_of_records_does_not_matter():
    chance = Random(1)
    for _ in range(200):
        records = [
            ("t", chance.choice("ab"), at(chance.randrange(9)), chance.choice("pq"))
            for _ in range(chance.randrange(1, 9))
        ]
        results = []
        for _ in range(3):
            periods = PlanPeriods()
            for record in records:
                periods.add(*record)
            results.append({(p.plan, p.begin, p.end) for p in periods.latest()})
            chance.shuffle(records)
        # Two plans at one moment, without a record of the change: either may be the last.
        moments = {(gateway, when): set() for _, gateway, when, _ in records}
        for _, gateway, when, plan in records:
            moments[gateway, when].add(plan)
        if all(len(plans) == 1 for plans in moments.values()):
            assert results[0] == results[1] == results[2]


def test_plans_are_bounded(periods, monkeypatch):
    monkeypatch.setattr(plan_periods, "KEPT", 3)
    for number in range(9):
        periods.add("orders", "gw", at(number), str(number))
    periods.add("orders", "gw", at(99), "2")
    assert periods.not_kept == 6
    assert periods.latest()[0].end == at(99)


def test_records_that_are_left_out_may_have_another_plan(periods, monkeypatch):
    """Whoever writes to the topic of the trail can fill the memory."""
    monkeypatch.setattr(plan_periods, "KEPT", 1)
    periods.add("orders", "gw", at(1), "p")
    periods.add("orders", "gw", at(5), "q", is_new=True)
    periods.add("orders", "gw", at(4), "q")
    periods.add("orders", "gw", at(3), "p")
    assert periods.latest()[0].begin == at(3)
    for minute in (8, 9):
        periods.add("orders", "gw", at(minute), "p")
    assert periods.latest()[0].begin == at(9)
