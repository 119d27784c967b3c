"""What policies count, until the engine takes it."""

import subprocess
import sys

import pytest

from penstock.policy import count_event
from penstock.policy.counting import EVENTS_MAX, OTHER, take_events


@pytest.fixture(autouse=True)
def nothing_from_before():
    take_events()


def test_it_is_counted_once():
    count_event("lookup", "found")
    count_event("lookup", "found", 2)
    count_event("lookup")

    assert sorted(take_events()) == [("lookup", "", 1), ("lookup", "found", 3)]
    assert take_events() == []


def test_nothing_is_taken_back():
    with pytest.raises(ValueError, match="amount=-1"):
        count_event("lookup", amount=-1)
    assert take_events() == []


def test_long_texts_are_cut():
    count_event("e" * 1000, "r" * 1000)
    assert take_events() == [("e" * 100, "r" * 100, 1)]


@pytest.mark.system
def test_there_are_so_many_kinds_and_no_more():
    """In a separate process, since the kinds of a process are never forgotten."""
    program = f"""
from penstock.policy.counting import count_event, take_events
for round in range(2):
    for number in range({EVENTS_MAX} + 20):
        count_event("e", str(number))
    taken = take_events()
    assert len(taken) == {EVENTS_MAX} + 1, taken
    assert ("{OTHER}", "", 20) in taken
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
