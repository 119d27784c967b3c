"""Requests that are sent in a thread, and waited for briefly."""

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
    """A client that responds once its gate is open."""

    def __init__(self):
        self.gate = threading.Event()
        self.sent = []

    def send(self, value):
        self.sent.append(value)
        assert self.gate.wait(PLENTY)
        return value


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


def test_a_response_in_time_is_returned(refresher, client):
    client.gate.set()
    assert refresher.request("a", lambda hanging: hanging.send(1), PLENTY) == 1
    assert refresher.request("a", lambda hanging: hanging.send(2), PLENTY) == 2


def test_the_caller_waits_once_for_a_hanging_registry(refresher, client):
    with pytest.raises(RegistryAwayException):
        refresher.request("a", lambda hanging: hanging.send("a"), 0.05)
    began = time.monotonic()
    for key in ("a", "b", "c", "b"):
        with pytest.raises(RegistryAwayException):
            refresher.request(key, lambda hanging, key=key: hanging.send(key), PLENTY)
    assert time.monotonic() - began < PLENTY / 2
    client.gate.set()
    until(lambda: not refresher.is_away and client.sent == ["a", "b", "c"])
    assert refresher.request("a", lambda hanging: hanging.send("again"), PLENTY) == "a"
    assert refresher.request("a", lambda hanging: hanging.send("again"), PLENTY) == "again"


@pytest.mark.parametrize("error", [None, UnknownSchemaError("gone"), RegistryAwayException("x")])
def test_a_late_response_to_an_old_request_is_dropped(client, error):
    clock = Clock()
    refresher = Refresher(client, clock)

    def late(hanging):
        hanging.send("late")
        if error is not None:
            raise error
        return "late"

    with pytest.raises(RegistryAwayException):
        refresher.request("a", late, 0.05)
    until(lambda: client.sent == ["late"])
    client.gate.set()
    until(refresher._pending["a"].response.done)
    clock.passes(module.LATE_AT_MOST_S + 1)
    refresher.is_away = False
    assert refresher.request("a", lambda hanging: hanging.send("new"), PLENTY) == "new"
    assert refresher.age == 0
    refresher.close()


def test_a_response_is_as_old_as_its_request(client):
    clock = Clock()
    refresher = Refresher(client, clock)
    with pytest.raises(RegistryAwayException):
        refresher.request("a", lambda hanging: hanging.send("late"), 0.05)
    assert refresher.age == 0
    until(lambda: client.sent == ["late"])
    client.gate.set()
    until(refresher._pending["a"].response.done)
    clock.passes(module.LATE_AT_MOST_S - 1)
    assert refresher.request("a", lambda hanging: hanging.send("new"), PLENTY) == "late"
    assert refresher.age == module.LATE_AT_MOST_S - 1
    refresher.close()


def test_the_errors_of_a_request_are_raised(refresher):
    def fails(error):
        def send(_):
            raise error

        return send

    with pytest.raises(UnknownSchemaError, match="x"):
        refresher.request("a", fails(UnknownSchemaError("x")), PLENTY)
    assert not refresher.is_away
    with pytest.raises(RegistryAwayException, match="y"):
        refresher.request("a", fails(RegistryAwayException("y")), PLENTY)
    assert refresher.is_away


def test_requests_are_bounded_and_unfetched_responses_make_room(refresher, client, monkeypatch):
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    refresher.is_away = True
    for key in range(5):
        with pytest.raises(RegistryAwayException):
            refresher.request(key, lambda hanging, key=key: hanging.send(key), PLENTY)
    client.gate.set()
    until(lambda: client.sent == [0, 1, 2] and not refresher.is_away)
    assert refresher.request(7, lambda hanging: hanging.send(7), PLENTY) == 7


def test_the_thread_ends_without_requests(client, monkeypatch):
    monkeypatch.setattr(module, "_IDLE_S", 0.01)
    client.gate.set()
    refresher = Refresher(client)
    assert refresher.request("a", lambda hanging: hanging.send(1), PLENTY) == 1
    until(lambda: refresher._thread is None)
    assert refresher.request("a", lambda hanging: hanging.send(2), PLENTY) == 2
