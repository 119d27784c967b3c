"""Audit and split against jobs that do nothing: `make bench-spark`.

Stores records of 160 B (JSON, 5 % bad) in a local Kafka, then runs, interleaved in one session:
an identity read (the same columns, thrown away), an identity copy to another topic, the audit
and the split with a compiled JSON Schema check. Prints records a second, the share of the
identity job that each reaches, and the most memory that the JVM and a Python worker took.
Bounded: 5 million records and two rounds after a warm-up take about eight minutes on two cores.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from penstock.cluster.offsets import Cluster
from penstock.local import LocalKafka
from penstock.spark import load_plan
from penstock.spark.audit import audit
from penstock.spark.locations import Location
from penstock.spark.session import start_session, stop_session
from penstock.spark.sinks import Sinks
from penstock.spark.sources import client_options, read_range
from penstock.spark.split import ACCEPTED, REJECTED, split

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [
    str(ROOT),
    str(ROOT / "benchmarks" / "gateway"),
    str(ROOT / "examples" / "policies"),
]

import bench as gateway_bench  # noqa: E402
from aiokafka.record.default_records import DefaultRecordBatchBuilder  # noqa: E402
from tests.conftest import create_topic  # noqa: E402
from tests.raw import RawClient, produce_request, produced  # noqa: E402

PARTITIONS = 6


def batch(now_ms: int, count: int) -> bytes:
    """A batch of orders, every twentieth of them without a customer."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 10**9)
    for number in range(count):
        value = gateway_bench.order(number, 160)
        if number % 20 == 0:
            value = value.replace(b'"customer"', b'"custom_er"')
        builder.append(number, now_ms + number, b"%06d" % number, value, [])
    return bytes(builder.build())


def fill(kafka: LocalKafka, topic: str, records: int) -> int:
    """Store records; give how many."""
    count = 5000
    data = batch(int(time.time() * 1000), count)
    rounds = max(1, records // count // PARTITIONS)
    with RawClient(kafka.bootstrap_servers) as client:
        for _ in range(rounds):
            partitions = [(number, data) for number in range(PARTITIONS)]
            answers = produced(
                client.call(produce_request([(topic, partitions)], version=9, acks=1))
            )
            assert not any(int(answer.error_code) for answer in answers.values())
    return rounds * PARTITIONS * count


class Memory:
    """The most memory that processes of a kind took, in MiB."""

    def __init__(self) -> None:
        self.most: dict[str, float] = {}
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def end(self) -> dict[str, float]:
        """Stop watching."""
        self._ended.set()
        return self.most

    def _watch(self) -> None:
        while not self._ended.wait(0.5):
            for path in Path("/proc").glob("[0-9]*"):
                try:
                    command = (path / "cmdline").read_bytes()
                    resident = int((path / "statm").read_text().split()[1]) * 4096 / 2**20
                except (OSError, ValueError):
                    continue
                kind = (
                    "Spark's JVM" if b"SparkSubmit" in command
                    else "Python worker" if b"pyspark.daemon" in command
                    else None
                )  # fmt: skip
                if kind:
                    self.most[kind] = max(self.most.get(kind, 0.0), resident)


def main() -> None:
    """Run everything and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    with LocalKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        create_topic(admin, "orders", PARTITIONS, {"max.message.bytes": "20000000"})
        count = fill(kafka, "orders", options.records)
        file = Path(folder) / "penstock.properties"
        file.write_text(
            f"upstream.bootstrap.servers={kafka.bootstrap_servers}\n"
            "record.validation.policy.class.name=penstock.policies.JsonSchema\n"
            "topics.orders.record.validation.policy=order.schema.json\n"
            f"json.schema.folder={ROOT / 'benchmarks' / 'gateway'}\n"
        )
        run(admin, file, count, options.rounds)


def run(admin: AdminClient, file: Path, count: int, rounds: int) -> None:
    """Measure."""
    spark = start_session("bench", "local[2]", {})
    memory = Memory()
    plan = load_plan(file)
    properties = plan.configuration.upstream_properties
    options = client_options(properties, file.parent)
    cluster = Cluster(properties, file.parent)
    bounds = cluster.bounds(cluster.topic("orders"))
    start, end = ({p: b[i] for p, b in bounds.items()} for i in (0, 1))

    def read():
        return read_range(spark, options, "orders", start, end)

    def targets(*names: str) -> list[str]:
        made = [f"{name}-{time.time_ns()}" for name in names]
        for name in made:
            create_topic(admin, name, PARTITIONS)
        return made

    def identity_read() -> None:
        read().write.format("noop").mode("overwrite").save()

    def identity_copy() -> None:
        [name] = targets("copy")
        sinks = {"all": Location(name, is_folder=False)}
        copied = read().withColumn("sink", F.lit("all"))
        Sinks(spark, sinks, options, {name: PARTITIONS}).write(copied)
        admin.delete_topics([name])[name].result(30)

    def run_audit() -> None:
        result = audit(read(), plan, topic="orders")
        assert (result.judged, result.outcomes["refused"]) == (count, count // 20), result.outcomes

    def run_split() -> None:
        good, dead = targets("good", "dead")
        locations = {
            ACCEPTED: Location(good, is_folder=False),
            REJECTED: Location(dead, is_folder=False),
        }
        sinks = Sinks(spark, locations, options, {good: PARTITIONS, dead: PARTITIONS})
        counts = split(read(), plan, sinks, topic="orders")
        assert counts["refused"] == count // 20
        for name in (good, dead):
            admin.delete_topics([name])[name].result(30)

    jobs: dict[str, Callable[[], None]] = {
        "identity read": identity_read,
        "audit": run_audit,
        "identity copy": identity_copy,
        "split": run_split,
    }
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for round_number in range(rounds + 1):
        for name, job in jobs.items():
            began = time.perf_counter()
            job()
            taken = time.perf_counter() - began
            print(f"  {name}: {taken:.1f} s", flush=True)
            if round_number:  # the first one warms up
                seconds[name].append(taken)
    most = memory.end()
    table = Table("job", "records/s", "share of identity")
    compared = {"audit": "identity read", "split": "identity copy"}
    for name, taken in seconds.items():
        rate = count / statistics.median(taken)
        share = ""
        if name in compared:
            share = f"{statistics.median(seconds[compared[name]]) / statistics.median(taken):.2f}"
        table.add_row(name, f"{rate:,.0f}", share)
    say = Console(width=100, highlight=False).print
    say(f"{count:,} records")
    say(table)
    say(", ".join(f"{kind}: {size:,.0f} MiB at most" for kind, size in sorted(most.items())))
    stop_session(spark)


if __name__ == "__main__":
    main()
