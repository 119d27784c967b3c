"""What it costs to keep the state of producers: `make bench-state`.

One idempotent producer, one batch of ten records at a time, directly, through a gateway whose
interceptor drops nothing of it, and through one that drops one record of each. Interleaved; medians
and 99th percentiles in milliseconds.

Then the CPU for a small request to a topic whose records cannot be lost, in a cluster that has seen
gateways with `quarantine` for others: after a second start, after a reload, and beside a gateway
that does either; interleaved, as the median ratio to a gateway without that history. About five
minutes; `--history` only this part.
"""

import argparse
import signal
import statistics
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from pathlib import Path

from bench import SCHEMA, cpu_s
from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table
from small_requests import Load, send_elsewhere

from penstock.kafka.local import LocalKafka, free_ports

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.conftest import create_topic  # noqa: E402
from tests.gateways import RunningGateway, write_configuration  # noqa: E402
from tests.kafka.records.encoding import encode_batch, values  # noqa: E402
from tests.raw import RawClient, produce_request, produced  # noqa: E402

POLICIES = """
from penstock.policy import *
class NoDrop(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "."
    def process_record(self, key, value, topic, partition, headers):
        if value.startswith(b"drop"): raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value)
"""
BATCHES, RECORDS, ROUNDS = 300, 10, 3
HISTORY_ROUNDS = 7
LOAD, SECONDS = Load(1, 1500, 1), 4.0
JUDGED = {
    "record.validation.policy.class.name": "penstock.policies.JsonSchema",
    "json.schema.folder": SCHEMA.parent,
    "topics.*.record.validation.policy": SCHEMA.name,
    "topics.q-*.penstock.mode": "quarantine",
    "policy.workers": 1,
}
"""Only topics that begin with q- may lose records."""


class Variant:
    """One producer, and how long each of its batches took."""

    def __init__(self, name: str, address: str, topic: str, first: bytes) -> None:
        self.name = name
        self._client = RawClient(address)
        self._topic = topic
        self._values = [first, *(b"keep-%d" % i for i in range(1, RECORDS))]
        self._producer_id = uuid.uuid4().int % 2**40
        self._next = 0
        self.took_ms: list[float] = []

    def send(self) -> None:
        """Send one batch, and wait for its answer."""
        batch = encode_batch(
            values(*self._values),
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self._next,
        )
        self._next += RECORDS
        began = time.perf_counter()
        answers = produced(self._client.call(produce_request([(self._topic, [(0, batch)])])))
        self.took_ms.append((time.perf_counter() - began) * 1000)
        assert answers[self._topic, 0].error_code == 0


class History:
    """Gateways of one state topic, and what a request to a topic takes that loses no records."""

    def __init__(self, kafka: LocalKafka, folder: Path) -> None:
        self._kafka = kafka
        self._folder = folder
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        self._state = f"state-{uuid.uuid4().hex[:8]}"
        self.running: list[RunningGateway] = []

    def start(self, properties: dict[str, object]) -> RunningGateway:
        """Start another gateway of the cluster."""
        place = self._folder / f"{self._state}-{len(self.running)}"
        place.mkdir()
        state = {"produce.request.interceptors.state.topic": self._state}
        port = free_ports(3)[0]
        file = write_configuration(
            place, self._kafka.bootstrap_servers, port, {**properties, **state}, POLICIES
        )
        self.running.append(RunningGateway(file))
        return self.running[-1]

    def reload(self, running: RunningGateway) -> None:
        """Load other policies into a gateway."""
        with running.file.open("a") as file:
            file.write(f"bench.reload={uuid.uuid4()}\n")
        reloads = len(running.events("reloaded"))
        running.process.send_signal(signal.SIGHUP)
        running.wait_for("reloaded", reloads + 1)

    def cpu_us(self, running: RunningGateway) -> float:
        """Return the CPU of a gateway for a request, in microseconds."""
        topic = f"plain-{uuid.uuid4().hex[:6]}"
        create_topic(self._admin, topic, 1)
        before = cpu_s(running)
        result = send_elsewhere(running.broker_address(), topic, LOAD, SECONDS)
        used = (cpu_s(running) - before) / result["requests"] * 1e6
        self._admin.delete_topics([topic])[topic].result(30)
        return used

    def close(self) -> None:
        """End the gateways."""
        for running in self.running:
            running.stop()


def compare_histories(kafka: LocalKafka, folder: Path) -> Table:
    """Measure gateways with policies, and one without beside each, in turn."""
    new, started, reloaded = (History(kafka, folder) for _ in range(3))
    histories = {"new cluster": new, "a second start": started, "a reload": reloaded}
    gateways, took = {}, defaultdict(list)
    try:
        for what, history in histories.items():
            gateways["JsonSchema, quarantine for q-*", what] = history, history.start(JUDGED)
            # Nothing else has run in a new cluster.
            alone = History(kafka, folder) if history is new else history
            gateways["no policy, beside it", what] = alone, alone.start({})
        started.running[0].restart()
        reloaded.reload(reloaded.running[0])
        for _ in range(HISTORY_ROUNDS):
            for name, (history, running) in gateways.items():
                took[name].append(history.cpu_us(running))
    finally:
        for history in {history for history, _ in gateways.values()}:
            history.close()
    table = Table("gateway", "history", "CPU us a request", "to a new cluster")
    for (name, what), used in took.items():
        pairs = zip(used, took[name, "new cluster"], strict=True)
        ratio = statistics.median(mine / base for mine, base in pairs)
        table.add_row(name, what, f"{statistics.median(used):.0f}", f"{ratio:.2f}")
    return table


def main() -> None:
    """Run everything and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--history", action="store_true", help="only what history costs")
    options = parser.parse_args()
    console = Console(width=100, highlight=False)
    with LocalKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        if not options.history:
            console.print(compare_batches(kafka, Path(folder)))
        console.print(compare_histories(kafka, Path(folder)))


def compare_batches(kafka: LocalKafka, folder: Path) -> Table:
    """Measure what one producer's batches take."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    create_topic(admin, "t", 1)
    variants = [Variant("direct", kafka.bootstrap_servers, "t", b"keep")]
    properties = {"produce.request.interceptors": "policies.NoDrop"}
    port = free_ports(3)[0]
    file = write_configuration(folder, kafka.bootstrap_servers, port, properties, POLICIES)
    running = RunningGateway(file)
    try:
        for name, first in (("nothing dropped", b"keep"), ("one dropped", b"drop")):
            variants.append(Variant(name, running.address, "t", first))
        for _ in range(BATCHES * ROUNDS):
            for variant in variants:
                variant.send()
    finally:
        running.stop()
    table = Table("variant", "p50 ms", "p99 ms")
    for variant in variants:
        took = sorted(variant.took_ms[20:])
        table.add_row(
            variant.name, f"{statistics.median(took):.2f}", f"{took[len(took) * 99 // 100]:.2f}"
        )
    return table


if __name__ == "__main__":
    main()
