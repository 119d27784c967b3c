"""The tasks of the data source: a partition is one task, unless you want more tasks."""

from uuid import UUID

import pytest

from penstock.jobs.tasks.planning import Sizes
from penstock.kafka.cluster.ranges import OffsetRange
from penstock.spark.source.tasks import source_tasks

pytestmark = pytest.mark.unit
IDS = {"t": UUID(int=1)}
LARGE = [OffsetRange("t", number, 0, 1_000_000) for number in range(3)]


def tasks(ranges, least=None):
    """Return the offset ranges of each task."""
    made = source_tasks(ranges, IDS, Sizes(), least)
    return [[tuple(wanted)[1:4] for wanted in task.ranges] for task in made]


@pytest.mark.parametrize("least", [None, 1, 2, 3])
def test_a_partition_of_any_size_is_in_one_task(least):
    found = tasks([*LARGE, OffsetRange("t", 3, 5, 5)], least)
    assert sorted(place for task in found for place in task) == [
        (number, 0, 1_000_000) for number in range(3)
    ]
    assert len(found) == 3


@pytest.mark.parametrize(("least", "expected"), [(None, 1), (1, 1), (2, 2), (3, 3)])
def test_small_partitions_share_tasks(least, expected):
    assert len(tasks([OffsetRange("t", number, 0, 10) for number in range(3)], least)) == expected


def test_partitions_are_cut_where_more_tasks_are_wanted():
    found = tasks([*LARGE, OffsetRange("t", 3, 5, 5)], 4)
    assert len(found) >= 4
    assert sum(end - start for task in found for _, start, end in task) == 3_000_000
