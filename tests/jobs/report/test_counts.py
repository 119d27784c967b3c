"""Counts of an audit: merged counts of parts equal those of all records."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.jobs.report import counts as module
from penstock.jobs.report.counts import AuditCounts, CountedPartition, PolicyOutcome, Reason, Sample
from tests.jobs.report.numbers import ACCEPTED, SOME
from tests.jobs.report.samples import counted, records


def test_records_are_counted():
    counts = counted(
        records(count=90, partition=0),
        records(count=7, partition=0, first=3, last=40, message="bad"),
        records(count=2, partition=1, first=5, last=6, outcome="failed", code=-1),
        records("u", count=1, outcome="dropped", policy="Drop", message=None),
    )
    assert counts.outcomes == {"accepted": 90, "refused": 7, "failed": 2, "dropped": 1}
    assert (counts.judged, counts.share) == (100, 0.09)
    assert counts.by_topic()["u"] == {"dropped": 1}
    first = counts.partitions[CountedPartition("t", 0)]
    assert (first.first_refused, first.last_refused) == (3, 40)
    dropped = counts.partitions[CountedPartition("u", 0)]
    assert (dropped.first_refused, dropped.last_refused) == (None, None)
    assert counts.policies[PolicyOutcome("t", "p.P", "refused")] == 7
    assert counts.reasons[Reason("t", "refused", "p.P", 87, "bad")] == 7
    assert dict(counts.header_keys.items()) == {"source": 10}
    assert dict(counts.key_prefixes.items()) == {"shop": 10}


def test_nothing_judged_has_a_share():
    assert (AuditCounts().judged, AuditCounts().share) == (0, 0.0)


@pytest.mark.thorough
@given(st.lists(st.lists(st.one_of(SOME, ACCEPTED), max_size=20), max_size=6))
def test_merged_parts_are_the_whole(parts):
    merged = AuditCounts()
    for part in parts:
        merged.merge(counted(*part))
    assert merged == counted(*(verdicts for part in parts for verdicts in part))


def test_two_plans_are_compared():
    yes, no = Reason("t", "accepted"), Reason("t", "refused", "q.Q", 87, "odd")
    counts = counted(
        records(count=5, other=no),
        records(count=3, other=yes),
        records(count=2, message="bad", other=yes),
        records(count=1, message="bad", other=no),
    )
    assert counts.compared == {
        ("accepted", "refused"): 5,
        ("accepted", "accepted"): 3,
        ("refused", "accepted"): 2,
        ("refused", "refused"): 1,
    }
    assert dict(counts.newly_refused.items()) == {no: 5}
    assert [(reason.message, n) for reason, n in counts.newly_accepted.items()] == [("bad", 2)]


def test_the_samples_with_the_lowest_offsets_are_kept():
    order = list(range(50))
    random.Random(7).shuffle(order)
    counts = counted(*(records(first=offset, message="bad") for offset in order))
    [samples] = counts.samples.values()
    assert samples == [Sample(0, offset) for offset in range(5)]


@pytest.mark.thorough
@pytest.mark.parametrize("parts", [1, 10])
def test_many_reasons_are_bounded_and_add_up(monkeypatch, parts):
    monkeypatch.setattr(module, "REASONS_KEPT", 10)
    merged = AuditCounts()
    for part in range(parts):
        merged.merge(
            counted(
                records(count=100, message="frequent"),
                *(records(count=2, message=f"rare {part} {n}") for n in range(500)),
            )
        )
    assert len(merged.reasons) <= 20
    assert merged.samples.keys() <= dict(merged.reasons.items()).keys()
    [(first, count)], rest = merged.reasons.most_common(1)
    assert (first.message, count, rest) == ("frequent", 100 * parts, 1000 * parts)
    assert merged.policies.total() == merged.judged == 1100 * parts
