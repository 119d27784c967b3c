"""Counts, and their text that is committed with a position."""

import json
from collections import Counter

import pytest

from penstock.engine.verdict import refused, refused_record
from penstock.jobs.batches.counts import METADATA_MAX, KeptCounts, TaskCounts, read_counts
from penstock.jobs.report.counts import Reason


def counted(**reasons):
    counts = TaskCounts(Counter({"accepted": 10, "refused": sum(reasons.values())}), removed=3)
    for message, count in reasons.items():
        for _ in range(count):
            counts.add_reason("orders", refused_record(message, "Policy"))
    return counts


def test_a_text_is_read_as_it_was_written():
    kept = KeptCounts("job-1", 400, counted(one=2, two=5))
    kept.counts.add_reason("orders", refused(44, None, "Other ä\ud800"))
    text = kept.text()
    assert text.isascii()
    assert read_counts(text, "job-1") == kept


def test_counts_of_another_run_and_other_texts_are_ignored():
    assert read_counts(KeptCounts("job-1", 0, counted(one=1)).text(), "job-2") is None
    for text in ("", "x", "[]", "{}", "null", '{"version": 1}', '{"version": 2, "run": "job-1"}'):
        assert read_counts(text, "job-1") is None


@pytest.mark.thorough
def test_the_most_frequent_reasons_fit_and_the_sum_stays_right():
    counts = TaskCounts()
    for number in range(500):
        for _ in range(500 - number):
            counts.add_reason("orders", refused_record(f"message {number} {'x' * 40}", "Policy"))
    text = KeptCounts("run", 0, counts).text()
    assert METADATA_MAX - 300 < len(text) <= METADATA_MAX
    found = read_counts(text, "run").counts.reasons
    assert found.total() == counts.reasons.total() == 500 * 501 // 2
    assert 10 < len(found) < 100
    most = [Reason("orders", "refused", "Policy", 87, f"message {n} {'x' * 40}") for n in range(9)]
    assert [found[reason] for reason in most] == [500 - n for n in range(9)]


def test_a_message_that_does_not_fit_leaves_room_for_others():
    counts = counted(short=1)
    for _ in range(9):
        counts.add_reason("orders", refused_record("\x01" * 1000, "Policy"))  # 6 bytes each in JSON
    found = read_counts(KeptCounts("run", 0, counts).text(), "run").counts.reasons
    assert dict(found.items()) == {Reason("orders", "refused", "Policy", 87, "short"): 1}
    assert found.left_out == 9


@pytest.mark.parametrize("size", [1, 400])
def test_a_long_run_and_many_outcomes_fit(size):
    counts = TaskCounts(Counter({"accepted": 10**18, "refused": 10**18, "dropped": 1, "failed": 1}))
    assert len(KeptCounts("r" * size, 2**62, counts).text()) < METADATA_MAX


def test_a_sum_changes_neither_of_its_parts():
    first, other = counted(a=1, b=2), counted(b=3)
    total = first.plus(other)
    assert total.outcomes == {"accepted": 20, "refused": 6}
    assert sorted(count for _, count in total.reasons.items()) == [1, 5]
    assert total.removed == 6
    assert first == counted(a=1, b=2)
    assert other == counted(b=3)


def test_the_number_of_omitted_reasons_is_kept():
    single = counted(a=1)
    single.reasons.left_out = 7
    assert single.plus(counted(a=2)).reasons.total() == 10
    text = KeptCounts("run", 0, single).text()
    assert json.loads(text)["left_out"] == 7
