"""Counts become a report: frequent reasons are listed, the rest is counted."""

import pytest

from penstock.jobs.report import summary
from penstock.jobs.report.counts import Sample
from penstock.jobs.report.document import About
from penstock.jobs.report.summary import summarize
from tests.jobs.report.samples import HOUR, counted, records, report_of

ABOUT = About(source="a,b", file="f", fingerprint="x")


def test_topics_and_policies():
    report = report_of(
        records("a", count=98),
        records("a", count=2, message="bad"),
        records("b", count=3, outcome="dropped", policy="q.Q"),
        records("b", count=1, outcome="failed", policy="q.Q"),
    )
    assert [(topic.topic, topic.judged, topic.share) for topic in report.topics] == [
        ("a", 100, 0.02),
        ("b", 4, 0.25),
    ]
    assert [
        (policy.topic, policy.policy, policy.count, policy.turned_away)
        for policy in report.policies
    ] == [
        ("b", "q.Q", 4, 1),
        ("a", "p.P", 2, 2),
    ]
    assert (report.judged, report.turned_away) == (104, 3)
    assert report.about.written


def test_rare_reasons_and_hints_are_counted_together(monkeypatch):
    monkeypatch.setattr(summary, "REASONS_MAX", 2)
    monkeypatch.setattr(summary, "HINTS_MAX", 1)
    counts = counted(*(records(count=n, message=f"m{n}") for n in range(1, 6)))
    counts.key_prefixes.add("rare", 4)
    report = summarize(counts, ABOUT)
    assert [reason.message for reason in report.reasons] == ["m5", "m4"]
    assert report.reasons_left_out == 6
    assert [(prefix.hint, prefix.count) for prefix in report.key_prefixes] == [
        ("shop", 15),
        ("(others)", 4),
    ]


def test_times():
    report = report_of(
        records(hour=HOUR + 1),
        records(hour=HOUR, count=2, message="bad"),
        records(hour=None, count=3),
        records(hour=10**10, count=4, message="bad"),
    )
    assert [(hour.hour, hour.total) for hour in report.hours] == [
        (None, 3),
        ("2025-11-24T16:00+00:00", 2),
        ("2025-11-24T17:00+00:00", 1),
    ]
    assert (report.out_of_range.refused, report.hours_width) == (4, 1)
    assert sum(hour.total for hour in report.hours) + report.out_of_range.total == report.judged


@pytest.mark.parametrize(
    ("content", "shown"), [(None, None), (b"a\xff", "a\\xff"), ("ä".encode(), "ä")]
)
def test_contents_of_samples(content, shown):
    counts = counted(records(message="bad"))
    [samples] = counts.samples.values()
    samples[0] = Sample(0, 7, None, content)
    [sample] = summarize(counts, ABOUT).reasons[0].samples
    assert (sample.offset, sample.key, sample.value) == (7, None, shown)
