"""The planned offsets against the offsets that were read."""

import pytest

from penstock.jobs.tasks.retention import Coverage, RangeResult, RecordsLostError
from penstock.kafka.cluster.ranges import OffsetRange

pytestmark = pytest.mark.unit
PLANNED = (
    OffsetRange("orders", 0, 0, 100),
    OffsetRange("orders", 1, 50, 60),
    OffsetRange("returns", 0, 5, 6),
)


def result(topic, partition, start, end, *lost):
    return RangeResult(
        OffsetRange(topic, partition, start, end),
        tuple(OffsetRange(topic, partition, *offsets) for offsets in lost),
    )


def test_no_offset_is_lost_if_all_were_read():
    coverage = Coverage(PLANNED)
    coverage.add([result("orders", 0, 0, 70), result("orders", 0, 70, 100)])
    coverage.add([result("orders", 1, 50, 60), result("returns", 0, 5, 6)])
    assert (coverage.lost, coverage.text()) == ((), None)
    coverage.check()


def test_offsets_removed_by_retention_or_without_a_result_are_named():
    coverage = Coverage(PLANNED)
    coverage.add([result("orders", 0, 0, 100, (0, 40), (50, 55))])
    coverage.add([result("orders", 1, 50, 60)])
    assert coverage.lost == (
        OffsetRange("orders", 0, 0, 40),
        OffsetRange("orders", 0, 50, 55),
        OffsetRange("returns", 0, 5, 6),
    )
    assert coverage.text() == (
        "46 offsets of 2 partitions were removed before they were read (retention, or the topic "
        "was created again): orders 0:0-40, orders 0:50-55, returns 0:5-6"
    )


def test_with_strict_lost_offsets_are_an_error():
    with pytest.raises(RecordsLostError, match=r"111 offsets .*; run again with a later --from"):
        Coverage(PLANNED).check()


def test_many_ranges_are_counted():
    planned = tuple(OffsetRange("t", number, 0, 1000) for number in range(20))
    text = Coverage(planned).text()
    assert text.startswith("20,000 offsets of 20 partitions were removed")
    assert text.endswith("t 0:0-1000, t 1:0-1000, t 2:0-1000 and 17 more ranges")


def test_a_task_that_was_run_again_counts_once():
    coverage = Coverage(PLANNED)
    for _ in range(2):
        coverage.add([result("orders", 1, 50, 60, (50, 52))])
    assert list(coverage.results) == [PLANNED[1]]
    assert coverage.lost == (PLANNED[0], OffsetRange("orders", 1, 50, 52), PLANNED[2])
