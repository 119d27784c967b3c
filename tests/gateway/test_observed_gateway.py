"""A gateway as metrics, readiness and the console see it."""

from types import SimpleNamespace

import pytest

from penstock.gateway import observed_gateway
from penstock.gateway.observed_gateway import ObservedGateway
from penstock.gateway.observing.metrics.measured_gateway import ProducerFigures
from penstock.gateway.produce.producer_state.all_producers import Producers


class World:
    """The parts of a gateway that are observed, before it has started."""

    def __init__(self, file="a file"):
        producers = Producers(now=lambda: 0.0)
        self.state = SimpleNamespace(
            active=SimpleNamespace(
                loaded=None, policies=None, schedules=["s"], all_schedules=["s", "t"],
                worker_pids=[5],
            ),
            topic_configs=SimpleNamespace(are_stored=False, writes=None, position=0),
            rollout=SimpleNamespace(producers=producers, shared=None),
            connections=set(),
            cluster="cluster",
        )  # fmt: skip
        self.upstream = SimpleNamespace(out_of_reach=(3,))
        self.reports = SimpleNamespace(audit_trail=None)
        configuration = SimpleNamespace(max_connections=7, file=file)
        self.gateway = ObservedGateway(
            configuration, self.upstream, self.state, "budget", self.reports, lambda change: None
        )


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(observed_gateway, "allows_topic_settings", lambda of: "settings" in of.file)
    return World()


def test_before_the_start_nothing_is_there(world):
    gateway = world.gateway

    assert not (gateway.is_listening or gateway.is_loaded or gateway.is_ending)
    assert gateway.certificate_expires_at is gateway.audit_trail is None
    assert (gateway.state_writes, gateway.settings_position) == ({}, 0)
    assert gateway.plan_digests == {}
    assert gateway.producers == ProducerFigures(0, 0, 0, 0, 0)
    assert (gateway.connections_max, gateway.budget, gateway.cluster) == (7, "budget", "cluster")


def test_the_state_is_that_of_the_moment(world):
    gateway, state = world.gateway, world.state
    state.active.loaded, state.active.policies = object(), "policies"
    state.connections.add("a client")
    state.topic_configs = SimpleNamespace(are_stored=True, writes="settings written", position=9)
    state.rollout.shared = SimpleNamespace(writes="producers written")
    state.rollout.producers.translated = 4
    world.reports.audit_trail = "trail"
    gateway.listening = SimpleNamespace(certificate_expires_at=2e9)

    assert gateway.is_listening
    assert gateway.is_loaded
    assert gateway.certificate_expires_at == 2e9
    assert gateway.connections == {"a client"}
    assert gateway.policies == "policies"
    assert gateway.topic_configs is state.topic_configs
    assert gateway.settings_position == 9
    assert gateway.audit_trail == "trail"
    gateway.plan_watch.digests = {"orders": "0123456789ab"}
    assert gateway.plan_digests == {"orders": "0123456789ab"}
    assert gateway.producers.translated == 4
    assert gateway.state_writes == {
        "producers": "producers written",
        "settings": "settings written",
    }


def test_workers_and_brokers_are_those_of_its_parts(world):
    gateway = world.gateway

    assert (gateway.schedules, gateway.all_schedules) == (["s"], ["s", "t"])
    assert gateway.worker_pids == [5]
    assert gateway.brokers_out_of_reach == (3,)


@pytest.mark.parametrize(
    ("file", "are_stored", "are_missing"),
    [("a file", False, False), ("settings", False, True), ("settings", True, False)],
)
def test_settings_are_missing_until_they_are_read(world, file, are_stored, are_missing):
    world = World(file)
    world.state.topic_configs.are_stored = are_stored

    assert world.gateway.settings_are_missing == are_missing
