"""What it costs to keep the state of producers: `make bench-state`.

One idempotent producer, one batch of ten records at a time, directly, through a gateway whose
interceptor drops nothing of it, and through one that drops one record of each; the state of
producers is kept in a folder, and in a topic of the cluster. Interleaved; medians and 99th
percentiles in milliseconds. About a minute.
"""

import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path

from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table

from penstock.local import LocalKafka, free_ports

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.conftest import create_topic  # noqa: E402
from tests.gateways import RunningGateway, write_configuration  # noqa: E402
from tests.raw import RawClient, produce_request, produced  # noqa: E402
from tests.records.encoding import encode_batch, values  # noqa: E402

POLICIES = """
from penstock.policy import *
class NoDrop(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "."
    def process_record(self, key, value, topic, partition, headers):
        if value.startswith(b"drop"): raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value)
"""
BATCHES, RECORDS, ROUNDS = 300, 10, 3


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


def main() -> None:
    """Run everything and print a table."""
    with LocalKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        create_topic(admin, "t", 1)
        variants = [Variant("direct", kafka.bootstrap_servers, "t", b"keep")]
        gateways = []
        try:
            for state in ("local", "cluster"):
                place = Path(folder) / state
                place.mkdir()
                properties = {
                    "produce.request.interceptors": "policies.NoDrop",
                    "produce.request.interceptors.state": state,
                }
                port = free_ports(3)[0]
                file = write_configuration(
                    place, kafka.bootstrap_servers, port, properties, POLICIES
                )
                running = RunningGateway(file)
                gateways.append(running)
                for name, first in (("nothing dropped", b"keep"), ("one dropped", b"drop")):
                    variants.append(Variant(f"{state}, {name}", running.address, "t", first))
            for _ in range(BATCHES * ROUNDS):
                for variant in variants:
                    variant.send()
        finally:
            for running in gateways:
                running.stop()
    table = Table("variant", "p50 ms", "p99 ms")
    for variant in variants:
        took = sorted(variant.took_ms[20:])
        table.add_row(
            variant.name, f"{statistics.median(took):.2f}", f"{took[len(took) * 99 // 100]:.2f}"
        )
    Console(width=100, highlight=False).print(table)


if __name__ == "__main__":
    main()
