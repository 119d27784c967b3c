"""How much of a source is searched for records that are in a target, by a cluster in memory."""

from collections import Counter
from types import SimpleNamespace

import pytest

from penstock.jobs.tasks import written_before
from penstock.jobs.tasks.written_before import find_written
from penstock.kafka.cluster.ranges import OffsetRange, Partition
from penstock.policy import Record
from tests.jobs.batches.memory import MemoryCluster
from tests.kafka.records.encoding import encode_stored

pytestmark = pytest.mark.unit
NOW = 1_700_000_000_000
TARGET = SimpleNamespace(name="clean", partitions=(0,))


class CountingCluster(MemoryCluster):
    """Counts the batches that are read of each topic, and finds offsets as a broker does."""

    def __init__(self):
        super().__init__()
        self.read_of = Counter()

    def read(self, offsets, *, on_lost):
        for batch in super().read(offsets, on_lost=on_lost):
            self.read_of[offsets.topic] += 1
            yield batch

    def end_offsets(self, topics):
        return {Partition(topic.name, 0): self.end(topic.name) for topic in topics}

    def offsets_since(self, topics, timestamp_ms):
        assert timestamp_ms >= 0, "negative numbers mean the latest or the earliest offset"
        return {
            Partition(topic.name, 0): next(
                (row.offset for row in self.rows(topic.name) if row.timestamp >= timestamp_ms), -1
            )
            for topic in topics
        }


@pytest.fixture
def cluster(monkeypatch):
    found = CountingCluster()
    monkeypatch.setattr(
        written_before,
        "RangeReader",
        lambda connection, offsets, *, on_lost: found.read(offsets, on_lost=on_lost),
    )
    return found


def store(cluster, topic, *rows):
    cluster.store(topic, encode_stored([Record(*row) for row in rows]))


def found_in(cluster, **how):
    there = OffsetRange("source", 0, 0, cluster.end("source"))
    return find_written(None, cluster, [there], TARGET, **how)


def test_of_records_without_keys_only_some_are_read_if_values_may_be_rewritten(cluster):
    for _ in range(50):
        store(cluster, "source", *[(NOW, None, b"v")] * 1000)
    store(cluster, "clean", (NOW, None, b"***"))
    assert found_in(cluster, rewritten=True) is None
    assert cluster.read_of["source"] <= 11


def test_a_key_is_found_after_records_without_a_key(cluster):
    store(cluster, "source", *[(NOW, None, b"v")] * 1000, (NOW, b"k", b"v"))
    store(cluster, "clean", (NOW, None, b"v"), (NOW, b"k", b"***"))
    assert found_in(cluster, rewritten=True) == Partition("source", 0)


def test_records_without_a_timestamp_do_not_hide_records_with_a_timestamp(cluster):
    store(cluster, "source", (-1, b"a", b"v"), (NOW, b"b", b"v"))
    store(cluster, "clean", (NOW - 5, b"x", b"v"), (-1, b"a", b"v"), (NOW, b"b", b"v"))
    assert found_in(cluster) == Partition("source", 0)


def test_records_without_timestamps_are_not_searched(cluster):
    store(cluster, "source", (-1, b"a", b"v"), (-1, b"b", b"v"))
    store(cluster, "clean", (-1, b"a", b"v"))
    assert found_in(cluster) is None
