"""A split of topics whose batches are small, per record: `python benchmarks/small_batches.py`.

Records of 160 bytes, of which `penstock.policies.JsonSchema` refuses 5 %, in batches of 1 to 1,000
records, from a local Kafka to the same, in transactions. Prints the CPU of the process that splits
and of the broker, and how many records a batch of the target has. Medians of three rounds in which
all take turns. About two minutes.
"""

import itertools
import os
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
from tests.engine.chains import TOPIC_ID  # noqa: E402
from tests.integration.reading import topic_id  # noqa: E402
from tests.kafka.client.settings import FILE  # noqa: E402

import batch_jobs  # noqa: E402
from penstock.jobs.batches.at_cluster import range_task  # noqa: E402
from penstock.jobs.batches.judge import BatchJudge  # noqa: E402
from penstock.jobs.batches.split import Split  # noqa: E402
from penstock.jobs.batches.targets import Target  # noqa: E402
from penstock.jobs.batches.task import run  # noqa: E402
from penstock.kafka.client.connections.connection import Connection  # noqa: E402
from penstock.kafka.client.positions import PositionTask  # noqa: E402
from penstock.kafka.client.protocol.produced_batches import BatchSource  # noqa: E402
from penstock.kafka.client.reading.reader import RangeReader, WantedRange  # noqa: E402
from penstock.kafka.client.writing.idempotent_pipeline import idempotent_pipeline  # noqa: E402
from penstock.kafka.client.writing.limits import WriterLimits  # noqa: E402
from penstock.kafka.local import LocalKafka  # noqa: E402
from penstock.kafka.records.header import CONTROL  # noqa: E402
from records import schema_chain  # noqa: E402

SIZES = {1: 10_000, 10: 60_000, 40: 120_000, 100: 120_000, 1000: 120_000}
"""Records of a batch, and of the topic."""
ROUNDS = 3
_TICKS = os.sysconf("SC_CLK_TCK")


class Topics:
    """The sources, and splits of them into new targets."""

    def __init__(self, admin, connection):
        self._admin, self._connection = admin, connection
        self._numbers = itertools.count()
        self._sources = {size: self._filled(size) for size in SIZES}

    def _filled(self, size):
        name = f"source-{size}-{uuid.uuid4().hex[:8]}"
        create_topic(self._admin, name, 1, batch_jobs.KEPT)
        batch_jobs.RECORDS = SIZES[size]
        source = name, topic_id(self._admin, name)
        pipeline = idempotent_pipeline(self._connection, WriterLimits())
        for batch in batch_jobs.batches(size, 0, refused=batch_jobs.REFUSED):
            pipeline.put(name, 0, batch, BatchSource(name, 0, 0))
        pipeline.flush()
        return source

    def split(self, size):
        """Split a source once; return the topic of accepted records."""
        number, source = next(self._numbers), self._sources[size]
        clean, dead = f"clean-{number}", f"dead-{number}"
        for name in (clean, dead):
            create_topic(self._admin, name, 1, batch_jobs.KEPT)
        judge = BatchJudge(schema_chain(), TOPIC_ID)
        targets = (Target(name, 1, batch_jobs.LARGEST) for name in (clean, dead))
        accepted, rejected = targets
        job = Split(judge, source[0], 0, accepted=accepted, rejected=rejected)
        offsets = WantedRange(source[0], 0, 0, SIZES[size], source[1])
        position = PositionTask(f"bench-{uuid.uuid4().hex[:6]}", *source, 0)
        result = run(range_task(self._connection, offsets, position, run="run", merges=True), job)
        assert sum(result.progress.counts.outcomes.values()) == SIZES[size]
        return clean

    def batch_size(self, name):
        """Return how many records a batch of a topic has, on average."""
        offsets = WantedRange(name, 0, 0, _end(self._admin, name), topic_id(self._admin, name))
        reader = RangeReader(self._connection, offsets, on_lost=print)
        counts = [batch.record_count for batch in reader if not batch.attributes & CONTROL]
        return sum(counts) / len(counts)


def _end(admin, name):
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    partition = TopicPartition(name, 0)
    return admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(10).offset


def broker_cpu(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def main():
    with LocalKafka() as kafka:
        pid = kafka.nodes[0].pid
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        with Connection({"bootstrap.servers": kafka.bootstrap_servers}, FILE) as connection:
            topics = Topics(admin, connection)
            taken = {size: [] for size in SIZES}
            for _ in range(ROUNDS):
                for size in SIZES:
                    before = time.process_time(), broker_cpu(pid)
                    name = topics.split(size)
                    own, broker = time.process_time() - before[0], broker_cpu(pid) - before[1]
                    taken[size].append((own, broker, topics.batch_size(name)))
    table = Table("records a batch", "us of CPU per record", "the broker's", "in the target")
    for size, rounds in taken.items():
        own, broker, written = (statistics.median(figures) for figures in zip(*rounds, strict=True))
        per = 1e6 / SIZES[size]
        table.add_row(str(size), f"{own * per:.2f}", f"{broker * per:.2f}", f"{written:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
