"""Counts of the records of an audit trail."""

import json
from datetime import UTC, datetime

import pytest

from penstock.engine.verdict import RecordError, refused, refused_records
from penstock.gateway.observing.audit_trail.record import audit_record, change_record
from penstock.gateway.observing.plan_watch import PlanChange
from penstock.gateway.refusal_log import Refused
from penstock.jobs.audit_trail import counts as counted
from penstock.jobs.audit_trail import plan_periods
from penstock.jobs.audit_trail.counts import BY, Count, TrailCounts, as_document

AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC).timestamp()
ONE = Refused(
    "orders", 3, "shop", refused_records([RecordError(2, "no", "a.V")]),
    principal="User:alice", address="10.0.0.7", records=9,
)  # fmt: skip
CONFIGS = Refused("TOPIC orders", None, None, refused(44, None, "a.C"), resource=("BROKER", "1"))


def line(number, refusal=ONE, run="r", after_s=0, count=1):
    """Return a line as a gateway writes it."""
    at_s = AT + after_s
    return audit_record(refusal, gateway="gw", run=run, number=number, at_s=at_s, count=count)


def counts_of(*lines, **bounds):
    found = TrailCounts(**bounds)
    for line in lines:
        found.add(line)
    return found


def test_refusals_are_counted_by_each_field():
    found = counts_of(line(1), line(2, after_s=3600), line(3, CONFIGS), line(1, run="other"))
    assert (found.refusals, found.records, found.runs) == (4, 27, 2)
    assert found.outcomes == {("refused", "records"): 3, ("refused", "configs"): 1}
    assert found.by("topic", 9) == ([Count("orders", 3, 27), Count("BROKER 1", 1, 0)], 0)
    assert found.by("reason", 9) == ([Count("no", 3, 27), Count(None, 1, 0)], 0)
    assert found.by("client_id", 9)[0][0] == Count("shop", 3, 27)
    assert found.by("code", 9) == ([Count("87", 3, 27), Count("44", 1, 0)], 0)
    assert found.by("principal", 1) == ([Count("User:alice", 3, 27)], 1)
    assert [sum(counts.values()) for counts in found.times.bins.values()] == [3, 1]
    assert (found.repeated_lines, found.missing, found.unreadable) == (0, 0, 0)


def test_a_record_counts_as_all_refusals_that_it_stands_for():
    topic = Refused("new", None, "shop", refused(44, "no", "a.T"))
    found = counts_of(line(1, topic), line(2, topic, count=120), line(3))
    assert (found.refusals, found.records, found.missing) == (122, 9, 0)
    assert found.outcomes == {("refused", "topic"): 121, ("refused", "records"): 1}
    assert found.by("topic", 9)[0] == [Count("new", 121, 0), Count("orders", 1, 9)]
    assert [sum(counts.values()) for counts in found.times.bins.values()] == [122]


@pytest.mark.parametrize(
    ("given", "refusals"),
    [("0", 1), ("-3", 1), ("null", 1), ('"7"', 1), ("7.5", 1), ("[7]", 1), ("9" * 30, 2**31 - 1)],
)
def test_a_count_that_no_gateway_writes_is_bounded(given, refusals):
    found = counts_of(line(1).replace(b'"count":1', b'"count":' + given.encode()))
    assert (found.refusals, found.unreadable) == (refusals, 0)


def test_a_record_without_a_count_is_one_refusal():
    assert counts_of(line(1).replace(b'"count":1,', b"")).refusals == 1


def test_repeated_lines_count_once_and_gaps_are_reported():
    found = counts_of(line(5), line(2), line(5), line(2), line(9, run="other"))
    assert (found.refusals, found.repeated_lines) == (3, 2)
    assert found.missing == 2
    assert found.before_the_first == 1 + 8


def test_a_part_of_the_time():
    bounds = {"start": datetime.fromtimestamp(AT + 10, UTC),
              "end": datetime.fromtimestamp(AT + 20, UTC)}  # fmt: skip
    found = counts_of(*(line(n + 1, after_s=n * 5) for n in range(6)), **bounds)
    assert found.refusals == 2
    assert (found.first.timestamp(), found.last.timestamp()) == (AT + 10, AT + 15)
    assert found.missing == 0


@pytest.mark.parametrize(
    "wrong",
    [
        b"", b"{", b"[1]", b"null", b"7", b'"a"', b"\xff", b"[" * 100_000,
        b'{"time":"2026-01-31T12:00:00Z"}',
        b'{"time":"2026-01-31T12:00:00","run":"r","number":1}',
        b'{"time":"2026-01-31T12:00:00Z","run":"r","number":0}',
        b'{"time":"2026-01-31T12:00:00Z","run":"r","number":true}',
        b'{"time":"2026-01-31T12:00:00Z","run":"r","number":1e400}',
        b'{"time":"2026-01-31T12:00:00Z","run":["r"],"number":1}',
        b'{"time":"0001-01-01T00:00:00+10:00","run":"r","number":1}',
        b'{"time":"2026-01-31T12:00:00Z","run":"r","number":' + b"9" * 5000 + b"}",
        b'{"time":"2026-01-31T12:00:00Z","run":"r","number":1,"x":"' + b"x" * 2**18 + b'"}',
    ],
)  # fmt: skip
def test_a_line_that_is_not_a_record_is_counted_and_skipped(wrong):
    found = counts_of(wrong, line(1))
    assert (found.unreadable, found.refusals) == (1, 1)


def test_fields_that_are_missing_or_have_another_type():
    strange = {"time": "1969-07-20T20:17:40Z", "run": "r", "number": 1, "records": "many",
               "outcome": ["x" * 100], "topic": {"a": 1}, "reasons": [7], "code": True}  # fmt: skip
    found = counts_of(json.dumps(strange).encode())
    assert (found.refusals, found.records) == (1, 0)
    assert all(len(outcome) <= 20 for outcome, _ in found.outcomes)
    assert as_document(found, 10)["hours"] == []


@pytest.mark.thorough
def test_memory_is_bounded_for_any_number_of_client_ids(monkeypatch):
    monkeypatch.setattr(counted, "RUNS_MAX", 3)
    found = TrailCounts()
    for number in range(1, 6001):
        record = json.loads(line(number, run=f"r{number}"))
        for name in ("topic", "policy", "principal", "client_id", "address", "gateway", "code"):
            record[name] = f"{name}-{number}"
        record["reasons"][0]["message"] = f"no {number}"
        found.add(json.dumps(record).encode())
    assert found.runs == 3
    assert found.refusals == 6000
    for name in BY:
        some, rest = found.by(name, 10)
        assert sum(item.refusals for item in some) + rest == 6000
        assert len(found._field_counts[name]._records) <= 2 * counted.KEPT


def test_the_document_is_json():
    found = as_document(counts_of(line(1), line(3, CONFIGS)), 10)
    assert json.loads(json.dumps(found)) == found
    assert (found["refusals"], found["missing"]) == (2, 1)
    assert found["hours"] == [{"hour": "2026-01-31T12:00+00:00", "refusals": 2}]
    assert found["by"]["policy"]["values"][0] == {"value": "a.C", "refusals": 1, "records": 0}


def test_only_runs_whose_refusals_count_are_counted():
    bounds = {"start": datetime.fromtimestamp(AT + 10, UTC)}
    found = counts_of(line(1, run="before"), line(1, run="after", after_s=20), **bounds)
    assert (found.refusals, found.runs) == (1, 1)


def test_texts_and_counts_of_a_forged_line_stay_small():
    found = TrailCounts()
    for number in range(1, 4):
        record = json.loads(line(number))
        record |= {"client_id": "x" * 200_000, "records": 10**4000, "topic": ["y" * 9000]}
        record["reasons"][0]["message"] = "z" * 9000
        found.add(json.dumps(record).encode())
    assert found.refusals == 3
    assert found.records <= 3 * 2**31
    for name in ("client_id", "topic", "reason"):
        (value,), _ = found.by(name, 9)
        assert len(value.value) <= counted.TEXT_MAX


def test_a_change_of_a_plan_is_no_refusal():
    change = PlanChange("orders", "0123456789ab", "", "reload")
    found = TrailCounts()
    found.add(change_record(change, gateway="gw", run="r", number=1, at_s=0))
    found.add(line(2))
    assert (found.refusals, found.plan_changes, found.missing) == (1, 1, 0)
    (period,) = found.plans.latest()
    assert (period.topic, period.plan, period.gateways) == ("orders", None, ["gw"])


def test_a_report_says_how_many_records_its_plans_lack(monkeypatch):
    monkeypatch.setattr(plan_periods, "KEPT", 1)
    found = TrailCounts()
    change = PlanChange("orders", "0123456789ab", "", "reload")
    found.add(change_record(change, gateway="gw", run="r", number=1, at_s=0))
    assert as_document(found, 9)["plans_left_out"] == 1
