"""The age at which a connection is closed, with jitter, and between two requests if possible."""

import math

import pytest

from penstock.gateway.sessions.connection_age import JITTER, ConnectionAge


def lowest(low, _):
    return low


def highest(_, high):
    return high


@pytest.mark.parametrize(
    ("now", "is_between", "has_come"),
    [
        (1_089.9, True, False),
        (1_090.0, True, True),
        (1_090.0, False, False),
        (1_099.9, False, False),
        (1_100.0, False, True),
    ],
    ids=["young", "old", "old and busy", "still busy", "busy for too long"],
)
def test_an_old_connection_ends_between_requests_or_after_a_tenth_of_its_age(
    now, is_between, has_come
):
    age = ConnectionAge(100.0, 1_000.0, lowest)
    assert age.has_come(now, lambda: is_between) is has_come


def test_no_connection_waits_for_long_however_old_it_may_become():
    age = ConnectionAge(86_400.0, 0.0, lambda *_: 1.0)
    found = [age.has_come(86_400.0 + waited, lambda: False) for waited in (0.0, 9.9, 10.0)]
    assert found == [False, False, True]


def test_connections_that_were_opened_together_do_not_become_old_together():
    first, last = ConnectionAge(100.0, 0.0, lowest), ConnectionAge(100.0, 0.0, highest)
    assert (first.has_come(90.0, lambda: True), last.has_come(109.9, lambda: True)) == (True, False)
    ages = [ConnectionAge(100.0, 0.0) for _ in range(200)]
    spread = [sum(age.has_come(now, lambda: True) for age in ages) for now in (90, 100, 110.001)]
    assert spread[0] == 0 and 50 < spread[1] < 150 and spread[2] == 200
    assert pytest.approx(0.1) == JITTER


def test_without_an_age_no_connection_becomes_old():
    age = ConnectionAge(math.inf, 5.0)
    assert not age.has_come(1e300, lambda: True)
