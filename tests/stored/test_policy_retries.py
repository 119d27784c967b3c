"""Policies that cannot decide now are asked again for a while: as they say, as the clock goes."""

from concurrent.futures import CancelledError

import pytest

from penstock.engine.verdict import PostponedError, postponed
from penstock.policy import RetriableException
from penstock.stored.policy_retries import decided


class Time:
    """A clock that goes on by sleep alone."""

    def __init__(self):
        self.now = 100.0
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    def __call__(self):
        return self.now


class Policy:
    """Decides at the n-th time that it is asked, each of which takes a while."""

    def __init__(self, time, times, each=0.0):
        self.asked = 0
        self._time, self._times, self._each = time, times, each

    def __call__(self):
        self.asked += 1
        self._time.now += self._each
        if self.asked < self._times:
            raise PostponedError(postponed("Policy", RetriableException(f"no {self.asked}")))
        return "decided"


def ask(policy, time, for_s, **options):
    return decided(policy, for_s, clock=time, sleep=time.sleep, **options)


def test_what_is_decided_at_once_takes_no_time():
    time = Time()
    assert ask(Policy(time, 1), time, 10) == "decided"
    assert time.slept == []


def test_pauses_grow_up_to_a_second():
    time = Time()
    assert ask(policy := Policy(time, 8), time, 10) == "decided"
    assert policy.asked == 8
    assert time.slept == pytest.approx([0.1, 0.2, 0.4, 0.8, 1, 1, 1])


@pytest.mark.parametrize("each", [0.0, 0.7, 30.0])
def test_it_ends_after_the_time_with_what_was_said_last(each):
    time = Time()
    policy = Policy(time, 1000, each)
    with pytest.raises(PostponedError) as raised:
        ask(policy, time, 10)
    assert str(raised.value).endswith(f"no {policy.asked}")
    # From the end of the first attempt; and the last begins no later than then.
    assert 9.999 < time.now - 100 - each < 10.001 + each


def test_without_time_it_is_asked_once():
    time = Time()
    policy = Policy(time, 2)
    with pytest.raises(PostponedError):
        ask(policy, time, 0)
    assert (policy.asked, time.slept) == (1, [])


def test_a_task_that_is_not_wanted_any_more_does_not_wait():
    time = Time()
    policy = Policy(time, 1000)

    def beat():
        if policy.asked == 3:
            raise CancelledError

    with pytest.raises(CancelledError):
        ask(policy, time, 10, beat=beat)
    assert policy.asked == 3


def test_other_errors_end_it():
    def judge():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        decided(judge, 10)
