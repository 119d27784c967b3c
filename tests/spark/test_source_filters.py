"""Filters of a query leave out what cannot match, and no more."""

import datetime as dt

import pytest
from pyspark.sql import datasource as ds

from penstock.cluster.ranges import OffsetRange, Partition
from penstock.spark.source_filters import Bounds

RANGES = [OffsetRange("a", 0, 10, 100), OffsetRange("a", 1, 0, 50), OffsetRange("b", 0, 0, 5)]
WHEN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MS = 1_767_225_600_000


def left(*filters, since=None):
    return list(Bounds.of(filters).ranges(RANGES, since or {}))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], RANGES),
        ([ds.EqualTo(("topic",), "b")], [RANGES[2]]),
        ([ds.In(("topic",), ("b", "c"))], [RANGES[2]]),
        ([ds.EqualTo(("partition",), 1)], [RANGES[1]]),
        ([ds.In(("partition",), (0, 7)), ds.EqualTo(("topic",), "a")], [RANGES[0]]),
        ([ds.EqualTo(("partition",), 1), ds.EqualTo(("partition",), 0)], []),
        ([ds.EqualTo(("offset",), 20), ds.EqualTo(("partition",), 0)], [OffsetRange("a", 0, 20, 21)]),
        ([ds.GreaterThan(("offset",), 48)], [OffsetRange("a", 0, 49, 100), OffsetRange("a", 1, 49, 50)]),
        ([ds.GreaterThanOrEqual(("offset",), 50)], [OffsetRange("a", 0, 50, 100)]),
        ([ds.LessThan(("offset",), 1)], [OffsetRange("a", 1, 0, 1), OffsetRange("b", 0, 0, 1)]),
        ([ds.LessThanOrEqual(("offset",), 0)], [OffsetRange("a", 1, 0, 1), OffsetRange("b", 0, 0, 1)]),
        ([ds.In(("offset",), (12, 11)), ds.EqualNullSafe(("partition",), 0)], [OffsetRange("a", 0, 11, 13)]),
        # What bounds nothing, or is not known, is left to Spark.
        ([ds.Not(ds.EqualTo(("partition",), 1)), ds.IsNotNull(("value",))], RANGES),
        ([ds.EqualTo(("partition",), None), ds.EqualTo(("verdict", "outcome"), "refused")], RANGES),
        ([ds.LessThan(("timestamp",), WHEN), ds.EqualTo(("offset",), "3")], RANGES),
    ],
)  # fmt: skip
def test_what_can_match_is_left(filters, expected):
    assert left(*filters) == expected


@pytest.mark.parametrize("kind", [ds.GreaterThan, ds.GreaterThanOrEqual, ds.EqualTo])
def test_a_time_is_where_reading_starts(kind):
    bounds = Bounds.of(
        [kind(("timestamp",), WHEN), ds.GreaterThan(("timestamp",), WHEN - dt.timedelta(1))]
    )
    assert bounds.since_ms == MS
    since = {Partition("a", 0): 90, Partition("a", 1): 50, Partition("b", 0): 3}
    assert list(bounds.ranges(RANGES, since)) == [
        OffsetRange("a", 0, 90, 100),
        OffsetRange("b", 0, 3, 5),
    ]
