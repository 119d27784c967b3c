"""Timestamps that microseconds of 64 bits do not have: null in a row, and in its last header."""

import pytest

from penstock.jobs.rows.far_times import MS_MAX, in_row, is_far, read_far_time, with_far_time
from penstock.jobs.rows.records import RecordRow
from penstock.policy import Header

OWN = (Header("a", None), Header("__penstock.timestamp", b"7"))
FAR = [MS_MAX + 1, -MS_MAX - 1, 2**62, -(2**62), 2**63 - 1, -(2**63)]


def row(timestamp, headers=OWN):
    return RecordRow("t", 0, 5, timestamp, 0, None, b"v", headers)


@pytest.mark.parametrize("headers", [(), OWN, with_far_time(OWN, 2**62)])
@pytest.mark.parametrize("timestamp", FAR)
def test_a_far_timestamp_comes_back_with_the_headers_of_the_record(timestamp, headers):
    made = in_row(row(timestamp, headers))
    assert made.timestamp is None
    assert made.headers == (*headers, ("__penstock.timestamp", b"%d" % timestamp))
    assert read_far_time(made.headers) == (timestamp, headers)


@pytest.mark.parametrize("timestamp", [None, -1, 0, MS_MAX, -MS_MAX])
def test_another_timestamp_stays(timestamp):
    assert timestamp is None or not is_far(timestamp)
    assert in_row(row(timestamp)) == row(timestamp)


@pytest.mark.parametrize(
    "last",
    [Header("__penstock.timestamp", text) for text in (b"5", b"x", b"", None, b"%d" % 2**63)]
    + [Header("a", b"%d" % 2**62)],
)  # fmt: skip
def test_other_headers_are_no_timestamps(last):
    assert read_far_time((Header("__penstock.timestamp", b"%d" % 2**62), last)) is None
    assert read_far_time(()) is None
