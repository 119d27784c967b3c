"""What happens to brokers, gateways and connections in a round."""

import random
import time
from collections.abc import Callable, Sequence

from tests.chaos.leaders import move_leaders
from tests.chaos.world import World

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


MILD: Sequence[Disturbance] = (stop_broker, stop_gateway, kill_gateway, connections)


def chosen(chance: random.Random, *, mild: bool) -> list[Disturbance]:
    """Choose what happens in a round, and in which order."""
    if mild:
        disturbances = [leaders, *chance.sample(MILD, 2)]
        return chance.sample(disturbances, len(disturbances))
    broker = chance.choice((stop_broker, kill_broker))
    gateway = chance.choice((stop_gateway, kill_gateway))
    disturbances = [broker, gateway, leaders, leaders, connections]
    return chance.sample(disturbances, len(disturbances))
