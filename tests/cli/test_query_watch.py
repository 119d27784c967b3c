"""The figures of a query of Spark: its lag, and its micro-batches, as metrics and lines."""

import json
import uuid
from types import SimpleNamespace

import pytest

from penstock.cli.jobs.query_watch import QueryWatch
from penstock.cluster.errors import ClusterError
from penstock.cluster.ranges import Partition
from penstock.spark.streams.stream_figures import StreamFigures, StreamOutcome

FIRST, SECOND = Partition("t", 0), Partition("t", 1)
COUNTS = {"accepted": 9, "refused": 1, "dropped": 0, "failed": 0}


class World:
    """The query, the cluster, the clock, and what is published."""

    def __init__(self):
        self.now, self.published, self.error, self.requests = 0.0, 0, None, 0
        self.batch = 0
        self.ends, self.positions = {FIRST: 100, SECOND: 50}, None
        self.figures = StreamFigures()
        self.watch = QueryWatch(
            self.figures, self._publish, self._ends, "t", clock=lambda: self.now
        )

    def _publish(self):
        self.published += 1

    def _ends(self):
        self.requests += 1
        if self.error is not None:
            raise self.error
        return self.ends

    @property
    def lastProgress(self):  # noqa: N802 - Spark's name
        if self.positions is None:
            return None
        offsets = {str(number): at for (_, number), at in self.positions.items()}
        end = {"t": {"id": str(uuid.UUID(int=1)), "offsets": offsets}} if offsets else None
        found = {"batchId": self.batch, "sources": [{"endOffset": end}]}
        return SimpleNamespace(json=json.dumps(found))


@pytest.fixture
def world():
    return World()


def test_lag_of_each_partition(world, capsys):
    world.watch.look(world)
    assert (world.figures.behind, world.published) == ({}, 1)
    world.positions = {FIRST: 40, SECOND: 50}
    world.watch.done(0, COUNTS, 2.5)
    world.now += 5
    world.watch.look(world)
    assert world.figures.behind == {FIRST: 60, SECOND: 0}
    assert world.figures.looked_at > 0
    assert world.figures.records[StreamOutcome("t", "", "accepted")] == 9
    assert (world.figures.batches, world.figures.seconds) == (1, 2.5)
    assert capsys.readouterr().err == "batch 0: 60 behind\n"


def test_the_cluster_is_contacted_now_and_then(world, capsys):
    world.positions = {FIRST: 100, SECOND: 50}
    for number in range(21):
        world.watch.done(number, COUNTS, 0.1)
        world.batch = number
        world.watch.look(world)
        world.now += 1
    assert world.requests == world.published == 5
    assert capsys.readouterr().err.splitlines() == [
        "batch 0: 0 behind", "batch 10: 0 behind", "batch 20: 0 behind",
    ]  # fmt: skip


def test_the_lag_before_a_micro_batch_is_not_printed_as_the_lag_after_it(world, capsys):
    """Spark has the progress of a micro-batch after its function has returned."""
    world.positions = {FIRST: 0, SECOND: 50}
    world.watch.done(1, COUNTS, 0.1)
    world.watch.look(world)
    assert capsys.readouterr().err == ""
    world.batch, world.positions = 1, {FIRST: 90, SECOND: 50}
    world.now += 5
    world.watch.look(world)
    assert capsys.readouterr().err == "batch 1: 10 behind\n"


def test_nothing_is_printed_without_a_micro_batch(world, capsys):
    world.positions = {FIRST: 0, SECOND: 0}
    world.watch.look(world)
    world.watch.end(world)
    assert capsys.readouterr().err == ""
    assert world.figures.behind == {FIRST: 100, SECOND: 50}


def test_the_end_is_always_published(world, capsys):
    world.positions = {FIRST: 10, SECOND: 50}
    world.watch.look(world)
    world.watch.done(3, COUNTS, 0.1)
    world.batch, world.positions = 3, {FIRST: 100, SECOND: 50}
    world.watch.end(world)
    assert world.figures.behind == {FIRST: 0, SECOND: 0}
    assert world.published == 2
    assert capsys.readouterr().err == "batch 3: 0 behind\n"


def test_a_log_that_was_cut_and_partitions_that_are_new_or_gone(world):
    world.positions = {FIRST: 120, Partition("t", 2): 7}
    world.watch.look(world)
    assert world.figures.behind == {FIRST: 0}


def test_a_query_without_offsets_yet(world):
    world.positions = {}
    world.watch.look(world)
    assert world.figures.behind == {}


def test_a_cluster_that_does_not_answer_does_not_end_the_query(world):
    """The query ends by itself if it cannot read; the last figures stay, and their time."""
    world.positions, world.error = {FIRST: 0}, ClusterError("no broker")
    world.watch.look(world)
    assert (world.figures.looked_at, world.published) == (0, 1)


def test_metrics_that_cannot_be_written_are_a_warning(world, capsys):
    def fail():
        raise OSError(28, "No space left on device")

    watch = QueryWatch(world.figures, fail, world._ends, "t", clock=lambda: world.now)
    for _ in range(2):
        watch.look(world)
        world.now += 5
    warning = "warning: metrics cannot be written: No space left on device\n"
    assert capsys.readouterr().err == warning
