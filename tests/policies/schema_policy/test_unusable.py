"""Counts and log lines for records whose schema cannot be used."""

import pytest

from penstock.policies.schema_policy.unusable import EVENT, LINES, LOGGED_EVERY_S, UnusableSchemas
from penstock.policy import UndecidableException
from penstock.policy.counting import take_events
from tests.policies.schema_policy.clock import Clock


def test_records_are_counted_and_a_schema_is_logged_once_in_a_while(caplog):
    clock = Clock()
    unusable = UnusableSchemas(clock)
    take_events()
    for _ in range(3):
        unusable.decide("schema a", 2, accepts=True)
    unusable.decide("schema b", 1, accepts=True)
    assert take_events() == [(EVENT, "accepted", 7)]
    assert [line.partition(";")[0] for line in caplog.messages] == ["schema a", "schema b"]
    clock.now += LOGGED_EVERY_S + 1
    unusable.decide("schema a", 1, accepts=True)
    assert len(caplog.messages) == 3


def test_lines_are_bounded(caplog):
    unusable = UnusableSchemas(Clock())
    for number in range(2 * LINES):
        unusable.decide(f"schema {number}", 1, accepts=True)
    assert len(caplog.messages) == LINES


def test_refused_records_are_counted_too():
    take_events()
    with pytest.raises(UndecidableException, match=r"^schema a$"):
        UnusableSchemas(Clock()).decide("schema a", 2, accepts=False)
    assert take_events() == [(EVENT, "refused", 2)]
