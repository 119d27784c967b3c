"""Counts, and their text that is committed with a position."""

import json

import pytest

from penstock.engine.verdict import refused, refused_record
from penstock.jobs.batches.committed_counts import METADATA_MAX, CommittedCounts, read_counts
from penstock.jobs.report.counts import Reason, RecordCounts, reason_of
from penstock.kafka.cluster.ranges import Partition

PARTITION = Partition("orders", 3)


def counts_of(outcomes, removed=0):
    counts = RecordCounts()
    counts.add_outcomes(PARTITION, outcomes)
    counts.add_removed(PARTITION, removed)
    return counts


def read(text, run):
    return read_counts(text, run, PARTITION)


def add_reason(counts, verdict, count=1):
    counts.reasons.add(reason_of("orders", verdict), count)


def counted(**reasons):
    counts = counts_of({"accepted": 10, "refused": sum(reasons.values())}, removed=3)
    for message, count in reasons.items():
        add_reason(counts, refused_record(message, "Policy"), count)
    return counts


def test_a_text_is_read_as_it_was_written():
    kept = CommittedCounts("job-1", 400, counted(one=2, two=5))
    add_reason(kept.counts, refused(44, None, "Other ä\ud800"))
    text = kept.text()
    assert text.isascii()
    assert read(text, "job-1") == kept


def test_counts_of_another_run_and_other_texts_are_ignored():
    assert read(CommittedCounts("job-1", 0, counted(one=1)).text(), "job-2") is None
    for text in ("", "x", "[]", "{}", "null", '{"version": 1}', '{"version": 2, "run": "job-1"}'):
        assert read(text, "job-1") is None


@pytest.mark.thorough
def test_the_most_frequent_reasons_fit_and_the_sum_stays_right():
    counts = RecordCounts()
    for number in range(500):
        add_reason(counts, refused_record(f"message {number} {'x' * 40}", "Policy"), 500 - number)
    text = CommittedCounts("run", 0, counts).text()
    assert METADATA_MAX - 300 < len(text) <= METADATA_MAX
    found = read(text, "run").counts.reasons
    assert found.total() == counts.reasons.total() == 500 * 501 // 2
    assert 10 < len(found) < 100
    most = [Reason("orders", "refused", "Policy", 87, f"message {n} {'x' * 40}") for n in range(9)]
    assert [found[reason] for reason in most] == [500 - n for n in range(9)]


def test_a_message_that_does_not_fit_leaves_room_for_others():
    counts = counted(short=1)
    add_reason(counts, refused_record("\x01" * 1000, "Policy"), 9)  # 6 bytes each in JSON
    found = read(CommittedCounts("run", 0, counts).text(), "run").counts.reasons
    assert dict(found.items()) == {Reason("orders", "refused", "Policy", 87, "short"): 1}
    assert found.left_out == 9


@pytest.mark.parametrize("size", [1, 400])
def test_a_long_run_and_many_outcomes_fit(size):
    counts = counts_of({"accepted": 10**18, "refused": 10**18, "dropped": 1, "failed": 1})
    assert len(CommittedCounts("r" * size, 2**62, counts).text()) < METADATA_MAX


def test_the_number_of_omitted_reasons_is_kept():
    counts = counted(a=1)
    counts.reasons.left_out = 7
    text = CommittedCounts("run", 0, counts).text()
    assert json.loads(text)["left_out"] == 7
    assert read(text, "run").counts.reasons.total() == 8
