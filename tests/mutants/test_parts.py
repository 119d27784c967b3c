"""A sample of mutants has as many of each room."""

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.__main__ import PROCESSES, ROOMS, ROOT, THOROUGH, UNIT, parts, sample, share


@pytest.mark.parametrize(
    ("size", "count", "sizes"),
    [(6, 3, [2, 2, 2]), (8, 3, [3, 3, 2]), (2, 3, [1, 1, 0]), (5, 1, [5])],
)
def test_parts_are_equal(size, count, sizes):
    assert parts(size, count) == sizes


def test_all_rooms_exist():
    missing = [room for room in (*ROOMS, PROCESSES) if not any((ROOT / room).rglob("*.py"))]
    assert missing == []


def test_a_room_that_does_not_exist_is_an_error():
    with pytest.raises(FileNotFoundError, match="src/penstock/none"):
        sample(Path("none"), 1, "a", "src/penstock/none")


def test_a_share():
    noticed = Counter({UNIT: 2, THOROUGH: 1})
    assert share(noticed, 4) == "3 of 4 mutants are noticed, 75.0% (1 by tests that take seconds)"
    assert share(Counter(), 0).startswith("0 of 0 mutants are noticed, 0.0%")
