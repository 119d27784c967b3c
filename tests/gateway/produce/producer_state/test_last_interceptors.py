"""Whether a gateway that starts has unchanged interceptors, by the digests that gateways stored."""

import json

import pytest

from penstock.gateway.produce.producer_state.last_interceptors import (
    OTHERS_MAX_AGE_S,
    OWN_MAX_AGE_S,
    Interceptors,
    KeptInterceptors,
    are_as_before,
)
from penstock.gateway.produce.producer_state.presence import Presence
from penstock.kafka.cluster.compacted_topic import LogRecord

SAME = Interceptors("a", in_doubt=False)
DIFFERENT = {
    "other interceptors": Interceptors("b", in_doubt=False),
    "a change of late": Interceptors("a", in_doubt=True),
    "interceptors that are not known": Interceptors("", in_doubt=False),
    "a gateway that said nothing": None,
}
MINUTE_MS = 60_000


def test_a_start_with_the_digest_of_all_gateways_is_unchanged():
    assert are_as_before("a", KeptInterceptors(SAME, 0.0))
    assert are_as_before(
        "a",
        KeptInterceptors(SAME, OWN_MAX_AGE_S),
        [KeptInterceptors(SAME, 0.0), KeptInterceptors(SAME, -9.0)],
    )


@pytest.mark.parametrize("kept", DIFFERENT.values(), ids=DIFFERENT)
def test_a_start_with_any_other_digest_is_changed(kept):
    assert not are_as_before("a", KeptInterceptors(kept, 0.0))
    assert not are_as_before(
        "a",
        KeptInterceptors(SAME, 0.0),
        [KeptInterceptors(SAME, 0.0), KeptInterceptors(kept, OTHERS_MAX_AGE_S)],
    )
    assert are_as_before(
        "a", KeptInterceptors(SAME, 0.0), [KeptInterceptors(kept, OTHERS_MAX_AGE_S + 1)]
    )


def test_a_start_without_a_digest_is_changed():
    assert not are_as_before("a", None, [KeptInterceptors(SAME, 0.0)])
    assert not are_as_before("", KeptInterceptors(Interceptors("", in_doubt=False), 0.0))


@pytest.mark.parametrize("age_s", [-1.0, OWN_MAX_AGE_S + 1])
def test_a_digest_that_was_stored_long_ago_or_in_the_future_is_changed(age_s):
    assert not are_as_before("a", KeptInterceptors(SAME, age_s))


class TestTopic:
    """Digests of gateways in the state topic."""

    @pytest.fixture
    def topic(self):
        return []

    @staticmethod
    def say(topic, presence, at_ms, *, ends=False):
        value = presence.last_value if ends else presence.value
        topic.append(LogRecord(len(topic) + 1, presence.key, value, at_ms))

    @staticmethod
    def started(topic, name, interceptors=SAME, at_ms=MINUTE_MS):
        """Return a gateway that compared digests, and whether its interceptors are unchanged."""
        presence = Presence(name)
        presence.changes = []
        presence.on_change = presence.changes.append
        for record in topic:
            presence.read(record)
        presence.interceptors = lambda: interceptors
        presence.begin()
        TestTopic.say(topic, presence, at_ms)
        presence.read(topic[-1])
        return presence, presence.compare(interceptors.digest)

    def running(self, topic, name, interceptors=SAME, at_ms=0):
        presence, _ = self.started(topic, name, interceptors, at_ms)
        self.say(topic, presence, at_ms)
        return presence

    def test_a_gateway_that_starts_for_the_first_time_has_no_digest(self, topic):
        assert not self.started(topic, "a")[1]
        self.running(topic, "b")
        assert not self.started(topic, "c")[1]

    @pytest.mark.parametrize("ends", [False, True])
    def test_a_gateway_that_starts_again_compares_with_itself_and_others(self, topic, ends):
        self.say(topic, self.running(topic, "a"), 0, ends=ends)
        self.running(topic, "b")
        assert self.started(topic, "a")[1]

    @pytest.mark.parametrize("other", [value for value in DIFFERENT.values() if value])
    def test_different_digests_of_others_count_after_their_end_too(self, topic, other):
        self.running(topic, "a")
        self.say(topic, self.running(topic, "b", other), 0, ends=True)
        assert not self.started(topic, "a")[1]

    def test_a_gateway_of_an_older_version_counts_as_different(self, topic):
        self.running(topic, "a")
        self.say(topic, Presence("b"), 0)
        assert not self.started(topic, "a")[1]

    def test_a_gateway_that_was_of_an_older_version_meanwhile_has_no_digest(self, topic):
        self.running(topic, "a")
        self.say(topic, Presence("a"), 0)
        assert not self.started(topic, "a")[1]

    def test_the_end_of_an_older_version_counts_as_different(self, topic):
        self.running(topic, "a")
        topic.append(LogRecord(9, b"gateway:b", None, 0))
        assert not self.started(topic, "a")[1]

    def test_a_gateway_that_was_stopped_for_hours_has_no_digest(self, topic):
        self.running(topic, "a")
        assert not self.started(topic, "a", at_ms=180 * MINUTE_MS)[1]

    def test_a_gateway_that_was_killed_before_comparing_has_no_digest(self, topic):
        self.running(topic, "a")
        presence = Presence("a")
        presence.interceptors = lambda: SAME
        presence.begin()
        self.say(topic, presence, 0)
        assert not self.started(topic, "a")[1]

    def test_two_gateways_of_the_same_name_are_always_in_doubt(self, topic):
        first = self.running(topic, "a")
        second = self.running(topic, "a")
        self.say(topic, first, 0)
        second.read(topic[-1])
        self.say(topic, second, 0)
        assert not self.started(topic, "a")[1]

    def test_two_gateways_of_the_same_name_read_each_others_changes(self, topic):
        first = self.running(topic, "a")
        first.own.put(["orders"])
        self.say(topic, first, 0)
        second, _ = self.started(topic, "a")
        second.changes.clear()
        self.say(topic, first, 0)
        second.read(topic[-1])
        assert not second.changes, "nothing has changed since"
        first.own.put(["payments"])
        for _ in range(2):
            self.say(topic, first, 0)
            second.read(topic[-1])
        [affects] = second.changes
        assert affects("payments")

    def test_the_last_change_stays_the_same_if_nothing_has_changed(self, topic):
        before = self.running(topic, "a")
        before.own.put(["orders"])
        self.say(topic, before, 0)
        other = self.running(topic, "b")
        again, is_as_before = self.started(topic, "a")
        self.say(topic, again, MINUTE_MS)
        reported = len(other.changes)
        for record in topic:
            other.read(record)
        assert is_as_before
        assert len(other.changes) == reported

    def test_changes_of_others_before_the_start_are_reported_if_a_digest_differs(self, topic):
        other = self.running(topic, "b")
        other.own.put(["orders"])
        self.say(topic, other, 0)
        presence, is_as_before = self.started(topic, "a")
        [affects] = presence.changes
        assert not is_as_before
        assert affects("orders")

    @pytest.mark.parametrize("message", [1, [], ["a"], ["a", 1], [1, True], {"a": False}])
    def test_a_digest_of_another_form_is_ignored(self, topic, message):
        self.running(topic, "a")
        value = json.dumps({"version": 1, "shares": True, "interceptors": message}).encode()
        topic.append(LogRecord(9, b"gateway:b", value, 0))
        assert not self.started(topic, "a")[1]
