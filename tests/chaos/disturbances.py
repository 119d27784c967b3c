"""The disturbances of brokers, gateways and connections in a round."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Sequence

from tests.chaos.leaders import move_leaders
from tests.chaos.world import STATE_TOPIC, World
from tests.refusals import CLOSED, CLOSED_WHEN_STORED, Rule

PREFIX = "r"
IN_STATE = STATE_TOPIC.encode()
"""Part of the records that gateways write there: librdkafka names topics in Produce requests."""

Disturbance = Callable[[World, Sequence[str], random.Random], str]


def stop_broker(world: World, topics: Sequence[str], chance: random.Random) -> str:
    """Stop a broker, which moves its leaderships first, and start it."""
    node = chance.choice(world.cluster.nodes)
    node.stop()
    return _start_broker(world, node, chance, "stopped")


def kill_broker(world: World, topics: Sequence[str], chance: random.Random) -> str:
    """Kill a broker, and start it."""
    node = chance.choice(world.cluster.nodes)
    node.kill()
    return _start_broker(world, node, chance, "killed")


def _start_broker(world: World, node, chance: random.Random, how: str) -> str:
    time.sleep(chance.uniform(0.5, 3))
    node.start()
    world.cluster.wait_ready()
    return f"broker {node.node_id} {how}"


def stop_gateway(world: World, topics: Sequence[str], chance: random.Random) -> str:
    """Stop a gateway, and start it."""
    return _restart_gateway(world, chance, kill=False)


def kill_gateway(world: World, topics: Sequence[str], chance: random.Random) -> str:
    """Kill a gateway, and start it."""
    return _restart_gateway(world, chance, kill=True)


def _restart_gateway(world: World, chance: random.Random, *, kill: bool) -> str:
    gateway = chance.choice(world.gateways)
    world.drop_connections(of_producers_through_penstock=False)
    gateway.restart(kill=kill)
    return f"gateway {gateway.address} {'killed' if kill else 'stopped'}"


def leaders(world: World, topics: Sequence[str], chance: random.Random) -> str:
    """Move all leaders, and again."""
    for _ in range(2):
        move_leaders(world.cluster.bootstrap_servers, topics, chance)
        time.sleep(chance.uniform(0.3, 1.2))
    return "leaders moved"


def connections(world: World, topics: Sequence[str], chance: random.Random) -> str:
    """Drop all connections of producers, several times."""
    for _ in range(3):
        world.drop_connections()
        time.sleep(chance.uniform(0.2, 1.0))
    return "connections dropped"


def state_leader(world: World, topics: Sequence[str], chance: random.Random) -> str:
    """Kill the broker that leads the topic with the state of producers, or move its leader."""
    if chance.random() < 0.5:
        move_leaders(world.cluster.bootstrap_servers, [STATE_TOPIC], chance)
        return "leader of the state topic moved"
    leader = world.leader_of(STATE_TOPIC)
    node = next((broker for broker in world.cluster.nodes if broker.node_id == leader), None)
    if node is None:
        return "the state topic has no leader"
    node.kill()
    return f"leader of the state topic: {_start_broker(world, node, chance, 'killed')}"


STATE_REFUSALS = (
    Rule(45),
    Rule(7),
    Rule(7, stored=True),
    Rule(19),
    Rule(47),
    CLOSED,
    CLOSED_WHEN_STORED,
)


def state_writes(world: World, topics: Sequence[str], chance: random.Random) -> str:
    """Refuse the writes of gateways to the topic with the state of producers."""
    met = 0
    rules = chance.sample(STATE_REFUSALS, 4)
    for rule in rules:
        refusals = [proxy.refuse(IN_STATE, rule) for proxy in world.upstream]
        for refusal in refusals:
            refusal.open()
        time.sleep(chance.uniform(0.5, 1.5))
        met += sum(refusal.has_arrived for refusal in refusals)
    for proxy in world.upstream:
        proxy.forget()
    return f"{met} state writes refused: {', '.join(map(str, rules))}"


def reloads(world: World, topics: Sequence[str], chance: random.Random) -> str:
    """Switch the interceptors off and on again."""
    for _ in range(2):
        world.switch_interceptors(on=False)
        time.sleep(chance.uniform(0.5, 2))
        world.switch_interceptors(on=True)
        time.sleep(chance.uniform(0.5, 2))
    return "interceptors switched off and on"


def workers(world: World, topics: Sequence[str], chance: random.Random) -> str:
    """Kill all workers of a gateway."""
    gateway = chance.choice(world.gateways)
    killed = gateway.workers()
    for pid in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return f"{len(killed)} workers of {gateway.address} killed"


MILD: Sequence[Disturbance] = (stop_broker, stop_gateway, kill_gateway, connections)


SPECIAL: Sequence[Disturbance] = (state_leader, state_writes, reloads, workers)
"""Each round has two of these disturbances, chosen by its seed."""


def chosen(chance: random.Random, *, mild: bool) -> list[Disturbance]:
    """Choose the disturbances of a round, and their order."""
    if mild:
        disturbances = [leaders, *chance.sample(MILD, 2)]
        return chance.sample(disturbances, len(disturbances))
    broker = chance.choice((stop_broker, kill_broker))
    gateway = chance.choice((stop_gateway, kill_gateway))
    disturbances = [broker, gateway, leaders, leaders, connections]
    all_of_them = chance.sample(disturbances, len(disturbances))
    for disturbance in chance.sample(SPECIAL, 2):
        all_of_them.insert(chance.randrange(len(all_of_them) + 1), disturbance)
    return all_of_them
