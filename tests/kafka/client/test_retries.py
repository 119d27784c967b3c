"""Pauses that grow, and the end of patience."""

import pytest

from penstock.kafka.client.connections.retries import Retries
from penstock.kafka.client.errors import BrokerUnreachableError, LoginError
from tests.kafka.client.settings import SETTINGS


class Clock:
    """Time that passes only in pauses."""

    def __init__(self):
        self.now = 0.0
        self.pauses = []

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def retries(clock):
    return Retries(SETTINGS, clock=lambda: clock.now, sleep=clock.sleep)


def test_pauses_double_up_to_the_longest(retries, clock):
    for _ in range(6):
        retries.after(BrokerUnreachableError("away"))
    wanted = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert clock.pauses == [pytest.approx(pause, rel=0.2001) for pause in wanted]


def test_the_error_is_raised_when_the_time_is_over(retries, clock):
    last = BrokerUnreachableError("away")
    with pytest.raises(BrokerUnreachableError) as caught:
        for _ in range(1000):
            retries.after(last)
    assert caught.value is last
    assert 10 <= clock.now < 11.3


def test_progress_resets_the_pauses(retries, clock):
    for _ in range(3):
        clock.now += 9
        retries.after(BrokerUnreachableError("away"))
        retries.progress()
    assert clock.pauses == [pytest.approx(0.1, rel=0.2001)] * 3


def test_a_final_error_is_not_retried(retries, clock):
    with pytest.raises(LoginError):
        retries.after(LoginError("wrong password"))
    assert clock.pauses == []
