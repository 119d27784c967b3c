"""Timestamps in JSON lines, in every form that commands read."""

import re

import pytest

from penstock.jobs.files.record_times import timestamp_ms

pytestmark = pytest.mark.unit

NOON_MS = 1_769_860_800_000


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ("2026-01-31T12:00:00Z", NOON_MS),
        ("2026-01-31T13:00:00.000+01:00", NOON_MS),
        ("2026-01-31 12:00:00.123456", NOON_MS + 123),
        ("2026-01-31T12:00", NOON_MS),
        ("2026-01-31 12:00:00+00", NOON_MS),
        ("2026-01-31T13:00:00.000+0100", NOON_MS),
        ("2026-01-31", NOON_MS - 43_200_000),
        ("+55840-11-08T22:15:23.456Z", 1_700_000_000_123_456),
        (NOON_MS, NOON_MS),
        (str(NOON_MS), NOON_MS),
        (0, 0),
        (-1, -1),
        (10**8 - 1, 10**8 - 1),
        (10**11, 10**11),
        (2**63 - 1, 2**63 - 1),
        (str(-(2**63)), -(2**63)),
    ],
)
def test_times_and_milliseconds(given, ms):
    assert timestamp_ms(given) == ms


@pytest.mark.parametrize(
    "given",
    ["", "secret", "2026-02-31", "2026-01-31T25:00", "20260131T120000Z", "2026-W05-6", None, True,
     1.5, [], {}, 2**63, -(2**63) - 1, "1e9", "12:00", "٢٠٢٦-01-31"],
)  # fmt: skip
def test_everything_else_is_an_error_that_names_the_forms(given):
    with pytest.raises(ValueError, match=r"^timestamp must be an ISO time .* since 1970$") as wrong:
        timestamp_ms(given)
    assert "secret" not in str(wrong.value)


@pytest.mark.parametrize("given", [10**8, 1_769_860_800, "1769860800", 10**11 - 1])
def test_seconds_are_not_taken_for_milliseconds(given):
    with pytest.raises(ValueError, match=re.escape("milliseconds since 1970, and not in seconds")):
        timestamp_ms(given)
