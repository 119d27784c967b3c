"""The parts of a gateway that connections and requests use."""

import asyncio
from types import SimpleNamespace

import pytest

from penstock.configuration import read_configuration
from penstock.engine.workers.gathered_writes import GatheredWrites
from penstock.gateway.parts import GatewayParts
from penstock.gateway.tasks import Tasks
from tests.kafka.client.settings import FILE


class World:
    """What the parts are put together from."""

    def __init__(self, **keys):
        self.events = []
        properties = {"upstream.bootstrap.servers": "kafka:9092", **keys}
        self.policies = SimpleNamespace(
            retain=lambda topic, classes: self.events.append(f"retain {list(classes)} of {topic}")
        )
        cluster = SimpleNamespace(
            cleanup_policies=None, disallow=lambda name: self.events.append(f"disallow {name}")
        )
        self.state = SimpleNamespace(
            active=SimpleNamespace(policies=self.policies),
            opened_configs=SimpleNamespace(current="configs"),
            rollout=SimpleNamespace(producers="producers", shared=None),
            connections=set(),
            cluster=cluster,
        )
        self.upstream = SimpleNamespace(addresses=None, cluster_id="", connect=self._connect)
        self.tasks = Tasks()
        self.parts = GatewayParts(
            read_configuration(FILE, properties),
            self.upstream,
            self.state,
            SimpleNamespace(max_bytes=1),
            GatheredWrites(),
            None,
            SimpleNamespace(report=self.events.append),
            self.tasks,
            lambda: self.events.append("open decisions"),
        )
        self.parts.framework_losses.forget = lambda name: self.events.append(f"forget {name}")

    async def _connect(self, node, protocol):
        return f"{protocol} to {node}"


@pytest.fixture
def world():
    return World()


def test_requests_see_what_is_in_force_now(world):
    parts, state = world.parts, world.state
    assert (parts.policies, parts.topic_configs) == (world.policies, "configs")
    assert (parts.producers, parts.shared_producers, parts.keeps_decisions) == (
        "producers",
        None,
        False,
    )

    state.active.policies, state.opened_configs.current = "new policies", "new configs"
    state.rollout.producers, state.rollout.shared = "new producers", "topic"
    assert (parts.policies, parts.topic_configs) == ("new policies", "new configs")
    assert (parts.producers, parts.shared_producers, parts.keeps_decisions) == (
        "new producers",
        "topic",
        True,
    )


async def test_brokers_are_those_that_are_known_now(world):
    world.upstream.addresses, world.upstream.cluster_id = "addresses", "cluster"
    assert (world.parts.addresses, world.parts.cluster_id) == ("addresses", "cluster")
    assert await world.parts.connect_upstream(3, "protocol") == "protocol to 3"


def test_a_deleted_topic_is_forgotten_with_its_policy_instances(world):
    world.parts.lane = SimpleNamespace(forget=lambda name: world.events.append(f"lane: {name}"))
    world.parts.topic_changed("orders")
    world.parts.topic_deleted("payments")

    assert world.events == [
        "forget orders",
        "lane: payments",
        "disallow payments",
        "forget payments",
        "retain [] of payments",
    ]


def test_refusals_and_decisions_are_passed_on(world):
    world.parts.refused("a refusal")
    world.parts.open_decisions()

    assert world.events == ["a refusal", "open decisions"]


async def test_work_runs_on_the_event_loop_of_the_start(world):
    async def work():
        return 5

    world.parts.begin(asyncio.get_running_loop())
    assert await world.parts.run(work()) == 5
    assert world.parts.loop is world.tasks.loop is asyncio.get_running_loop()


@pytest.mark.parametrize(
    ("protocol", "requires_sasl"), [("PLAINTEXT", False), ("SASL_PLAINTEXT", True)]
)
def test_limits_are_those_of_the_file(protocol, requires_sasl):
    sasl = {
        "upstream.sasl.mechanism": "PLAIN",
        "upstream.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="u" password="p";'
        ),
    }
    properties = {
        "upstream.security.protocol": protocol,
        "socket.request.max.bytes": "5000",
        **(sasl if requires_sasl else {}),
    }
    parts = World(**properties).parts

    assert parts.request_max_bytes == 5000
    assert parts.requires_sasl == requires_sasl
