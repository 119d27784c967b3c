"""Announcements of gateways in the state topic, and warnings about other gateways."""

import json

import pytest
from structlog.testing import capture_logs

from penstock.cluster.compacted_topic import LogRecord
from penstock.gateway.produce.producer_state.presence import Presence

MINUTE_MS = 60_000


def says(reader, name, *, shares, at_ms, ends=False):
    presence = Presence(name, shares=shares)
    reader.read(LogRecord(1, presence.key, None if ends else presence.value, at_ms))


@pytest.mark.parametrize(
    ("own", "other", "named"),
    [(False, False, ["b"]), (False, True, ["b"]), (True, False, ["b"]), (True, True, [])],
)
def test_gateways_are_safe_together_only_if_all_share_their_state(own, other, named):
    reader = Presence("a", shares=own)
    says(reader, "b", shares=other, at_ms=0)
    says(reader, "a", shares=own, at_ms=MINUTE_MS)
    assert reader.others() == named


def test_a_gateway_that_has_ended_or_is_silent_is_not_warned_about():
    reader = Presence("a", shares=False)
    says(reader, "b", shares=False, at_ms=0)
    says(reader, "c", shares=False, at_ms=0)
    says(reader, "b", shares=False, at_ms=1, ends=True)
    says(reader, "a", shares=False, at_ms=MINUTE_MS)
    assert reader.others() == ["c"]
    says(reader, "a", shares=False, at_ms=4 * MINUTE_MS)
    assert reader.others() == []


def test_gateways_from_before_the_start_are_not_warned_about():
    reader = Presence("a", shares=True)
    with capture_logs() as lines:
        says(reader, "b", shares=False, at_ms=0)
        says(reader, "a", shares=True, at_ms=1)  # read at the start, days later
        assert lines == []
        reader.is_announced = True
        says(reader, "a", shares=True, at_ms=9 * MINUTE_MS)
        assert lines == []
        says(reader, "b", shares=False, at_ms=9 * MINUTE_MS)
        says(reader, "a", shares=True, at_ms=10 * MINUTE_MS)
    assert [line["gateway"] for line in lines] == ["b"]


def test_records_of_another_version_are_left_out():
    reader = Presence("a", shares=False)
    for value in (b"", b"x", b"[]", b"[" * 100_000, json.dumps({"shares": "perhaps"}).encode()):
        reader.read(LogRecord(1, b"gateway:b", value, 0))
    says(reader, "a", shares=False, at_ms=1)
    assert reader.others() == []


def test_records_of_producers_are_not_about_gateways():
    assert Presence.is_about(Presence("a", shares=True).key)
    assert not Presence.is_about(b"7/0/gateway:")
    assert not Presence.is_about(None)


class TestChanges:
    """Announcements of gateways about their interceptors."""

    @pytest.fixture
    def reader(self):
        reader = Presence("a", shares=True)
        reader.changes = []
        reader.on_change = reader.changes.append
        reader.begin()
        reader.compare(None)
        return reader

    @staticmethod
    def say(reader, announcement, at_ms=0):
        reader.read(LogRecord(1, announcement.key, announcement.value, at_ms))

    def test_a_change_is_reported_once_though_it_is_written_every_minute(self, reader):
        other = Presence("b", shares=True)
        self.say(reader, other)
        assert reader.changes == []
        other.own.put(["^orders"])
        for minute in range(3):
            self.say(reader, other, minute * MINUTE_MS)
        [affects] = reader.changes
        assert affects("orders-1")
        assert not affects("payments")

    def test_topics_of_removed_interceptors_are_affected_too(self, reader):
        other = Presence("b", shares=True)
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
        other = Presence("b", shares=True)
        other.own.put([pattern])
        self.say(reader, other)
        assert reader.changes[0]("orders")

    @pytest.mark.parametrize("change", [1, [], ["x"], ["x", 1], ["x", [1]], {"x": []}])
    def test_changes_of_another_version_are_left_out(self, reader, change):
        value = json.dumps({"version": 1, "shares": True, "change": change}).encode()
        reader.read(LogRecord(1, b"gateway:b", value, 0))
        assert reader.changes == []
