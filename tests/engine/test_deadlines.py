"""Entries become due at their times."""

import math

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.workers.deadlines import Deadlines


@given(
    times=st.lists(st.floats(0, 100) | st.just(math.inf), max_size=30),
    steps=st.lists(st.floats(0, 30), max_size=20),
)
def test_things_are_due_once_and_not_before_their_time(times, steps):
    deadlines: Deadlines[int] = Deadlines()
    for number, at in enumerate(times):
        deadlines.add(number, at)
    discarded = set(range(0, len(times), 3))
    for number in discarded:
        deadlines.discard(number, times[number])
    now, found = 0.0, []
    for step in [*steps, 0.0]:
        now += step
        due = deadlines.due(now)
        assert all(times[number] <= now for number in due)
        found += due
        kept = set(range(len(times))) - discarded - set(found)
        assert all(times[number] > now - 0.1001 for number in kept)
    assert len(found) == len(set(found))
    assert not discarded & set(found)
