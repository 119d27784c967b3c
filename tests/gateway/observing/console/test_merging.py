"""The state of several gateways is that of one gateway that has seen all of it."""

import random

import pytest

from penstock.gateway.observing.console.merged_refusals import ROWS_SHOWN_MAX, MergedRefusals
from penstock.gateway.observing.console.merging import (
    LIMIT_MAX,
    Named,
    merge_figures,
    merge_reloads,
    merge_rows,
    merge_topics,
    merge_totals,
    reason_of,
)
from penstock.gateway.observing.console.peer_state import GatewayState
from tests.gateway.observing.console.states import CountingGateway, broker, generated


@pytest.mark.parametrize("seed", range(12))
async def test_the_merge_of_parts_is_the_whole(seed):
    chance = random.Random(seed)
    time = iter(range(1000, 10_000))
    whole = CountingGateway(now=lambda: moment)
    parts = [CountingGateway(number, lambda: moment) for number in range(chance.randint(1, 5))]
    merged = MergedRefusals()
    for event in generated(seed):
        moment = float(next(time))
        part = chance.choice(parts)
        for gateway in (whole, part):
            gateway.play(event)
        if chance.random() < 0.2:  # read now and then, some of it or all
            state = part.state()
            rows = state.rows if chance.random() < 0.5 else state.rows[:1]
            take = merged.replace if rows is state.rows else merged.put
            take(str(part.number), rows, state.head["others"])

    states = [Named(str(part.number), part.state()) for part in parts]
    for name, state in states:
        merged.replace(name, state.rows, state.head["others"])
    wanted = {reason_of(row): without_id(row) for row in whole.state().rows}
    assert {reason_of(row): without_id(row) for row in merged.rows()} == wanted
    assert [row["last"] for row in merged.rows()] == sorted(
        (row["last"] for row in wanted.values()), reverse=True
    )
    assert merge_totals([part.counts.totals() for part in parts]) == whole.counts.totals()
    assert await merge_topics(states) == whole.counts.records_by_topic()


def without_id(row):
    return {name: value for name, value in row.items() if name != "id"}


def named(**heads):
    return [
        Named(name, CountingGateway(number).state(**head))
        for number, (name, head) in enumerate(heads.items())
    ]


def test_counts_add_up_and_states_show_the_worst():
    figures = merge_figures(
        named(
            a={"held_bytes": {"held": 95, "limit": 100}, "settings_generation": 7,
               "audit_trail": {"written": 3, "left_out": 1}},
            b={"ready": {"is_ready": False, "missing": ["no worker"], "troubles": ["slow"]}},
            c={"connections": {"limit": LIMIT_MAX, "states": {"open": 1}}, "producers": 0},
        ),
        ["d does not answer: no"],
    )  # fmt: skip
    assert figures["ready"] == {
        "is_ready": False,
        "missing": ["b: no worker"],
        "troubles": ["d does not answer: no", "b: slow"],
    }
    assert figures["connections"] == {"limit": LIMIT_MAX, "states": {"open": 7, "paused": 2}}
    assert figures["held_bytes"] == {"held": 115, "limit": 300, "share": 0.95}
    assert figures["workers"] == {"states": {"ready": 6}, "limit": 9, "waiting": 3, "sent": 6}
    assert figures["audit_trail"] == {"written": 3, "left_out": 1}
    assert (figures["settings_generation"], figures["producers"]) == (5, 4)
    assert figures["restarts"] == CountingGateway().counts.restarts()


def test_a_broker_that_one_gateway_cannot_reach_is_out_of_reach():
    states = [GatewayState(CountingGateway().head()) for _ in range(3)]
    states[0].brokers = [broker(2), broker(1)]
    states[1].brokers = [broker(1, "refused")]
    states[2].brokers = [broker(1, "other"), broker(3)]
    figures = merge_figures([Named(name, state) for name, state in zip("abc", states, strict=True)])
    assert [(row["node"], row["why_not"]) for row in figures["brokers"]] == [
        (1, "b: refused"), (2, ""), (3, ""),
    ]  # fmt: skip


def reload(at, why_not=""):
    return {"reload": {"at": at, "worked": not why_not, "why_not": why_not}}


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        ({"a": {}, "b": {}}, None),
        ({"a": reload(5.0), "b": reload(7.0)}, (7.0, "")),
        ({"a": reload(5.0, "bad"), "b": reload(7.0)}, (5.0, "a: bad")),
        ({"a": reload(5.0, "bad"), "b": reload(4.0, "bad")}, (5.0, "a: bad")),
    ],
)
def test_a_failed_reload_is_shown_before_others(heads, expected):
    merged = merge_reloads(named(**heads))
    assert (merged and (merged["at"], merged["why_not"])) == expected


def row(message="no", **more):
    return {"topic": "t", "policy": "a.V", "code": 87, "message": message, "client": None,
            "observed": False, "outcome": "refused", "count": 1, "records": 2, "first": 1.0,
            "last": 2.0, "partition": 0, "minutes": [[3, 1]], **more}  # fmt: skip


def test_a_row_is_about_the_latest_refusal():
    merged = merge_rows(
        [row(last=3.0, partition=7, first=2.0, minutes=[[2, 5], [3, 1]]), row(count=4)]
    )
    assert merged == row(last=3.0, partition=7, count=5, records=4, minutes=[[2, 5], [3, 2]])


def test_a_row_keeps_its_number_as_long_as_a_gateway_has_it():
    merged = MergedRefusals()
    merged.put("a", [row()], 0)
    merged.put("b", [row(), row("other")], 2)
    assert [row["id"] for row in merged.take_changed(100)] == [1, 2]
    assert merged.take_changed(100) == []
    merged.replace("a", [], 1)
    assert [row["id"] for row in merged.rows()] == [1, 2]
    assert merged.others == 3
    merged.replace("b", [row("other", count=2)], 0)
    assert [(row["id"], row["count"]) for row in merged.take_changed(100)] == [(2, 2)]
    merged.put("a", [row()], 0)
    assert {row["message"]: row["id"] for row in merged.rows()} == {"no": 3, "other": 2}


def test_the_rows_are_bounded_and_none_is_lost_from_the_count():
    merged = MergedRefusals()
    merged.put("a", [row(str(number), last=float(number)) for number in range(700)], 5)
    rows = merged.rows()
    assert len(rows) == ROWS_SHOWN_MAX
    assert rows[0]["message"] == "699"
    assert merged.others == 105


def test_many_changed_rows_are_returned_in_parts():
    merged = MergedRefusals()
    merged.put("a", [row(str(number)) for number in range(250)], 0)
    parts = [merged.take_changed(100) for _ in range(4)]
    assert [len(part) for part in parts] == [100, 100, 50, 0]
    assert len({changed["message"] for part in parts for changed in part}) == 250
