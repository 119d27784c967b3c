"""A cluster in memory, with a writer of transactions: batches are stored as brokers store them.

Reads use `penstock.kafka.client.reading.batches.select`, and writes
`penstock.kafka.records.header.as_produced`, as at a real cluster.
"""

import struct
from collections import defaultdict
from types import SimpleNamespace

from penstock.jobs.batches.committed_counts import METADATA_MAX
from penstock.kafka.client.protocol.produced_batches import record_count
from penstock.kafka.client.protocol.write_errors import BatchRefusal, FencedError, RefusedBatchError
from penstock.kafka.client.reading.offset_ranges import LostOffsets, WantedRange
from penstock.kafka.records.header import as_produced
from penstock.kafka.records.sequences import add
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch
from tests.kafka.client.selection import selection

LIMIT = 1 << 26


class Row(SimpleNamespace):
    """A record, as a consumer reads it."""


class MemoryCluster:
    """Topics and committed positions.

    Attributes:
        logs: Stored batches by topic and partition.
        positions: The committed position of the only task.
        starts: Where a log starts, by topic and partition, after retention.
        refuse: Called with the topic and the records of each batch that is to be stored; returns
            Kafka's error code and the positions that a broker names, or None to store it.
        disturb: Called before and after each write and commit with the event; may raise.
    """

    def __init__(self):
        self.logs = defaultdict(list)
        self.starts = defaultdict(int)
        self.position = None
        self.limits = {}
        self.epoch = -1
        self.commits = 0
        self.refuse = lambda topic, rows: None
        self.disturb = lambda moment: None

    def end(self, topic, partition=0):
        log = self.logs[topic, partition]
        if not log:
            return 0
        base, last = struct.unpack_from(">q", log[-1])[0], struct.unpack_from(">i", log[-1], 23)[0]
        return base + last + 1

    def store(self, topic, batch, partition=0):
        """Append a batch as a broker does, with the next offset; return the offset."""
        base = self.end(topic, partition)
        self.logs[topic, partition].append(struct.pack(">q", base) + bytes(batch[8:]))
        return base

    def range(self, topic, partition=0):
        return WantedRange(topic, partition, 0, self.end(topic, partition))

    def read(self, offsets, *, on_lost, merged_within=None):
        """Return the batches of a range; for `RangeTask.read`."""
        start = self.starts[offsets.topic, offsets.partition]
        if start > offsets.first:
            on_lost(LostOffsets(offsets.topic, offsets.partition, offsets.first, start))
        first = max(start, offsets.first)
        data = memoryview(b"".join(self.logs[offsets.topic, offsets.partition]))
        if first >= offsets.end:
            return []
        return selection(data, first, offsets.end, None, merged_within).batches

    def open(self):
        return MemoryWriter(self)

    def rows(self, topic, partition=0):
        """Return all records of a partition."""
        return [
            row for batch in self.logs[topic, partition] for row in rows_of(batch, topic, partition)
        ]


class MemoryWriter:
    """Its batches appear in the cluster when it commits, with its position."""

    def __init__(self, cluster):
        self.cluster = cluster
        cluster.epoch += 1
        self.producer = ProducerIdAndEpoch(1, cluster.epoch)
        self.sequences = defaultdict(int)
        self.written = []
        self.position = cluster.position

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def add(self, partitions):
        pass

    def write(self, topic, partition, batch, source):
        self._check()
        self.cluster.disturb("write")
        count = record_count(batch, source)
        if len(batch) > self.cluster.limits.get(topic, LIMIT):
            raise RefusedBatchError(f"{topic}: too large, from {source}")
        sequence = self.sequences[topic, partition]
        producer_id, epoch = self.producer
        header, records = as_produced(
            batch,
            producer_id=producer_id,
            epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        self.sequences[topic, partition] = add(sequence, count)
        self.written.append((topic, partition, header + bytes(records), source))

    def commit(self, position):
        self._check()
        assert len(position.metadata) <= METADATA_MAX
        self.cluster.disturb("commit")
        for topic, _, batch, source in self.written:
            found = self.cluster.refuse(topic, rows_of(batch))
            if found is not None:
                code, named = found
                raise RefusedBatchError("refused", BatchRefusal(topic, source, code, named))
        for topic, partition, batch, _ in self.written:
            self.cluster.store(topic, batch, partition)
        self.written = []
        self.position = self.cluster.position = position
        self.cluster.commits += 1
        self.cluster.disturb("committed")

    def abort(self):
        self._check()
        self.written = []

    def close(self):
        self.written = []

    def _check(self):
        if self.producer.epoch != self.cluster.epoch:
            raise FencedError("another writer of the same task has taken over")


def rows_of(batch, topic="", partition=0):
    """Return the records of a stored batch."""
    read = read_stored_batch(batch, max_decompressed_bytes=LIMIT)
    records = read.records
    return [
        Row(
            topic=topic, partition=partition, offset=offset, timestamp=timestamp, key=key,
            value=value, headers=[tuple(header) for header in headers], codec=read.codec,
        )
        for offset, timestamp, key, value, headers in zip(
            read.offsets, records.timestamps, records.keys, records.values, records.headers,
            strict=True,
        )
    ]  # fmt: skip


def content(rows):
    """Return the parts of records that must not change."""
    return [(row.timestamp, row.key, row.value, row.headers) for row in rows]
