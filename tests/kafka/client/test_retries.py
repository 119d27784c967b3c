"""Pauses that grow, and the end of patience."""

import gc
import weakref
from contextlib import suppress

import pytest

from penstock.kafka.client.connections.retries import Retries, retried
from penstock.kafka.client.errors import BrokerUnreachableError, LoginError, NoAnswerError
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


def test_retries_may_be_thousands(clock):
    """With `retry.backoff.ms=0`, which Kafka allows, they are within seconds."""
    settings = SETTINGS._replace(backoff_s=0.0)
    retries = Retries(settings, clock=lambda: clock.now, sleep=clock.sleep)
    for _ in range(3000):
        retries.after(BrokerUnreachableError("away"))
    assert set(clock.pauses) == {0.0}


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


def test_another_time_limit(clock):
    retries = Retries(SETTINGS, limit_s=0, clock=lambda: clock.now, sleep=clock.sleep)
    with pytest.raises(BrokerUnreachableError):
        retries.after(BrokerUnreachableError("away"))
    assert clock.pauses == []


class Attempts:
    """A connection without pauses, and attempts that fail at first."""

    def __init__(self, *errors):
        self.errors, self.left = list(errors), []

    def retries(self, limit_s=None):
        return Retries(SETTINGS._replace(backoff_s=0.0), limit_s=limit_s)

    def __call__(self, left_s):
        self.left.append(left_s)
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def test_an_attempt_is_repeated_and_knows_its_time():
    attempts = Attempts(BrokerUnreachableError("away"), BrokerUnreachableError("away"))
    assert retried(attempts, 60.0, attempts) == "done"
    assert 60.0 >= attempts.left[0] >= attempts.left[2] > 50.0


def test_an_attempt_is_not_repeated_after_a_final_error_or_the_time():
    for error, limit_s in ((LoginError("no"), 60.0), (BrokerUnreachableError("away"), 0.0)):
        attempts = Attempts(error)
        with pytest.raises(type(error)):
            retried(attempts, limit_s, attempts)
        assert len(attempts.left) == 1


class NumberedAttempts(Attempts):
    """Attempts that take a second each."""

    def retries(self, limit_s=None):
        return Retries(
            SETTINGS._replace(backoff_s=0.0), limit_s=limit_s, clock=lambda: float(len(self.left))
        )


def test_the_end_of_the_time_does_not_hide_the_reason():
    """The last attempt had less time than a broker, or a KDC, needs to fail."""
    attempts = NumberedAttempts(
        NoAnswerError("no answer within 3 s"),
        BrokerUnreachableError("away"),
        NoAnswerError("no answer within 0.1 s"),
    )
    with pytest.raises(BrokerUnreachableError, match=r"^away$"):
        retried(attempts, 3.0, attempts)
    assert not attempts.errors


def test_the_end_of_the_time_is_a_reason_if_there_is_no_other():
    attempts = NumberedAttempts(NoAnswerError("no answer within 1 s"))
    with pytest.raises(NoAnswerError, match="no answer"):
        retried(attempts, 1.0, attempts)


@pytest.mark.parametrize("limit_s", [0.0, 60.0])
def test_an_error_is_freed_with_what_its_attempt_had(limit_s):
    """Errors have frames, and a frame that has its error is freed by the garbage collector only."""
    errors = []

    def watched(error):
        errors.append(weakref.ref(error))
        return error

    def attempt(_):
        raise watched(LoginError("no", retriable=limit_s == 0))

    gc.disable()
    try:
        with suppress(LoginError):
            retried(Attempts(), limit_s, attempt)
        assert errors[0]() is None
    finally:
        gc.enable()
