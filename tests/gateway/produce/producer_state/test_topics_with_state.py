"""Topics with state of producers are announced before their state matters."""

from functools import partial

import pytest

from penstock.configuration import read_configuration
from penstock.gateway.produce.producer_state import topics_with_state
from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.cluster import ClusterStore
from penstock.gateway.produce.producer_state.presence import Presence
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.kafka.cluster.compacted_topic import LogRecord

TOPICS = ("a", "b", "c")
HISTORIES = 200
STEPS = 60


class History:
    """Random calls of two gateways that share state, or of a single gateway; and who reads it."""

    def __init__(self, chance, *, is_shared):
        self.chance, self.now, self.records = chance, 1.0, []
        self.known = set()
        limits = {"producers_max": 3, "kept_max_bytes": 6_000, "is_shared": is_shared}
        self.here, self.there = (
            Producers(now=lambda: self.now, keep=keep, **limits)
            for keep in (self._keep, self._keep if is_shared else None)
        )
        self.here.topics.on_topic = self._forget
        self.here.topics.on_change = self._forget_affected

    def _forget(self, topic):
        if topic is None:
            self.known.clear()
        else:
            assert self.here.has_topic(topic)
            self.known.discard(topic)

    def _forget_affected(self, affects):
        self.known = {topic for topic in self.known if not affects(topic)}

    def _keep(self, key, record, done):
        self.records.append((key, record))
        done(None)

    def learn(self):
        """Let a batch pass that needs no change."""
        topic = self.chance.choice(TOPICS)
        if not self.here.has_topic(topic):
            self.known.add(topic)

    def decide(self):
        at = self.chance.choice((self.here, self.there))
        key = ProducerKey(self.chance.choice(TOPICS), 0, self.chance.randrange(3))
        first = self.chance.randrange(4)
        dropped = (0,) if self.chance.random() < 0.5 else ()
        at.decide(
            key, Arrival(*key), self.chance.randrange(2), Range(first, 2), dropped, b"",
            connection=1, callback=lambda _: None,
        )  # fmt: skip

    def restore(self):
        if self.records:
            key, record = self.chance.choice(self.records)
            self.here.restore(key, record, self.now - self.chance.choice((0, 10**5, 10**6)))

    def forget(self):
        self.here.forget(ProducerKey(self.chance.choice(TOPICS), 0, self.chance.randrange(3)))

    def change(self):
        changed = self.chance.choice(TOPICS)
        if self.chance.random() < 0.5:
            self.here.interceptors_changed(lambda topic: topic == changed)
        else:
            self.here.settings_changed(changed)

    def wait(self):
        self.now += self.chance.choice((1.0, 700.0, 10**5, 10**6))
        self.here.expire()

    def step(self):
        calls = (self.learn, self.decide, self.restore, self.forget, self.change, self.wait)
        self.chance.choices(calls, (8, 4, 2, 1, 1, 1))[0]()
        assert not any(map(self.here.has_topic, self.known))


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_topic_with_state_is_never_known_as_a_topic_without_state(chance, is_shared):
    learned = forgotten = 0
    for _ in range(HISTORIES):
        history = History(chance, is_shared=is_shared)
        for _ in range(STEPS):
            before = len(history.known)
            history.step()
            learned += len(history.known) > before
            forgotten += len(history.known) < before
    assert min(learned, forgotten) > HISTORIES


def test_the_topics_with_state_are_those_of_producers_in_use_and_of_others():
    state = Producers(now=lambda: 1.0)
    assert list(state.topics.names) == []
    for topic in ("a", "b"):
        key = ProducerKey(topic, 0, 7)
        state.decide(
            key, Arrival(*key), 0, Range(0, 2), [0], b"", connection=1, callback=lambda _: None
        )
    state.forget(ProducerKey("a", 0, 7))
    assert list(state.topics.names) == ["b"]


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_topic_keeps_its_state_when_its_producer_is_evicted(is_shared, monkeypatch):
    """Otherwise batches would keep their sequence numbers, though records were dropped."""
    monkeypatch.setattr(topics_with_state, "_EVICTED_TOPICS_MAX", 3)
    now, stored = [1.0], {}

    def keep(key, record, done):
        stored[key] = record, now[0]
        done(None)

    state = Producers(
        now=lambda: now[0], keep=keep, look_up=None if is_shared else stored.get,
        is_shared=is_shared, producers_max=1, kept_max_bytes=1_000,
    )  # fmt: skip
    lose = partial(state.decide, connection=1, callback=lambda _: None)
    for topic in ("a", "b", "c"):
        key = ProducerKey(topic, 0, 7)
        lose(key, Arrival(*key), 0, Range(0, 2), [0], b"")
    assert set(state.topics.names) == {"a", "b", "c"}
    assert [state.has_topic(topic) for topic in "abcd"] == [True, True, True, False]
    requested = []
    state.topics.on_topic = requested.append
    for topic in ("d", "e", "f"):
        key = ProducerKey(topic, 0, 7)
        lose(key, Arrival(*key), 0, Range(0, 2), [0], b"")
    assert state.has_topic("any") and None in requested  # more topics than are remembered
    requested.clear()
    state.topics.tell_all()
    assert requested.count(None) == 1 and set(requested) == {*state.topics.names, None}
    now[0] += 8 * 86_400.0
    state.expire()
    state.expire()
    assert not (state or state.topics or any(map(state.has_topic, "abcdef")))


def test_the_topic_of_a_record_is_known_before_the_event_loop_processes_it(tmp_path):
    file, properties = tmp_path / "f", {"upstream.bootstrap.servers": "127.0.0.1:1"}
    store = ClusterStore(
        read_configuration(file, properties),
        {"bootstrap.servers": "127.0.0.1:1"},
        Presence("g"),
    )
    seen = []

    def ahead(topic):
        seen.append(topic.encode().decode())  # as the native extension takes it

    store.ahead = ahead
    key = ProducerKey("t", 0, 7).encode()
    for record in (
        LogRecord(1, b"gateway:other", b"{}"),
        LogRecord(2, key, None),
        LogRecord(3, b"nothing", b"v"),
        LogRecord(4, b"[1]", b"v"),
        LogRecord(5, rb'["\ud800", 0, 7, ""]', b"v"),
        LogRecord(6, b'["t", 1e999, 7, ""]', b"v"),
        LogRecord(7, b"[" * 100_000, b"v"),
        LogRecord(8, key, b"v"),
    ):
        store._read_ahead(record)
    assert seen == ["t"]
