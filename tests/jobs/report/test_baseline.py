"""Worse than last time: regressions, other changes, and topics that cannot be compared."""

from pathlib import Path

import pytest

from penstock.jobs.report import summary
from penstock.jobs.report.baseline import compare, in_words, topics_of
from penstock.jobs.report.document import Report
from tests.jobs.report.old_documents import OLD
from tests.jobs.report.samples import records, report_of

FILE = Path("last/report.json")


def of(judged, refused, topic="t", **why):
    """Return records of a topic: so many refused, the others accepted."""
    bad = [records(topic, count=refused, **({"message": "bad"} | why))] if refused else []
    return [records(topic, count=judged - refused), *bad]


def worse(now, before, tolerance=0.0):
    found = compare(report_of(*now), report_of(*before), FILE, tolerance)
    return [(proposal.topic, proposal.policy, proposal.code) for proposal in found.worse]


@pytest.mark.parametrize(
    ("now", "before", "is_worse"),
    [
        (of(100, 2), of(100, 1), True),
        (of(100, 1), of(100, 1), False),
        (of(100, 1), of(100, 2), False),
        (of(100, 1), of(100, 0), True),
        (of(100, 0), of(100, 0), False),
        # A share, not a number of records.
        (of(1000, 10), of(100, 1), False),
        (of(10_000, 99), of(100, 1), False),
        # The same share is the same, however it is written as a fraction of two.
        (of(30, 1), of(90, 3), False),
        (of(10**9, 1), of(10**9 + 1, 1), True),
    ],
)
def test_a_larger_share_is_worse(now, before, is_worse):
    expected = [("t", None, None), ("t", "p.P", None), ("t", "p.P", 87)]
    assert worse(now, before) == (expected if is_worse else [])


def test_a_policy_or_a_reason_can_be_worse_while_the_whole_is_not():
    before = [records(count=90), records(count=6, message="a"), records(count=4, message="b")]
    now = [records(count=90), records(count=4, message="a"), records(count=6, message="b")]
    assert worse(now, before) == [("t", "p.P", 87)]
    moved = [records(count=90), records(count=10, policy="q.Q", message="c")]
    assert worse(moved, before) == [("t", "q.Q", None), ("t", "q.Q", 87)]


def test_failed_records_count_and_dropped_records_do_not():
    before = [records(count=99), records(outcome="refused")]
    failed = [records(count=98), records(outcome="refused"), records(outcome="failed", code=-1)]
    dropped = [records(count=98), records(outcome="refused"), records(outcome="dropped")]
    assert ("t", None, None) in worse(failed, before)
    assert worse(dropped, before) == []


def test_a_rise_within_the_tolerance_is_ignored():
    assert worse(of(1000, 15), of(1000, 10), tolerance=0.005) == []
    assert worse(of(1000, 16), of(1000, 10), tolerance=0.005) != []


def test_topics_are_compared_with_themselves():
    before = [*of(100, 50, "a"), *of(100, 0, "b")]
    now = [*of(100, 40, "a"), *of(100, 1, "b")]
    assert [topic for topic, _, _ in worse(now, before)] == ["b", "b", "b"]


def test_the_largest_rises_come_first_and_are_described():
    now = [records(count=70), records(count=10, message="x"), records(count=20, message="y")]
    found = compare(report_of(*now), report_of(*of(100, 0)), FILE)
    assert [in_words(proposal) for proposal in found.worse] == [
        "t: 30 of 100 (30.0000%), before 0 of 100 (0.0000%)",
        "t, p.P: 30 of 100 (30.0000%), before 0 of 100 (0.0000%)",
        "t, p.P, 87 y: 20 of 100 (20.0000%), before 0 of 100 (0.0000%)",
        "t, p.P, 87 x: 10 of 100 (10.0000%), before 0 of 100 (0.0000%)",
    ]


def test_a_reason_that_the_baseline_may_have_left_out_is_not_called_new(monkeypatch):
    now = report_of(*of(100, 3, message="rare"), *of(900, 97, message="frequent"))
    parts = [records(count=900), records(count=97, message="frequent")]
    rare = [records(count=1, message=f"rare {n}") for n in range(3)]
    monkeypatch.setattr(summary, "REASONS_MAX", 1)
    before = report_of(*parts, *rare)
    assert before.reasons_left_out == 3
    assert compare(now, before, FILE).worse == ()


def test_topics_that_cannot_be_compared_are_mentioned():
    now = report_of(*of(10, 1, "a"), *of(10, 1, "new"))
    before = report_of(*of(10, 1, "a"), *of(10, 1, "old"))
    found = compare(now, before.model_copy(update={
        "about": before.about.model_copy(update={"fingerprint": "other"})
    }), FILE)  # fmt: skip
    assert found.topics == ("a",)
    assert found.worse == ()
    assert [note.split(" ")[0] for note in found.notes] == ["the", "new", "old"]
    assert "another plan" in found.notes[0]


def test_a_topic_without_judged_records_is_mentioned():
    empty, some = report_of(), report_of(*of(10, 1))
    assert "no record of t was judged at the baseline" in compare(some, empty, FILE).notes[0]
    assert compare(empty, some, FILE).worse == ()
    assert compare(empty, some, FILE).notes == ("no record of t was judged this time",)


def test_records_of_files_without_a_topic_are_compared():
    found = compare(report_of(*of(10, 2, "")), report_of(*of(10, 1, "")), FILE)
    assert len(found.worse) == 3
    assert in_words(found.worse[0]).startswith("(no topic): 2 of 10")


def test_a_baseline_that_somebody_has_edited_ends_nothing():
    odd = report_of(*of(10, 1)).model_copy(update={"topics": (), "judged": 0})
    assert compare(report_of(*of(10, 2)), odd, FILE).worse == ()
    gone = report_of(*of(10, 1), *of(10, 1, "u"))
    less = gone.model_copy(update={"topics": gone.topics[:1]})
    assert compare(gone, less, FILE).worse == ()


def test_a_report_of_an_earlier_version_is_a_baseline():
    old = Report.model_validate(OLD)
    assert topics_of(old) == {"t"}
    assert compare(report_of(*of(10, 1)), old, FILE).worse == ()
    assert len(compare(report_of(*of(10, 2)), old, FILE).worse) == 3
