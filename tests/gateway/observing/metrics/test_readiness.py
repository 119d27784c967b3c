"""The conditions that a gateway lacks to be ready, as text."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from penstock.configuration import Address
from penstock.gateway.observing.metrics.broker_checks import Reached
from penstock.gateway.observing.metrics.readiness import inspect
from penstock.kafka.cluster.state_writes import StateWrites

HERE = Address("kafka", 9092)
UP, DOWN = Reached(HERE, "", 0.0), Reached(HERE, "Connection refused", 0.0)
JUDGES = SimpleNamespace(judging=["a worker"])


def without_workers(why):
    return SimpleNamespace(judging=[], pool=SimpleNamespace(last_error=why))


def failing(where):
    writes = StateWrites(where)
    for _ in range(2):
        writes.ended("no leader")
    return writes


@dataclass
class Gateway:
    schedules: list = field(default_factory=lambda: [JUDGES])
    is_loaded: bool = True
    settings_are_missing: bool = False
    state_writes: dict = field(default_factory=dict)
    is_listening: bool = True
    brokers_out_of_reach: tuple = ()
    is_ending: bool = False


def test_a_gateway_that_lacks_nothing_is_ready():
    found = inspect(Gateway(), {0: UP})
    assert not found.missing
    assert found.text == "ready\n"


@pytest.mark.parametrize(
    ("gateway", "brokers", "message"),
    [
        (Gateway(is_loaded=False), {0: UP}, "policies: they have not been loaded yet"),
        (Gateway([JUDGES, without_workers("it cannot be loaded in a new process")]), {0: UP},
         "policies: no worker has them: it cannot be loaded in a new process"),
        (Gateway([without_workers("")]), {0: UP}, "policies: no worker has them: one is starting"),
        (Gateway(), {}, "brokers: none has been reached yet"),
        (Gateway(), {3: DOWN}, "broker 3 at kafka:9092 cannot be reached: Connection refused"),
        (Gateway(brokers_out_of_reach=(3,)), {3: UP},
         "broker 3 at kafka:9092 cannot be reached: its node id has no port (broker.ports, "),
        (Gateway(settings_are_missing=True), {0: UP}, "settings: those of topics"),
        (Gateway(is_listening=False), {0: UP}, "listeners: no client is accepted yet"),
        (Gateway(is_ending=True), {0: UP}, "the gateway is ending"),
    ],
)  # fmt: skip
def test_missing_conditions_are_reported(gateway, brokers, message):
    found = inspect(gateway, brokers)
    assert len(found.missing) == 1
    assert message in found.missing[0]
    assert found.text.startswith("not ready\n")
    assert message in found.text


def test_a_gateway_is_ready_while_one_of_several_brokers_is_unavailable():
    found = inspect(Gateway(), {0: UP, 1: DOWN})
    assert not found.missing
    assert found.text == "ready\nbroker 1 at kafka:9092 cannot be reached: Connection refused\n"


def test_a_gateway_is_ready_while_clients_can_reach_a_broker():
    found = inspect(Gateway(brokers_out_of_reach=(1,)), {0: UP, 1: UP})
    assert not found.missing
    assert found.text.startswith("ready\nbroker 1 at kafka:9092 cannot be reached: its node id")


def test_gateways_stay_ready_if_none_of_them_can_write_the_state_topic():
    """Otherwise a load balancer would remove all, and with them topics that need no state."""
    writes = {"producers": failing("a-topic")}
    found = inspect(Gateway(state_writes=writes), {0: UP})
    assert found.text == "ready\nstate cannot be written to a-topic: no leader\n"


def test_a_gateway_is_not_ready_while_all_brokers_are_unavailable():
    found = inspect(Gateway(), {0: DOWN, 1: DOWN})
    assert len(found.missing) == 2


def test_all_missing_conditions_are_reported_at_once():
    gateway = Gateway(is_loaded=False, settings_are_missing=True, is_listening=False)
    assert len(inspect(gateway, {}).missing) == 3
