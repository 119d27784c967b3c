"""The clock of the workers: time in which it was not read counts little."""

import math

from penstock.engine.workers.clock import RunningClock


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
