"""Starts and reloads with unchanged interceptors are without doubts; at a real Kafka."""

import json
import signal
import sys
import uuid

import pytest

from tests.gateways import START, wait_until
from tests.integration.numbered_batches import INTERCEPTED, POLICIES, Batches
from tests.integration.reading import values_of

DOUBTS = """
from pathlib import Path
from penstock.gateway.produce.producer_state import doubts, presence
presence.HEARTBEAT_S = 1.0
add = doubts.Doubts.add
def add_some(self, affects):
    doubts.DOUBTED_S = float(Path({file!r}).read_text())
    add(self, affects)
doubts.Doubts.add = add_some
"""
"""The time of doubts is read from a file when they begin."""
AS_BEFORE = "interceptors are as before: no batch can have been decided by others"


@pytest.fixture
def state():
    return f"state-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def doubts(tmp_path):
    """Return the file with the time that doubts last."""
    file = tmp_path / "doubts"
    file.write_text("0.5")
    return file


@pytest.fixture
def start(gateway, state, doubts):
    properties = {**INTERCEPTED, "produce.request.interceptors.state.topic": state}

    def begin(policies=POLICIES, **more):
        given = {**properties, **more}
        program = DOUBTS.format(file=str(doubts)) + START
        return gateway(given, policies, program=[sys.executable, "-c", program])

    return begin


@pytest.fixture
def announcements(stored, state):
    """Return the last announcement of each gateway, by its name."""

    def read():
        found = {}
        for _, key, value, _ in stored(state):
            if key.startswith(b"gateway:") and value is not None:
                found[key] = json.loads(value)
        return found

    return read


@pytest.fixture
def settled(announcements, doubts):
    """Wait until no gateway is in doubt; further doubts last."""

    def wait(count=1):
        wait_until(
            lambda: (
                [entry["interceptors"][1] for entry in announcements().values()] == [False] * count
            ),
            what="the end of doubts",
        )
        doubts.write_text("600")

    return wait


def change(running, name="policies.py", text="\n# another\n"):
    file = running.file.parent / name
    file.write_text(file.read_text() + text)


def is_unchanged(running, *, kill=False):
    """Start a gateway again; return whether its interceptors are unchanged, by its log."""
    running.log.clear()
    running.restart(kill=kill)
    running.wait_for("broker")  # later
    return bool(running.events(AS_BEFORE))


def fences(stored, state):
    return sum(b'"fence":true' in value for value in filter(None, values_of(stored(state))))


@pytest.mark.cases(1)
@pytest.mark.parametrize("kill", [False, True])
def test_a_start_with_unchanged_interceptors_writes_only_necessary_records(
    start, state, topic, stored, settled, announcements, kill
):
    name = topic()
    running = start()
    settled()
    before = announcements()
    assert is_unchanged(running, kill=kill)
    batches = Batches(name)
    assert batches.send(running.address, 0, b"a") == 0
    assert batches.send(running.address, 1, b"drop", b"b") == 0
    assert fences(stored, state) == 0
    [change_before], [change_now] = (
        [entry["change"] for entry in of.values()] for of in (before, announcements())
    )
    assert change_now == change_before


@pytest.mark.slow
def test_a_start_with_a_changed_module_has_every_batch_written(
    start, state, topic, stored, settled, announcements
):
    name = topic()
    running = start()
    settled()
    before = announcements()
    change(running)
    assert not is_unchanged(running)
    assert Batches(name).send(running.address, 0, b"a") == 0
    assert fences(stored, state) == 1
    [change_before], [change_now] = (
        [entry["change"] for entry in of.values()] for of in (before, announcements())
    )
    assert change_now != change_before


@pytest.mark.slow
def test_a_start_during_doubts_begins_them_again(start, settled):
    running = start()
    settled()
    change(running)
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("reloaded")
    assert not is_unchanged(running, kill=True)


@pytest.mark.slow
def test_a_file_changed_at_another_gateway_begins_doubts_only_at_a_start(
    start, settled, announcements, doubts
):
    first, other = start(), start()
    settled(2)
    assert len({entry["interceptors"][0] for entry in announcements().values()}) == 1, (
        "folders count"
    )
    doubts.write_text("0.5")
    change(other)
    other.restart()
    settled(2)
    doubts.write_text("0.5")
    assert not is_unchanged(first)
    change(first)
    first.restart()
    settled(2)
    assert is_unchanged(first)
    assert is_unchanged(other)


@pytest.mark.slow
def test_a_gateway_whose_interceptors_were_removed_announces_it(
    start, state, topic, stored, settled
):
    name = topic()
    first, other = start(), start()
    settled(2)
    text = other.file.read_text()
    other.file.write_text(text.replace("produce.request.interceptors=policies.NoDrop", ""))
    other.restart()
    for running in (first, other):
        assert Batches(name).send(running.address, 0, b"a") == 0
    assert fences(stored, state) == 2
    assert not is_unchanged(first)


def test_a_reload_of_the_same_files_changes_nothing(
    start, state, topic, stored, settled, announcements
):
    name = topic()
    running = start()
    settled()
    before = announcements()
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("reloaded")
    assert Batches(name).send(running.address, 0, b"a") == 0
    assert fences(stored, state) == 0
    assert [entry["change"] for entry in announcements().values()] == [
        entry["change"] for entry in before.values()
    ]
    change(running)
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("reloaded", 2)
    assert Batches(name).send(running.address, 0, b"a") == 0
    assert fences(stored, state) == 1


def test_a_changed_schema_is_a_change_of_interceptors(start, settled):
    running = start()
    settled()
    (running.file.parent / "order.json").write_text("{}")
    assert not is_unchanged(running)
