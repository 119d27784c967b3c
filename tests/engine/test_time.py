"""The clock of the workers, and what is due by it."""

import math

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.workers.clock import RunningClock
from penstock.engine.workers.deadlines import Deadlines


def test_a_clock_that_is_read_often_goes_as_time_does():
    time = [100.0]
    clock = RunningClock(lambda: time[0])
    for _ in range(100):
        time[0] += 0.02
        clock.now()
    assert math.isclose(clock.now(), 2.0)


def test_time_in_which_a_clock_was_not_read_counts_for_little():
    time = [100.0]
    clock = RunningClock(lambda: time[0])
    time[0] += 3600
    assert math.isclose(clock.now(), 0.1)


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
