"""Counts on their way from a task to the driver."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.path_counts import PathCount
from penstock.jobs.report.counts import AuditCounts, Reason, Sample
from penstock.jobs.report.encoding import decode, encode
from tests.jobs.report.numbers import ACCEPTED, SOME
from tests.jobs.report.samples import counted, records


@pytest.mark.thorough
@given(st.lists(st.one_of(SOME, ACCEPTED), max_size=30))
def test_counts_are_decoded_as_they_were_encoded(some):
    counts = counted(*some)
    assert decode(encode(counts)) == counts


def test_the_sum_of_left_out_counts_and_the_contents_of_samples_are_kept():
    other = Reason("t", "accepted")
    counts = counted(records(message="\ud800 ä", other=other), records(other=other))
    counts.reasons.left_out = 7
    counts.batches["refused"] = 3
    counts.times.widen(24)
    counts.paths.add([PathCount("mask", "a", 5, 0), PathCount("mask", "b", 5, 2)])
    [samples] = counts.samples.values()
    samples[0] = Sample(3, 4, b"\xff\x00", None)
    decoded = decode(encode(counts))
    assert decoded == counts
    assert decoded.samples[Reason("t", "refused", "p.P", 87, "\ud800 ä")] == samples


def test_nothing_is_executed_when_counts_are_read():
    assert encode(AuditCounts())[:1] == b"{"
    try:
        decode(pickle.dumps(AuditCounts()))
    except ValueError:
        return
    raise AssertionError("a pickle was read")
