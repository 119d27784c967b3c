"""Direct against through the gateway, side by side in one run: `make bench`.

Variants: direct; through a relay in Rust that looks at nothing, for comparison; through the gateway
without a policy, with a trivial policy, with a JSON Schema check; without a policy and with this
check while Python forwards all (`PENSTOCK_NATIVE_LANE=0`); with three conditions (`Rules`)
about fields that this schema checks, with interceptors that do nothing, change one JSON field of
every record, drop a third of them; and those of them that have a method for it once more, judging a
batch at a time. The relay needs `rustc`.
Each round runs every variant once, interleaved, so that a machine that grows slower or faster
does so for all of them; medians over the rounds are printed. Figures: records a second (also as a
ratio to direct), CPU seconds of all the gateway's processes for a million records, and latency at a
fixed rate. Requests carry one batch, or six of 16 KB, as those of a busy Java producer with its
default `batch.size` do on a topic of six partitions. Bounded: about fifteen minutes on two cores;
`--quick` about two. `--other PYTHON` runs some variants also with another version of Penstock,
which is installed for this interpreter.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import trustme
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table

from penstock.kafka.local import LocalKafka, LocalNode, free_ports

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from tests.certificates import Files  # noqa: E402
from tests.conftest import create_topic  # noqa: E402
from tests.gateways import START, RunningGateway, write_configuration  # noqa: E402
from tests.raw import RawClient, produce_request, produced, request_frame  # noqa: E402

VARIANTS = (
    "direct",
    "bare relay",
    "no policy",
    "no policy, in Python",
    "trivial policy",
    "JSON Schema",
    "JSON Schema, in Python",
    "three conditions",
    "no-op interceptor",
    "map one field",
    "drop a third",
    "trivial policy, by batch",
    "no-op interceptor, by batch",
    "map one field, by batch",
    "drop a third, by batch",
)
MODES = ("observe", "mark", "quarantine", "quarantine, idempotent")
"""Modes of the JSON Schema; in the last, producers are idempotent."""
COMPARED = ("no policy", "trivial policy", "JSON Schema", "map one field")
"""Variants that another version runs, too."""
OTHER = ", other version"
SCHEMA = HERE / "order.schema.json"
CONDITIONS = {
    "policies": "conditions",
    "policies.conditions.type": "penstock.policies.Rules",
    "policies.conditions.rules.customer": "value.customer >= 1",
    "policies.conditions.rules.currency": 'value.currency in ["EUR", "USD", "GBP"]',
    "policies.conditions.rules.amount": "value.amount > 0",
    "topics.bench-*.penstock.policies": "conditions",
}


def order(number: int, size: int) -> bytes:
    """A valid order of about `size` bytes."""
    document = {
        "id": f"ord-{number % 1_000_000:06d}",
        "customer": 1 + number % 900,
        "currency": "EUR",
        "amount": 12.5,
        "note": "",
    }
    missing = size - len(compact(document))
    document["note"] = (uuid.UUID(int=number * 2654435761 % 2**128).hex * 64)[: max(0, missing)]
    return compact(document).encode()


def compact(document: dict[str, object]) -> str:
    """Write JSON as most producers do, without spaces."""
    return json.dumps(document, separators=(",", ":"))


def batch(size: int, codec: int, batch_bytes: int) -> tuple[bytes, int]:
    """A record batch of about `batch_bytes` before compression, and how many records it has."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 10**9)
    count = max(1, batch_bytes // (size + 15))
    for number in range(count):
        builder.append(
            number, 1_700_000_000_000 + number, b"%06d" % number, order(number, size), []
        )
    return bytes(builder.build()), count


class RelayedKafka(LocalKafka):
    """A broker with a second listener, whose clients it sends to the relay, and one with TLS.

    Attributes:
        relayed: The addresses of this listener and of the relay.
        secured: The address of the listener with TLS.
        files: Its certificates.
    """

    def __init__(self) -> None:
        super().__init__()
        *self.relayed, self.secured = [f"127.0.0.1:{port}" for port in free_ports(3)]
        self._folder = tempfile.TemporaryDirectory()
        self.files = Files(Path(self._folder.name))

    def _settings(
        self, node: LocalNode, controller: int, voters: str, home: Path
    ) -> dict[str, str]:
        settings = super()._settings(node, controller, voters, home)
        listener, relay = self.relayed
        protocols = settings["listener.security.protocol.map"]
        more = f"RELAYED://{listener},SECURED://{self.secured}"
        return {
            **settings,
            "listeners": f"{settings['listeners']},{more}",
            "advertised.listeners": (
                f"PLAINTEXT://127.0.0.1:{node.port},RELAYED://{relay},SECURED://{self.secured}"
            ),
            "listener.security.protocol.map": f"{protocols},RELAYED:PLAINTEXT,SECURED:SSL",
            "listener.name.secured.ssl.keystore.type": "PEM",
            "listener.name.secured.ssl.keystore.location": str(self.files.key("broker.pem")),
        }


class Relay:
    """A running `relay.rs`."""

    def __init__(self, kafka: RelayedKafka, folder: Path) -> None:
        program = folder / "relay"
        subprocess.run(["rustc", "-O", "-o", program, HERE / "relay.rs"], check=True)
        self.process = subprocess.Popen(
            [program, *kafka.relayed], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.address = f"127.0.0.1:{self.process.stdout.readline().split()[1]}"
        self.pid = self.process.pid

    def workers(self) -> list[int]:
        """It has none."""
        return []

    def broker_address(self) -> str:
        """Where it listens."""
        return self.address

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


def cpu_s(running: RunningGateway | Relay) -> float:
    """CPU seconds of a gateway and its workers so far."""
    return sum(map(process_cpu_s, (running.pid, *running.workers())))


def process_cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, to the nanosecond: /proc counts ticks of 10 ms."""
    return time.clock_gettime(~pid << 3 | 2)  # what clock_getcpuclockid() of Linux returns


def load(address: str, frame: Path, count: int, *, rate: float = 0) -> dict[str, float]:
    """Run a load in a separate process."""
    done = subprocess.run(
        [sys.executable, str(HERE / "load.py"), address, str(frame), str(count), "5", str(rate)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{address}: {done.stderr}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def started(file: Path, python: Path | None) -> RunningGateway:
    """Start a gateway, of the version that is installed for an interpreter (None: this)."""
    return RunningGateway(file, [str(python or sys.executable), "-c", START])


class Bench:
    """A Kafka and a gateway for each variant.

    Attributes:
        variants: The names of what is compared.
    """

    def __init__(
        self,
        kafka: RelayedKafka,
        folder: Path,
        variants: Sequence[str] = VARIANTS,
        other: Path | None = None,
    ) -> None:
        """Start the gateways; `other` is the Python interpreter of another version."""
        self._other = other
        compared = [variant + OTHER for variant in variants if other and variant in COMPARED]
        self.variants = [*variants, *compared]
        self._kafka = kafka
        self._folder = folder
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        common = {"json.schema.folder": SCHEMA.parent, "policy.workers": 1}
        policies = (HERE / "policies.py").read_text()
        judged = {"topics.bench-*.record.validation.policy": SCHEMA.name}
        key = "record.validation.policy.class.name"
        interceptors = {
            name: {**common, "produce.request.interceptors": f"policies.{cls}"}
            for name, cls in (
                ("no-op interceptor", "NoOp"),
                ("map one field", "MapField"),
                ("drop a third", "DropThird"),
                ("no-op interceptor, by batch", "NoOpBatch"),
                ("map one field, by batch", "MapFieldBatch"),
                ("drop a third, by batch", "DropThirdBatch"),
            )
        }
        properties: dict[str, dict[str, object]] = {
            "no policy": common,
            "no policy, counted": {**common, "metrics.listener": ":0"},
            "no policy, in Python": common,
            "no policy, TLS": common,
            "no policy, TLS, in Python": common,
            "no policy, TLS on both sides": common,
            "no policy, TLS on both sides, in Python": common,
            "judged elsewhere": {
                **common,
                "topics.elsewhere.record.validation.policy": SCHEMA.name,
                key: "penstock.policies.JsonSchema",
            },
            "trivial policy": {**common, **judged, key: "policies.Trivial"},
            "trivial policy, by batch": {**common, **judged, key: "policies.TrivialBatch"},
            "JSON Schema": {**common, **judged, key: "penstock.policies.JsonSchema"},
            "JSON Schema, in Python": {**common, **judged, key: "penstock.policies.JsonSchema"},
            **{
                f"JSON Schema, {mode}": {
                    **common,
                    **judged,
                    key: "penstock.policies.JsonSchema",
                    "penstock.mode": mode.removesuffix(", idempotent"),
                    "errors.deadletterqueue.topic.replication.factor": "1",
                }
                for mode in MODES
            },
            "three conditions": {**common, **CONDITIONS},
            **interceptors,
        }
        properties |= {name + OTHER: properties[name] for name in COMPARED}
        self.gateways: dict[str, RunningGateway | Relay] = {
            name: self._gateway(name.replace(", ", "-").replace(" ", "-"), of_gateway, policies)
            for name, of_gateway in properties.items()
            if name in self.variants
        }
        if "bare relay" in variants:
            self.gateways["bare relay"] = Relay(kafka, folder)

    def _gateway(self, name: str, properties: dict, policies: str) -> RunningGateway:
        folder = self._folder / name
        folder.mkdir()
        port = free_ports(3)[0]
        if "-TLS" in name:
            key = folder / "listener.pem"
            issued = trustme.CA().issue_cert("127.0.0.1", key_type=trustme.KeyType.RSA)
            issued.private_key_and_cert_chain_pem.write_to_path(key)
            tls = {"listeners": f"SSL://127.0.0.1:{port}", "ssl.keystore.location": key}
            properties = {**properties, **tls}
        upstream = self._kafka.bootstrap_servers
        if "-both-sides" in name:
            upstream = self._kafka.secured
            trust = {"upstream.ssl.truststore.location": self._kafka.files.trust}
            properties = {**properties, "upstream.security.protocol": "SSL", **trust}
        file = write_configuration(folder, upstream, port, properties, policies)
        environment = {"PENSTOCK_NATIVE_LANE": "0" if name.endswith("-in-Python") else ""}
        with mock.patch.dict(os.environ, environment):
            return started(file, self._other if name.endswith("-other-version") else None)

    def close(self) -> None:
        """End the gateways."""
        for running in self.gateways.values():
            running.stop()

    def address(self, variant: str) -> str:
        """Where a variant is reached."""
        if variant == "direct":
            return self._kafka.bootstrap_servers
        return self.gateways[variant].broker_address()

    def topic(self, partitions: int = 1) -> str:
        """A new topic."""
        name = f"bench-{uuid.uuid4().hex[:6]}"
        create_topic(self._admin, name, partitions, {"max.message.bytes": "20000000"})
        data, _ = batch(1, 0, 1)
        with RawClient(self._kafka.bootstrap_servers) as client:
            request = produce_request([(name, [(number, data) for number in range(partitions)])])
            while any(answer.error_code for answer in produced(client.call(request)).values()):
                time.sleep(0.02)  # the broker has not yet begun to lead them
        return name

    def delete(self, topic: str) -> None:
        """Give the disk back."""
        self._admin.delete_topics([topic])[topic].result(30)

    def measure(
        self, size: int, codec: str, batches: int, batch_bytes: int, records: int, rounds: int
    ) -> dict[str, dict[str, float]]:
        """Throughput and CPU of every variant, medians over the rounds."""
        data, count = batch(size, {"none": 0, "lz4": 3}[codec], batch_bytes)
        count *= batches
        requests = max(20, records // count)
        found: dict[str, dict[str, list[float]]] = {
            variant: {"rate": [], "cpu": []} for variant in self.variants
        }
        for round_number in range(rounds + 1):
            for variant in self.variants:
                topic = self.topic(batches)
                frame = self._folder / "frame"
                partitions = [(number, data) for number in range(batches)]
                request = produce_request([(topic, partitions)], version=9, acks=1)
                frame.write_bytes(request_frame(request, 7))
                running = self.gateways.get(variant)
                before = cpu_s(running) if running else 0.0
                seconds = load(self.address(variant), frame, requests)["seconds"]
                used = cpu_s(running) - before if running else 0.0
                self.delete(topic)
                if round_number:  # the first round warms up
                    found[variant]["rate"].append(requests * count / seconds)
                    found[variant]["cpu"].append(used / (requests * count) * 1e6)
        return {
            variant: {name: statistics.median(figures) for name, figures in both.items()}
            for variant, both in found.items()
        }

    def latency(self, rounds: int, requests: int) -> dict[str, tuple[float, float]]:
        """p50 and p99 in ms at 100 requests a second of 16 KB, 160 B records."""
        data, _ = batch(160, 0, 16_000)
        found: dict[str, list[tuple[float, float]]] = {variant: [] for variant in self.variants}
        for round_number in range(rounds + 1):
            for variant in self.variants:
                topic = self.topic()
                frame = self._folder / "frame"
                request = produce_request([(topic, [(0, data)])], version=9, acks=1)
                frame.write_bytes(request_frame(request, 7))
                result = load(self.address(variant), frame, requests, rate=100)
                self.delete(topic)
                if round_number:
                    found[variant].append((result["p50"], result["p99"]))
        return {
            variant: (
                statistics.median(p50 for p50, _ in figures),
                statistics.median(p99 for _, p99 in figures),
            )
            for variant, figures in found.items()
        }


def main() -> None:
    """Run everything and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer records and rounds")
    parser.add_argument(
        "--size", type=int, nargs="+", default=[160, 1024], help="bytes of a record's value"
    )
    parser.add_argument("--other", type=Path, help="a Python that has another version of Penstock")
    options = parser.parse_args()
    rounds, records = (1, 60_000) if options.quick else (3, 300_000)
    say = Console(width=110, highlight=False).print
    with RelayedKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        bench = Bench(kafka, Path(folder), other=options.other)
        try:
            table = Table(
                "records", "request", "variant", "records/s", "to direct", "CPU s per M", "to relay"
            )
            for batches, batch_bytes in ((1, 1_000_000), (6, 16_000), (1, 16_000)):
                for size in options.size:
                    for codec in ("none", "lz4"):
                        results = bench.measure(
                            size, codec, batches, batch_bytes, records * 160 // size, rounds
                        )
                        direct = results["direct"]["rate"]
                        relay = results["bare relay"]["cpu"]
                        for variant, figures in results.items():
                            table.add_row(
                                f"{size} B, {codec}",
                                f"{batches} x {batch_bytes // 1000} KB",
                                variant,
                                f"{figures['rate']:,.0f}",
                                f"{figures['rate'] / direct:.2f}",
                                f"{figures['cpu']:.2f}" if variant != "direct" else "",
                                f"{figures['cpu'] / relay:.1f}",
                            )
                        table.add_section()
            say(table)
            table = Table("at 100 requests/s of 16 KB", "p50 ms", "p99 ms", "p50 to direct")
            latencies = bench.latency(rounds, 200 if options.quick else 500)
            for variant, (p50, p99) in latencies.items():
                table.add_row(
                    variant, f"{p50:.2f}", f"{p99:.2f}", f"{p50 / latencies['direct'][0]:.2f}"
                )
            say(table)
        finally:
            bench.close()


if __name__ == "__main__":
    main()
