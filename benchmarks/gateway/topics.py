"""Measures requests about topics: direct against through the gateway, `make bench-topics`.

Variants: direct; through a gateway without policies; with policies of topics and configs; and with
topic level keys among the configs. Each round sends the request to every variant once, interleaved;
medians are printed, as milliseconds and as ratios to direct. Bounded: about half a minute on two
cores.
"""

import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from rich.table import Table

from penstock.kafka.local import LocalKafka, free_ports

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.gateways import RunningGateway, write_configuration  # noqa: E402

POLICIES = """
from penstock.policy import *
class Create(CreateTopicPolicy):
    def validate(self, request): pass
class Alter(AlterConfigPolicy):
    def validate(self, request): pass
class Batch(RecordsPolicy):
    def validate(self, topic, partition, records): pass
"""
NONE: dict[str, str] = {}
JUDGED = {
    "create.topic.policy.class.name": "policies.Create",
    "alter.config.policy.class.name": "policies.Alter",
}
KEPT = {**JUDGED, "records.policy.class.names.allowed": "policies.*"}
OWN = {"records.policy.class.name": "policies.Batch", "records.policy.enabled": "true"}
ROUNDS = 60
say = Console(highlight=False).print


def create(admin: AdminClient, own: dict[str, str]) -> str:
    """Create a topic."""
    name = f"t-{uuid.uuid4().hex}"
    admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "5000", **own})])[
        name
    ].result(30)
    return name


def alter(admin: AdminClient, topic: str, own: dict[str, str], value: int) -> None:
    """Alter a topic's configs."""
    changed = {"retention.ms": str(value), **(own and {"records.policy.enabled": "true"})}
    entries = [
        ConfigEntry(key, text, incremental_operation=AlterConfigOpType.SET)
        for key, text in changed.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(30)


def timed(call, *arguments) -> tuple[float, object]:
    """Give the milliseconds that a call takes, and its result."""
    began = time.perf_counter()
    result = call(*arguments)
    return (time.perf_counter() - began) * 1000, result


def main() -> None:
    """Measure and print."""
    with LocalKafka() as kafka, tempfile.TemporaryDirectory() as temporary:
        running, variants = [], {"direct": (kafka.bootstrap_servers, NONE)}
        for name, properties, own in (
            ("no policy", NONE, NONE),
            ("two policies", JUDGED, NONE),
            ("two policies, topic level keys", KEPT, OWN),
        ):
            folder = Path(temporary) / name
            folder.mkdir()
            file = write_configuration(
                folder, kafka.bootstrap_servers, free_ports(4)[0], properties, POLICIES
            )
            running.append(RunningGateway(file))
            variants[name] = (running[-1].address, own)
        admins = {
            name: AdminClient({"bootstrap.servers": address})
            for name, (address, _) in variants.items()
        }
        spent: dict[str, dict[str, list[float]]] = {
            what: {name: [] for name in variants} for what in ("create", "alter")
        }
        for number in range(ROUNDS):
            for name, (_, own) in variants.items():
                took, topic = timed(create, admins[name], own)
                spent["create"][name].append(took)
                took, _ = timed(alter, admins[name], topic, own, 6000 + number)
                spent["alter"][name].append(took)
        for gateway in running:
            gateway.stop()
    table = Table("request", "variant", "ms", "to direct")
    for what, by_variant in spent.items():
        medians = {name: statistics.median(all_of) for name, all_of in by_variant.items()}
        for name, median in medians.items():
            table.add_row(what, name, f"{median:.1f}", f"{median / medians['direct']:.1f}")
    say(table)


if __name__ == "__main__":
    main()
