"""Policies that cannot decide now are retried for a while."""

from concurrent.futures import CancelledError

import pytest

from penstock.engine.verdict import PostponedError, postponed
from penstock.jobs.policy_retries import decided
from penstock.policy import RetriableException


class Time:
    """A clock that only `sleep` advances."""

    def __init__(self):
        self.now = 100.0
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    def __call__(self):
        return self.now


class Policy:
    """Decides at the n-th attempt; each attempt takes a given time."""

    def __init__(self, time, times, each=0.0):
        self.attempts = 0
        self._time, self._times, self._each = time, times, each

    def __call__(self):
        self.attempts += 1
        self._time.now += self._each
        if self.attempts < self._times:
            raise PostponedError(postponed("Policy", RetriableException(f"no {self.attempts}")))
        return "decided"


def decide(policy, time, for_s, **options):
    return decided(policy, for_s, clock=time, sleep=time.sleep, **options)


def test_an_immediate_decision_has_no_pause():
    time = Time()
    assert decide(Policy(time, 1), time, 10) == "decided"
    assert time.slept == []


def test_pauses_grow_up_to_a_second():
    time = Time()
    assert decide(policy := Policy(time, 8), time, 10) == "decided"
    assert policy.attempts == 8
    assert time.slept == pytest.approx([0.1, 0.2, 0.4, 0.8, 1, 1, 1])


@pytest.mark.parametrize("each", [0.0, 0.7, 30.0])
def test_retries_end_after_the_time_with_the_last_error(each):
    time = Time()
    policy = Policy(time, 1000, each)
    with pytest.raises(PostponedError) as raised:
        decide(policy, time, 10)
    assert str(raised.value).endswith(f"no {policy.attempts}")
    # From the end of the first attempt; and the last begins no later than then.
    assert 9.999 < time.now - 100 - each < 10.001 + each


def test_without_time_there_is_no_retry():
    time = Time()
    policy = Policy(time, 2)
    with pytest.raises(PostponedError):
        decide(policy, time, 0)
    assert (policy.attempts, time.slept) == (1, [])


def test_a_cancelled_task_does_not_wait():
    time = Time()
    policy = Policy(time, 1000)

    def beat():
        if policy.attempts == 3:
            raise CancelledError

    with pytest.raises(CancelledError):
        decide(policy, time, 10, beat=beat)
    assert policy.attempts == 3


def test_other_errors_end_the_retries():
    def judge():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        decided(judge, 10)
