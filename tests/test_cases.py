"""Which cases of a test are left to `make slow`."""

from types import SimpleNamespace

import pytest

from tests.cases import others


def cases(names, count):
    marker = pytest.mark.cases(count).mark
    return {name: SimpleNamespace(name=name, get_closest_marker=lambda _: marker) for name in names}


def names_of(items):
    return [item.name for item in items]


def test_the_same_cases_are_left_out_in_each_order():
    names = [f"test[{number}]" for number in range(10)]
    left_out = names_of(others("test", cases(names, 3)))
    assert len(set(left_out)) == 7
    assert names_of(others("test", cases(reversed(names), 3))) == left_out


def test_nothing_is_left_out_of_a_test_with_fewer_cases():
    """Of a test that was selected by its name, only some cases may have been collected."""
    assert others("test", cases(["test[a]", "test[b]"], 3)) == []


def test_another_test_has_other_cases():
    names = [str(number) for number in range(30)]
    assert names_of(others("one", cases(names, 15))) != names_of(others("two", cases(names, 15)))
