"""Audit and split against jobs that do nothing: `make bench-spark`.

Stores records of 160 B (JSON, 5 % bad) in a local Kafka, then runs, interleaved in one session:
an identity read by Spark's connector (thrown away), an identity copy to another topic, audits with
the built-in JSON Schema check and with a class in Python, a split, a redaction of one field, and
audit and split without Spark (`--local`). Prints records a second and CPU of Spark, its Python
workers and this process for each record, that of the broker, the share of the identity job that
each reaches, and the most memory that the JVM and a Python worker took.

`--batches` says how the records are stored: 1 MB (not compressed), 16 KB (lz4), or 1, 10, 40 or 100
records a batch (not compressed); several of them follow each other in one session. Bounded: 200,000
records in batches of one, 2 million in batches of 1 MB. Each size takes about five minutes.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table

from penstock.jobs.audit import audit_raw
from penstock.jobs.batches.targets import Target
from penstock.jobs.positions import KnownPositions, claims
from penstock.jobs.runner import LocalRunner
from penstock.jobs.tasks.writing import write_raw
from penstock.jobs.tasks.writing_task import ACCEPTED, REJECTED, WritingTask
from penstock.jobs.topics.access import ClusterAccess
from penstock.jobs.topics.sizes import measured
from penstock.kafka.cluster.offsets import Cluster
from penstock.kafka.local import LocalKafka
from penstock.spark import load_plan
from penstock.spark.execution.task_runner import SparkRunner
from penstock.spark.session import start_session, stop_session

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [
    str(ROOT),
    str(HERE),
    str(ROOT / "benchmarks" / "gateway"),
    str(ROOT / "examples" / "policies"),
]

import bench as gateway_bench  # noqa: E402
from aiokafka.record.default_records import DefaultRecordBatchBuilder  # noqa: E402
from spark_processes import cpu_of, cpu_s, sparks  # noqa: E402
from tests.conftest import create_topic, delete_topic  # noqa: E402
from tests.raw import RawClient, produce_request, produced  # noqa: E402
from tests.spark_connector import connector_jars, read_by_connector  # noqa: E402

PARTITIONS = 6
SCHEMAS = ROOT / "benchmarks" / "gateway"
BATCHES = {"1MB": (6000, 0), "16KB": (100, 3)} | {str(size): (size, 0) for size in (1, 10, 40, 100)}
"""Records of a batch, and its codec."""
RECORDS = {"1": 200_000, "10": 500_000, "40": 1_000_000, "100": 1_000_000}
"""The most records of sizes whose batches take long to store."""
BUILT_IN = f"""
record.validation.policy.class.name=penstock.policies.JsonSchema
topics.orders.record.validation.policy=order.schema.json
json.schema.folder={SCHEMAS}
"""
OWN = f"""
record.validation.policy.class.name=json_schema.JsonSchema
record.validation.policy.class.path={ROOT / "examples" / "policies"}
topics.orders.record.validation.policy={SCHEMAS / "order.schema.json"}
"""
REDACT = """
produce.request.interceptors=masked.Masked
"""
MASKED = """
from penstock.policies import RedactJsonFields


class Masked(RedactJsonFields):
    topics = "^orders$"
    fields = ("customer",)
"""


def batch(now_ms: int, first: int, count: int, codec: int) -> bytes:
    """A batch of orders from a number on, every twentieth of them without a customer."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 10**9)
    for position, number in enumerate(range(first, first + count)):
        value = gateway_bench.order(number, 160)
        if number % 20 == 0:
            value = value.replace(b'"customer"', b'"custom_er"')
        builder.append(position, now_ms + number, b"%06d" % number, value, [])
    return bytes(builder.build())


def fill(kafka: LocalKafka, topic: str, records: int, batches: str) -> int:
    """Store records; return how many."""
    count, codec = BATCHES[batches]
    now, differing = int(time.time() * 1000), max(20 // count, 1)
    data = [batch(now, number * count, count, codec) for number in range(differing)]
    rounds = max(1, records // count // PARTITIONS // differing) * differing
    with RawClient(kafka.bootstrap_servers) as client:
        for sent in range(rounds):
            partitions = [(number, data[sent % differing]) for number in range(PARTITIONS)]
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
            for path, kind in sparks().items():
                try:
                    resident = int((path / "statm").read_text().split()[1]) * 4096 / 2**20
                except OSError:
                    continue
                self.most[kind] = max(self.most.get(kind, 0.0), resident)


class Taken(NamedTuple):
    """What a job took, in seconds."""

    wall: float
    cpu: float
    broker: float


class Job(NamedTuple):
    """A job, and the job that it is compared with."""

    run: Callable[[], None]
    identity: str = ""


def main() -> None:
    """Run everything and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", choices=BATCHES, default=["1MB"], nargs="+")
    parser.add_argument("--jobs", default="", help="only those whose names begin so, by commas")
    options = parser.parse_args()
    with LocalKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        files = []
        (Path(folder) / "masked.py").write_text(MASKED)
        for name, policy in (("built-in", BUILT_IN), ("own", OWN), ("redact", REDACT)):
            file = Path(folder) / f"{name}.properties"
            file.write_text(f"upstream.bootstrap.servers={kafka.bootstrap_servers}{policy}")
            files.append(file)
        spark = start_session("bench", "local[2]", {"spark.jars": connector_jars()})
        for batches in options.batches:
            run(kafka, spark, files, batches, options)
        stop_session(spark)


def run(
    kafka: LocalKafka, spark: Any, files: list[Path], batches: str, arguments: argparse.Namespace
) -> None:
    """Store records, and measure the jobs."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    broker = Path("/proc", str(kafka.nodes[0].pid))
    create_topic(admin, "orders", PARTITIONS, {"max.message.bytes": "20000000"})
    count = fill(kafka, "orders", min(arguments.records, RECORDS.get(batches, 10**9)), batches)
    memory = Memory()
    servers = kafka.bootstrap_servers
    properties = {"bootstrap.servers": servers}
    access = ClusterAccess.of(properties, files[0])
    cluster = Cluster(properties, files[0])
    ranges = cluster.ranges(cluster.topics("orders"), "earliest")
    ids = {topic.name: topic.topic_id for topic in cluster.topics("orders")}
    plan, own, redacting = (load_plan(file, topic_ids=ids) for file in files)
    on_spark, in_process = SparkRunner(spark), LocalRunner()

    def read():
        return read_by_connector(spark, servers, "orders")

    def targets(*names: str) -> list[str]:
        made = [f"{name}-{time.time_ns()}" for name in names]
        for name in made:
            create_topic(admin, name, PARTITIONS, {"max.message.bytes": "20000000"})
        return made

    def identity_read() -> None:
        read().write.format("noop").mode("overwrite").save()

    def identity_copy() -> None:
        [name] = targets("copy")
        copied = read().select("key", "value", "headers", "partition")
        writer = copied.write.format("kafka").option("kafka.bootstrap.servers", servers)
        writer.option("topic", name).mode("append").save()
        admin.delete_topics([name])[name].result(30)

    def check(result) -> None:
        assert (result.judged, result.outcomes["refused"]) == (count, count // 20), result.outcomes

    def audited(of_plan, runner=on_spark) -> None:
        sizes = measured(access.connect(), ranges)
        check(audit_raw(runner, access, ranges, of_plan, sizes=sizes).counts)

    def written(of_plan, *names: str, runner=on_spark):
        made = targets(*(f"{name}-target" for name in names))
        to = {
            name: Target(topic, PARTITIONS, 20_000_000)
            for name, topic in zip(names, made, strict=True)
        }
        job = made[0]
        claimed = claims(job, job, ranges, KnownPositions({}, {}))
        work = WritingTask(access, of_plan, ids, to, job, job, claimed)
        sizes = measured(access.connect(), ranges)
        result = write_raw(runner, ranges, work, sizes=sizes)
        for name in made:
            admin.delete_topics([name])[name].result(30)
        return result.counts.outcomes

    def raw_split(runner=on_spark) -> None:
        assert written(plan, ACCEPTED, REJECTED, runner=runner)["refused"] == count // 20

    def raw_redact() -> None:
        outcomes = written(redacting, ACCEPTED)
        assert outcomes["accepted"] == count, outcomes

    jobs = {
        "identity read": Job(identity_read),
        "audit": Job(lambda: audited(plan), "identity read"),
        "audit, Python class": Job(lambda: audited(own), "identity read"),
        "audit --local": Job(lambda: audited(plan, in_process), "identity read"),
        "identity copy": Job(identity_copy),
        "split": Job(raw_split, "identity copy"),
        "split --local": Job(lambda: raw_split(in_process), "identity copy"),
        "redact": Job(raw_redact, "identity copy"),
    }
    prefixes = tuple(arguments.jobs.split(","))
    jobs = {name: job for name, job in jobs.items() if name.startswith(prefixes)}
    measured_by_job: dict[str, list[Taken]] = {name: [] for name in jobs}
    for round_number in range(arguments.rounds + 1):
        for name, job in jobs.items():
            began, cpu, broker_cpu = (
                time.perf_counter(),
                cpu_s(),
                cpu_of(broker),
            )
            job.run()
            measurement = Taken(
                time.perf_counter() - began,
                cpu_s() - cpu,
                cpu_of(broker) - broker_cpu,
            )
            print(f"  {name}: {measurement.wall:.1f} s, {measurement.cpu:.1f} s of CPU", flush=True)
            if round_number:  # the first round warms up
                measured_by_job[name].append(measurement)
    most = memory.end()
    show(count, batches, jobs, measured_by_job, most)
    delete_topic(admin, "orders")


def show(count, batches, jobs, measured_by_job, most) -> None:
    """Print the table."""
    medians = {
        name: Taken(
            *(statistics.median(measurement[i] for measurement in measurements) for i in (0, 1, 2))
        )
        for name, measurements in measured_by_job.items()
    }
    table = Table(
        "job", "records/s", "of identity", "CPU us/record", "broker's", "of identity (CPU of all)"
    )
    for name, job in jobs.items():
        wall, cpu, broker = medians[name]
        base = medians.get(job.identity)
        shares = ("", "")
        if base:
            of_all = (base.cpu + base.broker) / (cpu + broker)
            shares = (f"{base.wall / wall:.2f}", f"{of_all:.2f}")
        rate, cost = f"{count / wall:,.0f}", f"{cpu / count * 1e6:.2f}"
        table.add_row(name, rate, shares[0], cost, f"{broker / count * 1e6:.2f}", shares[1])
    say = Console(width=100, highlight=False).print
    say(f"{count:,} records in batches of {batches}")
    say(table)
    say(", ".join(f"{kind}: {size:,.0f} MiB at most" for kind, size in sorted(most.items())))


if __name__ == "__main__":
    main()
