"""CPU of a task on raw batches, per record: `python benchmarks/batch_jobs.py [HOST:PORT]`.

Records of 160 bytes, of which `penstock.policies.JsonSchema` refuses 5 %, in batches of 16 KB and
of 1 MB as brokers store them. Without an argument in one process, from memory to memory: batches
are read, selected and checked, and those written get the producer's numbers. With a broker: the CPU
of the process that reads from it and writes to it in transactions, its network thread included, and
the broker's excluded. Medians of rounds in which all variants take turns. About a minute.
"""

import itertools
import random
import statistics
import sys
import time
import uuid
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from confluent_kafka.admin import AdminClient  # noqa: E402
from tests.conftest import create_topic  # noqa: E402
from tests.engine.chains import TOPIC_ID, chain  # noqa: E402
from tests.integration.reading import topic_id  # noqa: E402
from tests.jobs.batches.memory import MemoryCluster  # noqa: E402
from tests.kafka.client.settings import FILE  # noqa: E402
from tests.kafka.records.encoding import encode_stored  # noqa: E402

from penstock.jobs.batches.at_cluster import range_task  # noqa: E402
from penstock.jobs.batches.judge import BatchJudge  # noqa: E402
from penstock.jobs.batches.redact import Redact  # noqa: E402
from penstock.jobs.batches.split import Split  # noqa: E402
from penstock.jobs.batches.targets import Target  # noqa: E402
from penstock.jobs.batches.task import RangeTask, run  # noqa: E402
from penstock.kafka.client.connections.connection import Connection  # noqa: E402
from penstock.kafka.client.positions import PositionTask  # noqa: E402
from penstock.kafka.client.protocol.produced_batches import BatchSource  # noqa: E402
from penstock.kafka.client.reading.reader import WantedRange  # noqa: E402
from penstock.kafka.client.writing.idempotent_pipeline import idempotent_pipeline  # noqa: E402
from penstock.kafka.client.writing.limits import WriterLimits  # noqa: E402
from penstock.policy import (  # noqa: E402
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
)
from records import json_records, schema_chain  # noqa: E402

RECORDS = 130_000
ROUNDS = 5
SIZES = {"16 KB": 100, "1 MB": 6_500}
CODECS = {"": 0, " lz4": 3}
REFUSED = 0.05
LARGEST = 1_048_588
KEPT = {"retention.ms": "-1"}
"""The records are of 2023."""


class Mask(ProduceRequestInterceptor):
    """Replaces one field of each record."""

    def interceptor_topic_pattern(self):
        return "."

    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value.replace(b'"EUR"', b'"***"'))


def batches(size, codec, *, refused):
    """Return stored batches of as many records as are measured."""
    chance = random.Random(7)
    for _ in range(RECORDS // size):
        records = [
            record._replace(value=record.value.replace(b"9.5", b"0.0"))
            if chance.random() < refused
            else record
            for record in json_records(size)
        ]
        yield encode_stored(records, attributes=codec)


def jobs(source):
    """Return the jobs that are measured, by name."""
    judge, masks = (
        BatchJudge(schema_chain(), TOPIC_ID),
        BatchJudge(chain(interceptors=[Mask]), TOPIC_ID),
    )
    clean, dead = Target("clean", 1, LARGEST), Target("dead", 1, LARGEST)
    return {
        "copy": (Redact(BatchJudge(chain(), TOPIC_ID), source, 0, target=clean), 0.0),
        "split, nothing refused": (Split(judge, source, 0, accepted=clean, rejected=dead), 0.0),
        "split, 5 % refused": (Split(judge, source, 0, accepted=clean, rejected=dead), REFUSED),
        "redact, each record changed": (Redact(masks, source, 0, target=clean), 0.0),
    }


def in_memory(size, codec):
    """Return what runs each job once on new targets."""
    sources = {}
    for refused in (0.0, REFUSED):
        sources[refused] = MemoryCluster()
        for batch in batches(size, codec, refused=refused):
            sources[refused].store("source", batch)

    def runs(job, refused):
        cluster = sources[refused]
        cluster.position = None
        for name in ("clean", "dead"):
            cluster.logs[name, 0].clear()
        task = RangeTask(cluster.range("source"), cluster.read, cluster.open, "run")
        assert sum(run(task, job).progress.counts.outcomes.values()) == RECORDS

    return {
        name: (lambda job=job, refused=refused: runs(job, refused))
        for name, (job, refused) in jobs("source").items()
    }


def at_broker(size, codec, admin, connection):
    """Return functions that run each job once, from a topic to new topics."""
    sources = {}
    for refused in (0.0, REFUSED):
        name = f"source-{uuid.uuid4().hex[:8]}"
        create_topic(admin, name, 1, KEPT)
        sources[refused] = name, topic_id(admin, name)
        pipeline = idempotent_pipeline(connection, WriterLimits())
        for batch in batches(size, codec, refused=refused):
            pipeline.put(name, 0, batch, BatchSource(name, 0, 0))
        pipeline.flush()
    for name in ("clean", "dead"):
        if name not in admin.list_topics(timeout=10).topics:
            create_topic(admin, name, 1, KEPT)
    numbers = itertools.count()

    def runs(job, refused):
        offsets = WantedRange(sources[refused][0], 0, 0, RECORDS, sources[refused][1])
        position = PositionTask(
            f"bench-{uuid.uuid4().hex[:6]}-{next(numbers)}", *sources[refused], 0
        )
        result = run(range_task(connection, offsets, position, run="run"), job)
        assert sum(result.progress.counts.outcomes.values()) == RECORDS

    return {
        name: (lambda job=job, refused=refused: runs(job, refused))
        for name, (job, refused) in jobs("source").items()
    }


def main(servers=""):
    kinds = {
        f"{size}{codec}": (SIZES[size], CODECS[codec])
        for size, codec in itertools.product(SIZES, CODECS)
    }
    if servers:
        admin = AdminClient({"bootstrap.servers": servers})
        connection = Connection({"bootstrap.servers": servers}, FILE)
        works = {name: at_broker(*kind, admin, connection) for name, kind in kinds.items()}
    else:
        works = {name: in_memory(*kind) for name, kind in kinds.items()}
    taken = {}
    for _ in range(ROUNDS):
        for kind, by_name in works.items():
            for name, work in by_name.items():
                began = time.process_time()
                work()
                taken.setdefault((name, kind), []).append(time.process_time() - began)
    table = Table("us of CPU per record", *works)
    for name in next(iter(works.values())):
        row = [statistics.median(taken[name, kind]) / RECORDS * 1e6 for kind in works]
        table.add_row(name, *(f"{figure:.2f}" for figure in row))
    Console().print(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
