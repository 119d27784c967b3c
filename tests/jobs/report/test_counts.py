"""Counts of an audit: merged counts of parts equal those of all records."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.verdict import dropped, refused_record
from penstock.jobs.report import counts as module
from penstock.jobs.report.counts import (
    AuditCounts,
    PolicyOutcome,
    Reason,
    RecordCounts,
    Sample,
    reason_of,
)
from penstock.kafka.cluster.ranges import Partition
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
    first = counts.partitions[Partition("t", 0)]
    assert (first.first_refused, first.last_refused) == (3, 40)
    dropped = counts.partitions[Partition("u", 0)]
    assert (dropped.first_refused, dropped.last_refused) == (None, None)
    assert counts.policies[PolicyOutcome("t", "p.P", "refused")] == 7
    assert counts.reasons[Reason("t", "refused", "p.P", 87, "bad")] == 7
    assert dict(counts.header_keys.items()) == {"source": 10}
    assert dict(counts.key_prefixes.items()) == {"shop": 10}


def of_a_job(*places, messages=()):
    """Return counts of a job that writes: outcomes and removed offsets by topic and partition."""
    counts = RecordCounts()
    for topic, number, outcomes, removed in places:
        counts.add_outcomes(Partition(topic, number), outcomes)
        counts.add_removed(Partition(topic, number), removed)
    for message in messages:
        counts.reasons.add(reason_of("t", refused_record(message, "p.P")))
    return counts


def test_the_records_of_a_job_are_counted_by_partition_and_reason():
    counts = of_a_job(("t", 0, {"accepted": 2}, 0), ("t", 1, {}, 5), ("u", 0, {}, 0))
    verdicts = [refused_record("bad", "p.P"), dropped("Drop"), refused_record("bad", "p.P")]
    counts.add_verdicts(Partition("t", 1), verdicts, accepted=4)
    assert counts.outcomes == {"accepted": 6, "refused": 2, "dropped": 1}
    assert counts.by_topic() == {"t": counts.outcomes, "u": {}}
    assert (counts.removed, counts.removed_by_topic()) == (5, {"t": 5})
    assert dict(counts.reasons.items()) == {
        Reason("t", "refused", "p.P", 87, "bad"): 2,
        Reason("t", "dropped", "Drop", 0, None): 1,
    }


def test_a_sum_changes_neither_of_its_parts():
    first = of_a_job(("t", 0, {"accepted": 10}, 3), messages="abb")
    other = of_a_job(("t", 0, {"accepted": 7}, 3), ("t", 1, {"refused": 3}, 0), messages="bbb")
    first.reasons.left_out = 7
    total = first.plus(other)
    assert total.outcomes == {"accepted": 17, "refused": 3}
    assert sorted(count for _, count in total.reasons.items()) == [1, 5]
    assert (total.removed, total.reasons.total()) == (6, 13)
    assert (first.outcomes, first.reasons.total(), first.removed) == ({"accepted": 10}, 10, 3)
    assert other == of_a_job(
        ("t", 0, {"accepted": 7}, 3), ("t", 1, {"refused": 3}, 0), messages="bbb"
    )


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
    assert counts.comparison == {
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
