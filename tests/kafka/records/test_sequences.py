"""Sequence numbers begin again at 0 after the largest number."""

import pytest

from penstock.kafka.records.sequences import SEQUENCES, add, distance

LAST = SEQUENCES - 1


@pytest.mark.parametrize(
    ("number", "count", "expected"),
    [(0, 3, 3), (LAST, 1, 0), (LAST - 1, 500, 498), (0, -1, LAST), (5, 0, 5)],
)
def test_the_next_sequence_number(number, count, expected):
    assert add(number, count) == expected
    assert distance(number, expected) == count
