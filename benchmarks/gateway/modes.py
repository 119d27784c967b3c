"""Measures `mark` and `quarantine` next to interceptors on the same records: `make bench-modes`.

An idempotent producer of librdkafka sends batches of up to 1,000 records; one in a hundred
or one in ten is bad. An interceptor drops the bad records, or changes them; a validator refuses
them, and its mode is `quarantine` or `mark`. Each round runs every variant once, interleaved.
Printed are the medians: records a second, CPU microseconds of all the gateway's processes for a
record, and both as multiples of the interceptor's. About two minutes.

Before that, a built-in policy judges requests of one good record in each mode, beside `enforce` and
the bare relay (`small_requests`); `--small` ends there.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench import cpu_s
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table
from small_requests import OF_MODES, Load, compare

from penstock.kafka.local import LocalKafka, free_ports

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.conftest import create_topic  # noqa: E402
from tests.gateways import RunningGateway, write_configuration  # noqa: E402

POLICIES = """
from penstock.policy import *

class Check(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("it is bad") if value[:3] == b"bad" else None

class Drop(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "."
    def process_record(self, key, value, topic, partition, headers):
        if value[:3] == b"bad":
            raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value)

class Change(Drop):
    def process_record(self, key, value, topic, partition, headers):
        if value[:3] == b"bad":
            return ProduceRequestInterceptorResult(key, b"BAD" + value[3:])
        return ProduceRequestInterceptorResult(key, value)
"""
CHECK = {"record.validator.classes": "policies.Check"}
VARIANTS = {
    "interceptor drops": {"produce.request.interceptors": "policies.Drop"},
    "quarantine": {
        **CHECK,
        "penstock.mode": "quarantine",
        "errors.deadletterqueue.topic.replication.factor": "1",
    },
    "interceptor changes": {"produce.request.interceptors": "policies.Change"},
    "mark": {**CHECK, "penstock.mode": "mark"},
}
BESIDE = {"quarantine": "interceptor drops", "mark": "interceptor changes"}
RECORDS, PARTITIONS, RUN, ROUNDS = 40_000, 4, 500, 5
"""Records are sent to each partition in turn, `RUN` at a time."""


def send(address: str, topic: str, bad_each: int, records: int = RECORDS) -> float:
    """Send records of a run; return how many seconds that took."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.num.messages": 1000,
            "queue.buffering.max.messages": RECORDS + 1,
            "log_level": 0,
        }
    )
    began = time.perf_counter()
    for number in range(records):
        start = b"bad" if number % bad_each == 0 else b"ok."
        producer.produce(topic, start + b"x" * 200, partition=number // RUN % PARTITIONS)
    left = producer.flush(120)
    if left:
        raise SystemExit(f"{topic}: {left} records were not acknowledged")
    return time.perf_counter() - began


def main() -> None:
    """Run everything and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="only requests of one record")
    parser.add_argument("--rounds", type=int, default=3, help="of these requests")
    options = parser.parse_args()
    console = Console(width=110, highlight=False)
    variants = ("bare relay", "JSON Schema", *OF_MODES)
    console.print(compare(variants, [Load(1, 1500, 1)], 6.0, options.rounds))
    if not options.small:
        console.print(compare_interceptors())


def compare_interceptors() -> Table:
    """Run marks and quarantine next to interceptors; return a table."""
    took: dict[tuple[int, str], list[tuple[float, float]]] = {}
    with LocalKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        gateways = {}
        try:
            for name, properties in VARIANTS.items():
                place = Path(folder) / name.replace(" ", "-")
                place.mkdir()
                file = write_configuration(
                    place, kafka.bootstrap_servers, free_ports(3)[0], properties, POLICIES
                )
                gateways[name] = RunningGateway(file)
            for bad_each in (100, 10):
                for number in range(ROUNDS + 1):
                    for name, running in gateways.items():
                        topic = f"t{bad_each}-{number}-{name.replace(' ', '-')}"
                        create_topic(admin, topic, PARTITIONS)
                        # The dead letter topic is created once, however many records come.
                        send(running.address, topic, bad_each, PARTITIONS * RUN)
                        before = cpu_s(running)
                        seconds = send(running.address, topic, bad_each)
                        used = cpu_s(running) - before
                        if number:  # the first round warms up
                            took.setdefault((bad_each, name), []).append((seconds, used))
        finally:
            for running in gateways.values():
                running.stop()
    table = Table("bad records", "variant", "records/s", "times", "CPU us a record", "times")
    medians = {
        key: tuple(map(statistics.median, zip(*runs, strict=True))) for key, runs in took.items()
    }
    for (bad_each, name), (seconds, used) in medians.items():
        other = medians.get((bad_each, BESIDE.get(name, "")))
        table.add_row(
            f"1 in {bad_each}",
            name,
            f"{RECORDS / seconds:,.0f}",
            f"{other[0] / seconds:.2f}" if other else "",
            f"{used / RECORDS * 1e6:.1f}",
            f"{used / other[1]:.2f}" if other else "",
        )
    return table


if __name__ == "__main__":
    main()
