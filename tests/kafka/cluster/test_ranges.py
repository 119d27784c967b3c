"""Offset ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kafka.cluster.ranges import OffsetRange, Partition, by_topic, without


def test_a_range_knows_its_partition_and_its_number_of_offsets():
    given = OffsetRange("orders", 3, 10, 25)
    assert given.of == Partition("orders", 3)
    assert str(given.of) == "orders-3"
    assert (given.offsets, given._replace(end=5).offsets) == (15, 0)


def test_ranges_by_topic():
    ranges = [OffsetRange("b", 0, 1, 2), OffsetRange("a", 1, 3, 4), OffsetRange("a", 0, 5, 6)]
    assert by_topic(ranges) == {"b": {0: (1, 2)}, "a": {1: (3, 4), 0: (5, 6)}}


@pytest.mark.parametrize(
    ("parts", "left"),
    [
        ([], [(0, 10)]),
        ([(0, 10)], []),
        ([(0, 4), (4, 10)], []),
        ([(2, 4), (6, 8)], [(0, 2), (4, 6), (8, 10)]),
        ([(0, 6), (3, 8)], [(8, 10)]),
        ([(10, 20)], [(0, 10)]),
        ([(0, 3), (0, 3)], [(3, 10)]),
    ],
)
def test_offsets_that_no_part_covers(parts, left):
    covering = [OffsetRange("t", 0, *part) for part in parts]
    others = [OffsetRange("t", 1, 0, 10), OffsetRange("u", 0, 0, 10)]
    found = without([OffsetRange("t", 0, 0, 10)], [*covering, *others])
    assert found == tuple(OffsetRange("t", 0, *item) for item in left)


_pairs = st.tuples(st.integers(0, 40), st.integers(0, 40))


@pytest.mark.thorough
@given(st.lists(_pairs, max_size=8))
def test_it_is_the_difference_of_sets(pairs):
    parts = [OffsetRange("t", 0, min(pair), max(pair)) for pair in pairs]
    covered = {offset for part in parts for offset in range(part.start, part.end)}
    left = without([OffsetRange("t", 0, 5, 30)], parts)
    assert [offset for part in left for offset in range(part.start, part.end)] == [
        offset for offset in range(5, 30) if offset not in covered
    ]
