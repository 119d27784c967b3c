"""Questions that are asked in a thread, and waited for a little."""

import threading
import time

import pytest

from penstock.policies.schema_policy.registry import refresher as module
from penstock.policies.schema_policy.registry.errors import (
    RegistryAwayException,
    UnknownSchemaError,
)
from penstock.policies.schema_policy.registry.refresher import Refresher
from tests.policies.schema_policy.clock import Clock

PLENTY = 30.0


class Hanging:
    """A client that answers when it is let."""

    def __init__(self):
        self.gate = threading.Event()
        self.asked = []

    def ask(self, what):
        self.asked.append(what)
        assert self.gate.wait(PLENTY)
        return what


@pytest.fixture
def client():
    made = Hanging()
    yield made
    made.gate.set()


@pytest.fixture
def refresher(client):
    made = Refresher(client)
    yield made
    made.close()


def until(condition):
    end = time.monotonic() + PLENTY
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_an_answer_that_comes_soon_is_returned(refresher, client):
    client.gate.set()
    assert refresher.ask("a", lambda asks: asks.ask(1), PLENTY) == 1
    assert refresher.ask("a", lambda asks: asks.ask(2), PLENTY) == 2


def test_what_hangs_is_waited_for_once_and_then_no_more(refresher, client):
    with pytest.raises(RegistryAwayException):
        refresher.ask("a", lambda asks: asks.ask("a"), 0.05)
    began = time.monotonic()
    for key in ("a", "b", "c", "b"):
        with pytest.raises(RegistryAwayException):
            refresher.ask(key, lambda asks, key=key: asks.ask(key), PLENTY)
    assert time.monotonic() - began < PLENTY / 2
    client.gate.set()
    until(lambda: not refresher.is_away and client.asked == ["a", "b", "c"])
    assert refresher.ask("a", lambda asks: asks.ask("again"), PLENTY) == "a"
    assert refresher.ask("a", lambda asks: asks.ask("again"), PLENTY) == "again"


@pytest.mark.parametrize("error", [None, UnknownSchemaError("gone"), RegistryAwayException("x")])
def test_what_came_late_is_dropped_where_it_was_asked_too_long_ago(client, error):
    clock = Clock()
    refresher = Refresher(client, clock)

    def late(asks):
        asks.ask("late")
        if error is not None:
            raise error
        return "late"

    with pytest.raises(RegistryAwayException):
        refresher.ask("a", late, 0.05)
    until(lambda: client.asked == ["late"])
    client.gate.set()
    until(refresher._pending["a"].answer.done)
    clock.passes(module.LATE_AT_MOST_S + 1)
    refresher.is_away = False
    assert refresher.ask("a", lambda asks: asks.ask("new"), PLENTY) == "new"
    assert refresher.age == 0
    refresher.close()


def test_an_answer_is_as_old_as_its_question(client):
    clock = Clock()
    refresher = Refresher(client, clock)
    with pytest.raises(RegistryAwayException):
        refresher.ask("a", lambda asks: asks.ask("late"), 0.05)
    assert refresher.age == 0
    until(lambda: client.asked == ["late"])
    client.gate.set()
    until(refresher._pending["a"].answer.done)
    clock.passes(module.LATE_AT_MOST_S - 1)
    assert refresher.ask("a", lambda asks: asks.ask("new"), PLENTY) == "late"
    assert refresher.age == module.LATE_AT_MOST_S - 1
    refresher.close()


def test_errors_are_those_of_the_question(refresher):
    def fails(error):
        def ask(_):
            raise error

        return ask

    with pytest.raises(UnknownSchemaError, match="x"):
        refresher.ask("a", fails(UnknownSchemaError("x")), PLENTY)
    assert not refresher.is_away
    with pytest.raises(RegistryAwayException, match="y"):
        refresher.ask("a", fails(RegistryAwayException("y")), PLENTY)
    assert refresher.is_away


def test_questions_are_bounded_and_answers_that_nobody_takes_make_room(
    refresher, client, monkeypatch
):
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    refresher.is_away = True
    for key in range(5):
        with pytest.raises(RegistryAwayException):
            refresher.ask(key, lambda asks, key=key: asks.ask(key), PLENTY)
    client.gate.set()
    until(lambda: client.asked == [0, 1, 2] and not refresher.is_away)
    assert refresher.ask(7, lambda asks: asks.ask(7), PLENTY) == 7


def test_the_thread_ends_where_there_is_nothing_to_ask(client, monkeypatch):
    monkeypatch.setattr(module, "_IDLE_S", 0.01)
    client.gate.set()
    refresher = Refresher(client)
    assert refresher.ask("a", lambda asks: asks.ask(1), PLENTY) == 1
    until(lambda: refresher._thread is None)
    assert refresher.ask("a", lambda asks: asks.ask(2), PLENTY) == 2
