"""librdkafka alone at brokers, with cut connections and moved leaders: is a record stored twice?

    python -m tests.chaos.control SEED [SECONDS]

Faults found here are not caused by a gateway. Prints the producers that stored a record twice, and the
sequence numbers that brokers refused.
"""

import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from penstock.kafka.local import LocalKafka
from tests.chaos.account import account
from tests.chaos.leaders import move_leaders
from tests.chaos.producers import HANGS_AFTER_S, HERE, Producer, Running
from tests.chaos.world import Way
from tests.conftest import create_topic
from tests.faults import Proxy
from tests.gateways import wait_until
from tests.integration.reading import read_topic

SECONDS: Final = 200.0
PRODUCERS, PARTITIONS, RATE, BROKERS = 12, 6, 120, 3
REFUSED: Final = "OutOfOrderSequenceException"


def disturb(
    cluster: LocalKafka, proxies: list[Proxy], topics: list[str], chance: random.Random
) -> None:
    """Cut connections to all brokers or to a single broker; sometimes move all leaders before."""
    time.sleep(chance.uniform(0.2, 1.5))
    if chance.random() < 0.4:
        move_leaders(cluster.bootstrap_servers, topics, chance)
        time.sleep(chance.uniform(0, 0.5))
    for proxy in proxies if chance.random() < 0.4 else chance.sample(proxies, 1):
        proxy.drop()


def main(seed: int, seconds: float) -> None:
    """Run the control, and print the faults."""
    chance = random.Random(seed)
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        cluster = ends.enter_context(LocalKafka(
            nodes=BROKERS, folder=folder / "kafka",
            properties={"default.replication.factor": "3", "min.insync.replicas": "2"},
        ))  # fmt: skip
        proxies = [ends.enter_context(Proxy(f"{node.host}:{node.port}")) for node in cluster.nodes]
        for proxy in proxies:
            proxy.stand_with(tuple(proxies))
        bootstrap = "+".join(proxy.address for proxy in proxies)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        producers = [
            Producer("librdkafka", "idempotent", Way.DIRECT, f"c{number}")
            for number in range(PRODUCERS)
        ]
        for producer in producers:
            create_topic(admin, producer.topic, PARTITIONS)
        command = [sys.executable, str(HERE / "many_producers.py")]
        running = Running(command, producers, {Way.DIRECT: bootstrap}, folder / "log", RATE)
        ends.callback(running.kill)
        wait_until(lambda: running.has_begun, HANGS_AFTER_S, what="all producers to begin")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            disturb(cluster, proxies, [producer.topic for producer in producers], chance)
        running.finish()
        for producer, deliveries in running.deliveries().items():
            found = read_topic(
                cluster.bootstrap_servers, producer.topic, isolation="read_uncommitted"
            )
            result = account(deliveries, [(key, value) for _, key, value, _ in found], drops=False)
            print(f"{producer.topic}: {result}")
        for node in cluster.nodes:
            lines = node.log.read_text(errors="replace").splitlines()
            print(*(line for line in lines if REFUSED in line), sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS)
