"""Three brokers, two gateways behind a load balancer that drops connections, a schema registry."""

import json
import random
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.kafka.local import LocalKafka, free_ports
from tests.gateways import RunningGateway, wait_until, write_configuration
from tests.policies.schema_policy.fake_registry import FakeRegistry
from tests.relay import Relay
from tests.soak.topic_names import MARKED, OBSERVED, QUARANTINED, SCHEMAS, TOPICS

BROKERS: Final = 3
HOSTS: Final = ("127.0.0.1", "127.0.0.3")
"""The gateway at the first host is never stopped: its resources are sampled throughout."""
PARTITIONS: Final = 3
SCHEMA_COUNT: Final = 300
MOST_PARTITIONS: Final = 12
LONGEST_RETENTION_MS: Final = 604_800_000
PROPERTIES: Final = {
    "advertised.host": "127.0.0.2",
    "policy.workers": 2,
    "record.validator.classes": "policies.Bad",
    "topics.*.records.policy.class.name": "policies.NotToday",
    "topics.*.records.policy.enabled": "true",
    "produce.request.interceptors": "policies.Changes",
    "record.validation.policy.class.name": "penstock.policies.SchemaPolicy",
    "schema.registry.timeout.ms": 1500,
    f"topics.{SCHEMAS}.confluent.value.schema.validation": "true",
    f"topics.{OBSERVED}.penstock.mode": "observe",
    f"topics.{QUARANTINED}.penstock.mode": "quarantine",
    f"topics.{MARKED}.penstock.mode": "mark",
    "create.topic.policy.class.name": "penstock.policies.TopicRules",
    "alter.config.policy.class.name": "penstock.policies.ConfigRules",
    "topic.rules.partitions.max": MOST_PARTITIONS,
    "topic.rules.retention.ms.max": LONGEST_RETENTION_MS,
}
_POLICIES: Final = (Path(__file__).parent / "policies.py").read_text()


class Gateway:
    """A gateway, and a lock for faults.

    Attributes:
        name: Its name in the output.
        lasts: Whether it must not be stopped.
    """

    def __init__(self, name: str, running: RunningGateway, *, lasts: bool) -> None:
        self.name = name
        self.running = running
        self.lasts = lasts
        self.lock = threading.Lock()

    @property
    def ended_by_itself(self) -> bool:
        """Return whether it has ended although no fault is stopping or starting it."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            return self.running.process.poll() is not None
        finally:
            self.lock.release()

    def write(self, properties: dict[str, object], policies: str, upstream: str) -> None:
        """Write its configuration file and its policies; no process reads them yet."""
        write_configuration(self.running.file.parent, upstream, 0, properties, policies)


def policies(version: int, slow_s: float) -> str:
    """Return the text of the gateways' policies."""
    return _POLICIES.replace("VERSION = 0", f"VERSION = {version}").replace(
        "SLOW_S = 0.1", f"SLOW_S = {slow_s:.2f}"
    )


class Relays(Relay):
    """A load balancer, which may drop some connections and keep others."""

    def drop_some(self, chance: random.Random) -> None:
        """Drop a half of them."""
        share = chance.uniform(0.2, 0.8)
        self.call(
            lambda: [
                writer.transport.abort()
                for writer in list(self._writers)
                if chance.random() < share
            ]
        )


class Stage:
    """All parts of a soak except clients and faults; a context manager."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._chance = random.Random(f"{seed} balancer")
        self._ends = ExitStack()
        self.gateways: list[Gateway] = []

    def __enter__(self):
        with ExitStack() as ends:
            self._start(ends)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def _start(self, ends: ExitStack) -> None:
        self.registry = ends.enter_context(FakeRegistry())
        for number in range(1, SCHEMA_COUNT + 1):
            self.registry.register(f"{SCHEMAS}-value", _schema(number), "JSON")
        self.cluster = ends.enter_context(LocalKafka(
            nodes=BROKERS, folder=self._folder / "kafka",
            properties={"default.replication.factor": "3", "min.insync.replicas": "2",
                        "auto.create.topics.enable": "false",
                        "controlled.shutdown.retry.backoff.ms": "500"},
        ))  # fmt: skip
        self.admin = AdminClient({"bootstrap.servers": self.upstream, "log_level": 0})
        new = [NewTopic(name, PARTITIONS) for name in TOPICS]
        for made in self.admin.create_topics(new).values():
            made.result(60)
        self.wait_until_whole()
        ports = free_ports(1 + BROKERS)
        for host in HOSTS:
            self.gateways.append(self._gateway(host, ports))
            ends.callback(_end, self.gateways[-1])
        self.balancer = ends.enter_context(Relays(
            range(ports[0], ports[-1] + 1), record=False, hosts=HOSTS, chance=self._chance
        ))  # fmt: skip
        self.address = f"127.0.0.2:{ports[0]}"

    @property
    def upstream(self) -> str:
        """The brokers' own addresses."""
        return self.cluster.bootstrap_servers

    @property
    def lasting(self) -> Gateway:
        """Return the gateway that is never stopped."""
        return self.gateways[0]

    def properties(self, gateway_host: str, ports: Sequence[int]) -> dict[str, object]:
        """Return the properties of a gateway."""
        return {
            **PROPERTIES,
            "listeners": f"PLAINTEXT://{gateway_host}:{ports[0]}",
            "broker.ports": f"{ports[1]}-{ports[-1]}",
            "schema.registry.url": self.registry.url,
        }

    def _gateway(self, host: str, ports: Sequence[int]) -> Gateway:
        folder = self._folder / f"gateway-{host}"
        folder.mkdir()
        properties = self.properties(host, ports)
        file = write_configuration(folder, self.upstream, 0, properties, policies(0, 0.1))
        name = "the gateway that lasts" if host == HOSTS[0] else "the other gateway"
        return Gateway(name, RunningGateway(file), lasts=host == HOSTS[0])

    def wait_until_whole(self, timeout_s: float = 90.0) -> None:
        """Start all stopped processes, and wait until every replica is in sync."""
        for node in self.cluster.nodes:
            if node.pid is None:
                node.start()
        self.cluster.wait_ready(timeout_s)
        wait_until(self._is_in_sync, timeout_s, what="all replicas to be in sync")

    def _is_in_sync(self) -> bool:
        found = self.admin.list_topics(timeout=10)
        return len(found.brokers) == BROKERS and all(
            partition.leader >= 0 and len(partition.isrs) == len(partition.replicas)
            for topic in found.topics.values()
            for partition in topic.partitions.values()
        )

    def write_logs(self, folder: Path) -> None:
        """Copy the logs of gateways and brokers."""
        for gateway in self.gateways:
            running = gateway.running
            lines = "".join(json.dumps(event) + "\n" for event in list(running.log))
            (folder / f"{running.file.parent.name}.log").write_text(lines)
        for node in self.cluster.nodes:
            (folder / f"broker-{node.node_id}.log").write_bytes(node.log.read_bytes())


def _end(gateway: Gateway) -> None:
    if gateway.running.process.poll() is None:
        try:
            gateway.running.stop(30)
        except Exception:  # whatever it does not do in time, it ends
            gateway.running.kill()


def _schema(number: int) -> str:
    return json.dumps({
        "title": f"Record{number}", "type": "object", "required": ["record"],
        "properties": {"record": {"type": "string"}},
    })  # fmt: skip
