"""Three brokers, gateways behind a load balancer, and proxies without a gateway for the control."""

import json
import random
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from urllib.request import urlopen

from confluent_kafka.admin import AdminClient

from penstock.kafka.local import LocalKafka, free_ports
from tests.chaos import modes
from tests.faults import Proxy
from tests.gateways import RunningGateway, wait_until, write_configuration
from tests.relay import Relay

BROKERS = 3
HOSTS = ("127.0.0.1", "127.0.0.3")
ALONE = "127.0.0.4"
"""The host of a gateway that no other shares the producers of: each of them is known to it alone."""
STATE_TOPIC = "__penstock_producer_state"
INTERCEPTORS = "produce.request.interceptors=policies.AThird"
POLICIES = """
import random
import time
import zlib
from penstock.policy import *

class AThird(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return ".*(?<!-quarantine)(?<!-mark)(?<!-enforce)$"
    def process_record(self, key, value, topic, partition, headers):
        number = zlib.crc32(value)
        if number % 211 == 0: time.sleep(0.2)
        if random.random() < 1 / 4000: time.sleep(1.2)
        if number % 3 == 0 or int(value) // 30 % 7 == 3:
            raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key, value)
"""


class Way(Enum):
    """The way of a producer's records to the brokers."""

    GATEWAYS = "through Penstock"
    ALONE = "through one gateway"
    DIRECT = "control"


class World:
    """All parts of a round except the producers."""

    def __init__(self, folder: Path, gateways: int, chance: random.Random) -> None:
        self._folder = folder
        self._hosts = HOSTS[:gateways]
        self._chance = chance
        self._ends = ExitStack()
        self.gateways: list[RunningGateway] = []
        self.upstream: list[Proxy] = []
        self.interceptors_were_off = False

    def __enter__(self):
        with self._ends as ends:
            self._start(ends)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_):
        self._ends.close()

    def _start(self, ends: ExitStack) -> None:
        self.cluster = ends.enter_context(LocalKafka(
            nodes=BROKERS, folder=self._folder / "kafka",
            properties={"default.replication.factor": "3", "min.insync.replicas": "2",
                        "auto.create.topics.enable": "false",
                        "controlled.shutdown.retry.backoff.ms": "500"},
        ))  # fmt: skip
        self._proxies, self.upstream = (self._proxies_to_brokers(ends) for _ in range(2))
        ports = free_ports(1 + BROKERS)
        self._metrics_port = free_ports()[0]
        for host in (*self._hosts, ALONE):
            self.gateways.append(self._gateway(host, ports))
            ends.callback(end_gateway, self.gateways[-1])
        self.alone = self.gateways[-1]
        self._balancer = ends.enter_context(Relay(
            range(ports[0], ports[-1] + 1), record=False, hosts=self._hosts, chance=self._chance
        ))  # fmt: skip
        self.bootstraps = {
            Way.GATEWAYS: f"127.0.0.2:{ports[0]}",
            Way.ALONE: f"{ALONE}:{ports[0]}",
            Way.DIRECT: "+".join(proxy.address for proxy in self._proxies),
        }

    def _proxies_to_brokers(self, ends: ExitStack) -> list[Proxy]:
        proxies = [
            ends.enter_context(Proxy(f"{node.host}:{node.port}")) for node in self.cluster.nodes
        ]
        for proxy in proxies:
            proxy.stand_with(tuple(proxies))
        return proxies

    def _gateway(self, host: str, ports: Sequence[int]) -> RunningGateway:
        folder = self._folder / f"gateway-{host}"
        folder.mkdir()
        properties = {
            "listeners": f"PLAINTEXT://{host}:{ports[0]}",
            "advertised.host": ALONE if host == ALONE else "127.0.0.2",
            "broker.ports": f"{ports[1]}-{ports[-1]}",
            "metrics.listener": f"{host}:{self._metrics_port}",
            "policy.workers": 4,
            "produce.request.interceptors.state.topic": STATE_TOPIC,
            **modes.PROPERTIES,
        }
        upstream = ",".join(proxy.address for proxy in self.upstream)
        file = write_configuration(folder, upstream, ports[0], properties, POLICIES + modes.POLICY)
        with file.open("a") as lines:
            lines.write(f"{INTERCEPTORS}\n")
        return RunningGateway(file)

    def drop_connections(self, *, of_producers_through_penstock: bool = True) -> None:
        """Drop the connections of all producers, or only of the control."""
        if of_producers_through_penstock:
            self._balancer.drop()
        for proxy in self._proxies:
            proxy.drop()

    def switch_interceptors(self, *, on: bool) -> None:
        """Reload all gateways, with their interceptors or without."""
        self.interceptors_were_off = True
        for gateway in self.gateways:
            lines = gateway.file.read_text().splitlines()
            kept = [line for line in lines if line != INTERCEPTORS]
            text = "\n".join([*kept, *([INTERCEPTORS] if on else [])]) + "\n"
            changed = gateway.file.with_suffix(".new")
            changed.write_text(text)
            changed.replace(gateway.file)
            if gateway.process.poll() is None:
                gateway.process.send_signal(signal.SIGHUP)

    def wait_until_whole(self, timeout_s: float = 300.0) -> None:
        """Start all stopped processes, and wait until every replica is in sync."""
        for node in self.cluster.nodes:
            if node.pid is None:
                node.start()
        self.cluster.wait_ready(timeout_s)
        for gateway in self.gateways:
            if gateway.process.poll() is not None:
                gateway.restart()
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0})
        wait_until(lambda: _in_sync(admin), timeout_s, what="all replicas to be in sync")

    def leader_of(self, topic: str) -> int:
        """Return the broker that leads the only partition of a topic; -1 for none."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0})
        partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
        return partitions[0].leader if partitions else -1

    def has_topic(self, topic: str) -> bool:
        """Return whether a topic exists."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0})
        return topic in admin.list_topics(timeout=10).topics

    def write_logs(self, folder: Path) -> None:
        """Copy the logs of gateways and brokers, and the metrics of gateways."""
        for gateway, host in zip(self.gateways, (*self._hosts, ALONE), strict=True):
            name = gateway.file.parent.name
            lines = "".join(json.dumps(e) + "\n" for e in list(gateway.log))
            (folder / f"{name}.log").write_text(lines)
            with urlopen(f"http://{host}:{self._metrics_port}/metrics", timeout=60) as answer:
                (folder / f"{name}.metrics").write_bytes(answer.read())
        for node in self.cluster.nodes:
            (folder / f"broker-{node.node_id}.log").write_bytes(node.log.read_bytes())

    def forget_logs(self) -> None:
        """Clear the gateways' logs."""
        for gateway in self.gateways:
            gateway.log.clear()


def end_gateway(gateway: RunningGateway) -> None:
    """End a gateway that runs."""
    if gateway.process.poll() is None:
        gateway.stop()


def _in_sync(admin: AdminClient) -> bool:
    found = admin.list_topics(timeout=10)
    return len(found.brokers) == BROKERS and all(
        partition.leader >= 0 and len(partition.isrs) == len(partition.replicas)
        for topic in found.topics.values()
        for partition in topic.partitions.values()
    )
