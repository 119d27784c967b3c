"""Scales of charts, and numbers on them."""

import pytest

from penstock.jobs.report.axis import percent, round_up, share_axis, short


@pytest.mark.parametrize(
    ("value", "top"),
    [(1, 1), (1.01, 1.5), (7, 8), (9, 10), (99, 100), (1234, 1500), (0.0301, 0.04), (0.3, 0.3)],
)
def test_the_top_is_round_and_not_below(value, top):
    assert round_up(value) == pytest.approx(top)


@pytest.mark.parametrize(("largest", "top"), [(0, 0.0001), (0.021, 0.025), (0.99, 1), (1, 1)])
def test_an_axis_of_shares(largest, top):
    assert share_axis(largest) == pytest.approx(top)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"), (1, "100 %"), (0.05, "5 %"), (0.0501, "5 %"), (0.123, "12.3 %"), (0.2, "20 %"),
        (0.00012, "0.012 %"), (1e-9, "< 0.0001 %"), (0.99999, "> 99.9 %"), (0.999, "99.9 %"),
    ],
)  # fmt: skip
def test_a_share_is_never_rounded_to_nothing_or_to_all(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (950, "950"), (1500, "1.5 k"), (2e6, "2 M"), (3e9, "3 G")]
)
def test_short_numbers(number, text):
    assert short(number) == text
