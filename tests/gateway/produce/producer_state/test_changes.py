"""What a gateway announces about changes, and for how long."""

import json
import re

import pytest

from penstock.gateway.produce.producer_state.changes import (
    EVERY_TOPIC,
    NAMES_MAX,
    Change,
    OwnChange,
    pattern_of,
    read_change,
)
from penstock.gateway.produce.producer_state.doubts import DOUBTED_S
from penstock.gateway.produce.producer_state.last_interceptors import Interceptors
from penstock.gateway.produce.producer_state.presence import Presence
from penstock.kafka.cluster.compacted_topic import LogRecord

HOUR_MS = 3_600_000


class Clock:
    def __init__(self):
        self.s = 0.0

    def __call__(self):
        return self.s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def own(clock):
    return OwnChange(clock)


def announced(own):
    """Return what other gateways read."""
    return read_change(own.current.fields)


def test_topics_of_interceptors_before_are_announced_for_ten_minutes(own, clock):
    own.put([""])
    own.put(["^q-"])
    assert announced(own).affects("orders"), "a gateway that starts now has not read the first"
    clock.s += DOUBTED_S
    assert not announced(own).affects("orders")
    assert announced(own).affects("q-1")


def test_an_earlier_process_announces_for_the_next_until_ten_minutes_are_over(own, clock):
    own.put([""])
    own.put(["^q-"])
    own.put_topic("payments", loses_records=False)
    again = OwnChange(clock)
    again.continue_from(announced(own))
    assert announced(again).affects("orders")
    again.put(["^q-"])
    assert announced(again).affects("payments")
    clock.s += DOUBTED_S
    assert [announced(again).affects(topic) for topic in ("orders", "payments", "q-1")] == [
        False, False, True,
    ]  # fmt: skip


def test_an_old_announcement_for_every_topic_ends_though_nothing_else_is_announced(own, clock):
    """The topics of a file that nothing changed since: patterns of an older version, perhaps."""
    own.continue_from(Change("1", ["^q-"], [""]))
    assert announced(own).id == "1"
    clock.s += DOUBTED_S
    assert not announced(own).affects("orders")


def test_settings_of_a_topic_are_announced_apart_from_interceptors(own, clock):
    own.put(["^q-"])
    before = announced(own)
    own.put_topic("orders", loses_records=True)
    now = announced(own)
    assert (now.id, now.new_settings(before)) == (before.id, ["orders"])
    own.put_topic("orders", loses_records=True)
    assert announced(own).new_settings(now) == ["orders"], "each change is one"
    clock.s += DOUBTED_S
    assert not announced(own).settings
    assert announced(own).affects("orders"), "for gateways that start later"
    assert not announced(own).affects("orders-2")


def test_settings_that_lose_no_records_any_more_are_announced_for_ten_minutes(own, clock):
    own.put_topic("orders", loses_records=False)
    assert announced(own).affects("orders")
    clock.s += DOUBTED_S
    assert not announced(own).affects("orders")


@pytest.mark.parametrize("loses_records", [False, True])
def test_settings_of_many_topics_are_announced_as_a_change_of_interceptors(own, loses_records):
    own.put(["^q-"])
    before = announced(own)
    for number in range(NAMES_MAX + 1):
        own.put_topic(f"t-{number}", loses_records=loses_records)
    now = announced(own)
    assert now.id != before.id, "all its topics are affected"
    assert all(now.affects(topic) for topic in ("t-0", f"t-{NAMES_MAX}", "q-1"))
    assert now.affects("orders") == (EVERY_TOPIC in now.topics) == loses_records


@pytest.mark.parametrize("loses_records", [False, True])
def test_an_announcement_stays_small_whatever_topics_change_again_and_again(own, loses_records):
    """It is read, and its patterns compiled, by each gateway; and it has to fit into the topic."""
    own.put(["^q-"])
    names = [f"{number:05}{'-.' * 122}" for number in range(3 * NAMES_MAX // 2)]
    for topic in names * 3:
        own.put_topic(topic, loses_records=loses_records)
    assert len(json.dumps(own.current.fields)) < 500_000
    now = announced(own)
    assert all(map(now.affects, [*names, "q-1"]))
    assert max(map(len, (*now.topics, *now.former))) < 100_000


def test_topics_that_change_again_and_again_are_announced_once(own, clock):
    for _ in range(3):
        for number in range(NAMES_MAX):
            own.put_topic(f"t-{number}", loses_records=True)
        for number in range(NAMES_MAX):
            own.put_topic(f"other-{number}", loses_records=False)
    assert len(own.current.topics) == 1
    clock.s += DOUBTED_S
    assert [announced(own).affects(topic) for topic in ("t-1", "other-1")] == [True, False]


def test_names_are_no_patterns():
    assert re.search(pattern_of(["a.b", "c"]), "a.b")
    assert re.search(pattern_of(["a.b", "c"]), "axb") is None


@pytest.mark.parametrize("names", [map(str, range(NAMES_MAX + 1)), ["x" * 249] * 200])
def test_the_pattern_of_too_many_names_is_that_of_every_topic(names):
    assert pattern_of(list(names)) == EVERY_TOPIC


@pytest.mark.parametrize("more", [{"former": [1]}, {"former": "x"}, {"settings": {"a": 1}}])
def test_fields_of_another_version_are_left_out(more):
    assert read_change({"change": ["1", ["^q-"]], **more}) == Change("1", ["^q-"])


class TestOthers:
    """What other gateways make of it."""

    @staticmethod
    def say(reader, presence, at_ms=0):
        reader.read(LogRecord(1, presence.key, presence.value, at_ms))

    @staticmethod
    def started(records, at_ms):
        reader = Presence("a")
        reader.changes = []
        reader.on_change = reader.changes.append
        for record in records:
            reader.read(record)
        reader.interceptors = lambda: Interceptors("", in_doubt=False)
        reader.begin()
        TestOthers.say(reader, reader, at_ms)
        reader.compare(None)
        return reader

    def test_settings_of_a_topic_are_reported_once(self, clock):
        other = Presence("b", now=clock)
        other.own.put(["^q-"])
        reader = self.started([LogRecord(1, other.key, other.value, 0)], 0)
        reader.topics = []
        reader.on_topic = reader.topics.append
        other.own.put_topic("orders", loses_records=True)
        for _ in range(2):
            self.say(reader, other)
        assert reader.topics == ["orders"]
        assert len(reader.changes) == 1, "that of the start"

    @pytest.mark.parametrize(("at_ms", "reported"), [(HOUR_MS, 1), (HOUR_MS + 1, 0)])
    def test_a_gateway_that_ended_long_ago_has_no_effect_on_a_start(self, at_ms, reported):
        other = Presence("b")
        other.own.put([""])
        reader = self.started([LogRecord(1, other.key, other.value, 0)], at_ms)
        assert len(reader.changes) == reported

    def test_the_topics_of_a_gateway_that_ended_long_ago_have_no_effect_when_it_comes_back(self):
        reader = self.started([], 0)
        other = Presence("b")
        other.own.put([""])
        self.say(reader, other)
        again = Presence("b")
        again.own.put(["^q-"])
        self.say(reader, again, HOUR_MS + 1)
        assert [affects("orders") for affects in reader.changes] == [True, False]

    def test_a_gateway_that_was_stopped_for_long_announces_nothing_of_before(self):
        before = Presence("a")
        before.own.put([""])
        again = self.started([LogRecord(1, before.key, before.value, 0)], HOUR_MS + 1)
        assert again.before.change is None
        assert again.own.current is None
