"""Two hundred producers at twenty partitions, while gateways and connections stop and start."""

import random
import sys
import time

import pytest
from confluent_kafka.admin import AdminClient

from tests.chaos.account import DeliveryReports, account
from tests.chaos.disturbances import (
    PREFIX,
    connections,
    kill_gateway,
    leaders,
    state_leader,
    state_writes,
)
from tests.chaos.producers import HANGS_AFTER_S, HERE, Producer, Running
from tests.chaos.world import Way
from tests.conftest import create_topic
from tests.gateways import wait_until
from tests.integration.reading import read_topic

PRODUCERS, PARTITIONS, RATE = 200, 20, 5
LONGEST_S = 1800


@pytest.mark.chaos
@pytest.mark.timeout(LONGEST_S)
def test_two_hundred_producers(world, pytestconfig, tmp_path, show_line):
    chance = random.Random(pytestconfig.getoption("chaos_seed"))
    world.wait_until_whole()
    topic = f"{PREFIX}-crowd-{int(time.time())}"
    create_topic(
        AdminClient({"bootstrap.servers": world.cluster.bootstrap_servers}), topic, PARTITIONS
    )
    producers = [Producer("librdkafka", "crowd", Way.GATEWAYS, topic) for _ in range(PRODUCERS)]
    command = [sys.executable, str(HERE / "many_producers.py")]
    crowd = Running(command, producers, world.bootstraps, tmp_path / "crowd.log", RATE)
    try:
        wait_until(lambda: crowd.has_begun, HANGS_AFTER_S, what="all producers to begin")
        happened = []
        for disturbance in (connections, leaders, state_writes, kill_gateway, state_leader):
            time.sleep(chance.uniform(1, 3))
            happened.append(disturbance(world, [topic], chance))
        crowd.finish()
        each = crowd.deliveries_in_order()
    finally:
        crowd.kill()
    world.wait_until_whole()
    deliveries = DeliveryReports(
        acknowledged=[value for producer in each for value in producer.acknowledged],
        failed=[text for producer in each for text in producer.failed],
        fatal=[text for producer in each for text in producer.fatal],
        ended=all(producer.ended for producer in each),
    )
    found = read_topic(
        world.cluster.bootstrap_servers, topic, isolation="read_uncommitted",
        settings={"fetch.wait.max.ms": "20"},
    )  # fmt: skip
    result = account(deliveries, [(key, value) for _, key, value, _ in found], drops=True)
    show_line(f"{PRODUCERS} producers at {PARTITIONS} partitions: {result}")
    assert not any(line.startswith("0 state writes") for line in happened), happened
    assert not result.is_broken, f"{result} {deliveries.fatal[:5]} {deliveries.failed[:5]}"
