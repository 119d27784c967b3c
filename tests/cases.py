"""Leaves most cases of a long test to `make slow`: `@pytest.mark.cases(2)` leaves two to `make test`.

They are drawn by the test's name. The first cases would not do: of a test with parameters of two
kinds, they all have the same value of the first kind.
"""

import random
from collections import defaultdict
from typing import Final

import pytest

MARKER: Final = "cases"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the other cases as slow, before tests are selected by their markers."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker(MARKER):
            cases[item.nodeid.split("[", maxsplit=1)[0]].append(item)
    for test, all_cases in cases.items():
        for case in others(test, {case.nodeid: case for case in all_cases}):
            case.add_marker(pytest.mark.slow)


def others(test: str, cases: dict[str, pytest.Item]) -> list[pytest.Item]:
    """Return the cases that `make test` does not run: the same in each order of the tests."""
    names = sorted(cases)
    marker = cases[names[0]].get_closest_marker(MARKER)
    assert marker is not None
    (count,) = marker.args
    return [cases[name] for name in random.Random(test).sample(names, len(names))[count:]]
