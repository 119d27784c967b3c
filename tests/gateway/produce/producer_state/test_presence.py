"""Announcements of gateways in the state topic."""

import json

import pytest

from penstock.gateway.produce.producer_state.presence import Presence
from penstock.kafka.cluster.compacted_topic import LogRecord

MINUTE_MS = 60_000


def test_records_of_another_version_are_left_out():
    reader = Presence("a")
    reader.on_change = lambda _: pytest.fail("no change is announced")
    reader.begin()
    reader.compare(None)
    for value in (None, b"", b"x", b"[]", b"[" * 100_000, json.dumps({"shares": False}).encode()):
        reader.read(LogRecord(1, b"gateway:b", value, 0))


def test_older_gateways_with_state_of_their_own_read_that_this_gateway_shares_its_state():
    assert json.loads(Presence("a").value) == {"version": 1, "shares": True}


def test_records_of_producers_are_not_about_gateways():
    assert Presence.is_about(Presence("a").key)
    assert not Presence.is_about(b"7/0/gateway:")
    assert not Presence.is_about(None)


class TestChanges:
    """Announcements of gateways about their interceptors."""

    @pytest.fixture
    def reader(self):
        reader = Presence("a")
        reader.changes = []
        reader.on_change = reader.changes.append
        reader.begin()
        reader.compare(None)
        return reader

    @staticmethod
    def say(reader, announcement, at_ms=0):
        reader.read(LogRecord(1, announcement.key, announcement.value, at_ms))

    def test_a_change_is_reported_once_though_it_is_written_every_minute(self, reader):
        other = Presence("b")
        self.say(reader, other)
        assert reader.changes == []
        other.own.put(["^orders"])
        for minute in range(3):
            self.say(reader, other, minute * MINUTE_MS)
        [affects] = reader.changes
        assert affects("orders-1")
        assert not affects("payments")

    def test_topics_of_removed_interceptors_are_affected_too(self, reader):
        other = Presence("b")
        for topics in (["^orders"], ["^payments"]):
            other.own.put(topics)
            self.say(reader, other)
        assert [reader.changes[1](topic) for topic in ("orders", "payments", "x")] == [
            True, True, False,
        ]  # fmt: skip

    def test_its_own_change_is_no_change_of_another_gateway(self, reader):
        reader.own.put([""])
        self.say(reader, reader)
        assert reader.changes == []

    @pytest.mark.parametrize("pattern", ["(", "a{9999999999}", "(" * 9_999])
    def test_an_unreadable_pattern_affects_every_topic(self, reader, pattern):
        other = Presence("b")
        other.own.put([pattern])
        self.say(reader, other)
        assert reader.changes[0]("orders")

    @pytest.mark.parametrize("change", [1, [], ["x"], ["x", 1], ["x", [1]], {"x": []}])
    def test_changes_of_another_version_are_left_out(self, reader, change):
        value = json.dumps({"version": 1, "shares": True, "change": change}).encode()
        reader.read(LogRecord(1, b"gateway:b", value, 0))
        assert reader.changes == []
