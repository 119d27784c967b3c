"""Offsets of time zones, as Java writes them."""

from zoneinfo import ZoneInfoNotFoundError

import numpy as np
import pytest

from penstock.spark.rows.columns.zones import is_known, offset_texts, offsets_of

pytestmark = pytest.mark.unit
SUMMER, WINTER, EARLY = 1_720_000_000_000_000, 1_704_000_000_000_000, -5_000_000_000_000_000
FAR = 9_000_000_000_000_000_000


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", ["Z", "Z", "Z"]),
        ("Etc/UTC", ["Z", "Z", "Z"]),
        ("+05:30", ["+05:30"] * 3),
        ("GMT-3", ["-03:00"] * 3),
        ("Europe/Berlin", ["+02:00", "+01:00", "+00:53:28"]),
        ("Europe/London", ["+01:00", "Z", "-00:01:15"]),
        ("America/St_Johns", ["-02:30", "-03:30", "-03:30:52"]),
    ],
)
def test_offsets(zone, expected):
    micros = np.array([SUMMER, WINTER, EARLY])
    assert offset_texts(offsets_of(micros, zone)) == expected


def test_far_times_have_the_offsets_of_400_years_earlier():
    cycle = 146_097 * 86_400 * 1_000_000
    micros = np.array([SUMMER, SUMMER + cycle * 30, WINTER + cycle * 30, FAR, -FAR])
    texts = offset_texts(offsets_of(micros, "Europe/Berlin"))
    assert texts[:3] == ["+02:00", "+02:00", "+01:00"]
    assert texts[4] == "+00:53:28"


def test_without_a_zone():
    assert offsets_of(np.array([0]), None) is None
    with pytest.raises(ZoneInfoNotFoundError):
        offsets_of(np.array([0]), "Nowhere/Town")
    known = [is_known(name) for name in ("Asia/Kolkata", "+01:00", "Z", "CTT", "../x")]
    assert known == [True, True, True, False, False]
