"""What follows when policies, topic configs, or the state of producers change."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.gateway import policy_state
from penstock.gateway.policy_state import PolicyState
from penstock.gateway.produce.producer_state.opening import OpenedProducers
from penstock.gateway.produce.producer_state.topics_with_state import TopicsWithState

CONFIGURATION = SimpleNamespace(upstream_properties={}, folder=Path())
LOADED = SimpleNamespace(
    policies=SimpleNamespace(plan="new plan"),
    digest="new digest",
    why_no_digest="",
    topic_keys={"key": "new"},
)


class Active:
    """The policies in force; records what is loaded and put in force."""

    def __init__(self, events):
        self._events = events
        self.policies = SimpleNamespace(plan="plan", retain=self._retain)

    def _retain(self, topic, classes):
        self._events.append(f"retain {sorted(classes)} of {topic}")

    async def load(self, configuration, *, topics_have_settings):
        self._events.append(f"load {configuration}, {topics_have_settings}")
        return LOADED

    def activate(self, loaded):
        assert loaded is LOADED
        self._events.append("activate")


class Lane:
    """Native threads that record what they follow and forget."""

    def __init__(self, events):
        self.follow = lambda: events.append("threads follow")
        self.follow_routes = lambda: events.append("threads follow routes")
        self.forget = lambda topic: events.append(f"threads forget {topic}")
        self.forget_numbered = lambda topic: events.append(f"threads forget numbered {topic}")
        self.forget_affected = lambda affects: events.append(f"threads forget those {affects}")


class Client:
    """A connection of a client."""

    def __init__(self, events):
        self.policies_changed = lambda: events.append("a connection follows")


@pytest.fixture
def events():
    return []


@pytest.fixture
def state(events, monkeypatch):
    monkeypatch.setattr(policy_state, "allows_topic_settings", lambda of: "settings" in of)
    monkeypatch.setattr(
        policy_state, "put_in_force", lambda keys: events.append(f"keys {keys['key']}")
    )
    state = PolicyState(CONFIGURATION, "gateway", Active(events), None, None)
    state.lane = Lane(events)
    return state


async def closed():
    """Do nothing: nothing is open."""


def stored(events, *, all_of=lambda _: []):
    """Topic configs that are kept in a topic."""
    return SimpleNamespace(
        are_stored=True,
        read_again=lambda: events.append("read settings again"),
        store=SimpleNamespace(index=SimpleNamespace(all_of=all_of)),
        close=closed,
    )


@pytest.mark.parametrize(
    ("file", "are_stored", "have_settings"),
    [("a file", False, False), ("a file with settings", False, True), ("a file", True, True)],
)
async def test_topics_may_have_settings_if_they_are_kept_or_are_to_be(
    state, events, file, are_stored, have_settings
):
    if are_stored:
        state.opened_configs.current = stored(events)
    assert await state.load(file) is LOADED
    assert events == [f"load {file}, {have_settings}"]


@pytest.mark.parametrize("has_lane", [True, False])
def test_other_policies_are_followed_by_threads_and_connections(state, events, has_lane):
    if not has_lane:
        state.lane = None
    state.opened_configs.current = stored(events)
    state.connections.add(Client(events))
    state.activate(LOADED)

    assert events == [
        "activate",
        "keys new",
        "read settings again",
        *(["threads follow"] if has_lane else []),
        "a connection follows",
    ]
    assert state.rollout.in_force == ("new plan", "new digest", "")


async def test_a_change_is_recorded_with_the_new_policies(state, events):
    async def change(new, *, were_open):
        events.append((new, were_open))

    state.rollout.change = change
    await state.record_change(LOADED, were_open=True)

    assert events == [(("new plan", "new digest", ""), True)]


async def test_threads_follow_when_the_settings_of_topics_were_read(state, events):
    async def open_configs(configuration):
        events.append(f"read settings of {configuration}")

    state.opened_configs.open = open_configs
    await state.open_topic_configs("a file")

    assert events == ["read settings of a file", "threads follow"]


def test_a_topic_whose_settings_change_keeps_only_the_instances_that_they_name(
    state, events, monkeypatch
):
    plans = [SimpleNamespace(records_policy=name) for name in ("a.P", "", "b.P")]
    monkeypatch.setattr(policy_state, "plans_of", lambda *arguments: plans)
    state.opened_configs.current = stored(events)
    state.rollout.topic_keys_changed = lambda topic, old: events.append(f"{topic} had {old}")
    state.opened_configs._on_change("orders", ["old"])

    assert events == [
        "threads forget orders",
        "orders had ['old']",
        "retain ['a.P', 'b.P'] of orders",
    ]


@pytest.mark.parametrize(
    ("topic", "are_stored", "forgotten"), [("", True, None), ("orders", False, "orders")]
)
def test_without_a_name_or_before_the_first_read_only_threads_forget(
    state, events, topic, are_stored, forgotten
):
    if are_stored:
        state.opened_configs.current = stored(events)
    state.opened_configs._on_change(topic, None)

    assert events == [f"threads forget {forgotten}"]


@pytest.mark.parametrize("has_lane", [True, False])
def test_threads_forget_the_topics_that_have_state_of_producers_and_no_others(
    state, events, has_lane
):
    if not has_lane:
        state.lane = None
    topics = TopicsWithState(lambda: 0.0)
    topics.add("restored")
    shared = SimpleNamespace(ahead=None)
    state.rollout._on_opened(OpenedProducers(SimpleNamespace(topics=topics), shared))
    topics.add("orders")
    shared.ahead("payments")
    topics.on_change("affected")

    expected = ["follow routes", "forget numbered restored", "forget numbered orders",
                "forget numbered payments", "forget those affected"]  # fmt: skip
    assert events == [f"threads {event}" for event in expected if has_lane]


def test_the_first_producers_have_threads_forget_as_well(state, events):
    state.rollout.producers.topics.on_topic("orders")
    assert events == ["threads forget numbered orders"]
    state.lane = None
    state.rollout.producers.topics.on_topic("orders")
    assert events == ["threads forget numbered orders"]


async def test_producers_are_opened_with_the_file_of_the_start(state, events):
    async def open_producers(*arguments, **options):
        events.append((arguments, options))

    state.rollout.open = open_producers
    await state.open_producers("cluster", loses_records=True)

    assert events == [
        ((CONFIGURATION, "cluster", "gateway"), {"loses_records": True, "is_start": False})
    ]
    assert not state.keeps_decisions
    state.rollout.shared = object()
    assert state.keeps_decisions


async def test_all_state_is_closed(state, events):
    class Shared:
        async def close(self):
            events.append("producers closed")

    async def close():
        events.append("settings closed")

    state.opened_configs.current = SimpleNamespace(close=close)
    state.rollout.shared = Shared()
    await state.close()

    assert events == ["settings closed", "producers closed"]
