"""Which numbers were there already."""

import random

from penstock.jobs.audit_trail.numbers import Numbers


def test_each_number_is_new_once_in_any_order():
    numbers, expected = Numbers(), set()
    some = [random.Random(7).randrange(1, 5000) for _ in range(20_000)]
    for item in some:
        assert numbers.add(item) is (item not in expected)
        expected.add(item)
    assert (numbers.count, numbers.first, numbers.last) == (
        len(expected), min(expected), max(expected)
    )  # fmt: skip
    assert numbers.missing == max(expected) - min(expected) + 1 - len(expected)


def test_missing_numbers_are_between_the_first_and_the_last():
    numbers = Numbers()
    assert numbers.missing == 0
    for number in (7, 3, 4, 10):
        numbers.add(number)
    assert (numbers.first, numbers.missing) == (3, 4)
