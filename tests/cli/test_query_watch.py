"""The figures of a query of Spark: its lag, and its micro-batches, as metrics and lines."""

import json
import threading
import uuid
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from penstock.cli.jobs.query_watch import QueryWatch
from penstock.cli.process.background import in_background
from penstock.kafka.cluster.errors import ClusterError
from penstock.kafka.cluster.offset_requests import OffsetRefusal
from penstock.kafka.cluster.ranges import Partition
from penstock.spark.streams.figures import StreamFigures, StreamOutcome

FIRST, SECOND = Partition("t", 0), Partition("t", 1)
NO_LEADER, NO_TOPIC = OffsetRefusal(5, "no leader"), OffsetRefusal(3, "unknown")
NO_ANSWER = OffsetRefusal(-185, "no answer")
COUNTS = {"accepted": 9, "refused": 1, "dropped": 0, "failed": 0}


def at_once(work):
    """Run a request within the look."""
    future = Future()
    try:
        future.set_result(work())
    except ClusterError as error:
        future.set_exception(error)
    return future


class World:
    """The query, the cluster, the clock, and what is published."""

    def __init__(self):
        self.now, self.published, self.error, self.requests = 0.0, 0, None, 0
        self.batch = 0
        self.ends, self.positions = {FIRST: 100, SECOND: 50}, None
        self.figures = StreamFigures()
        self.watch = self.watching()

    def watching(self, positions=(), publish=None, start=at_once):
        return QueryWatch(
            self.figures, publish or self._publish, self._ends, "t", dict(positions),
            clock=lambda: self.now, start=start,
        )  # fmt: skip

    def _publish(self):
        self.published += 1

    def _ends(self, partitions):
        self.requests += 1
        if self.error is not None:
            raise self.error
        return {of: end for of, end in self.ends.items() if of in partitions}

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

    watch = world.watching(publish=fail)
    for _ in range(2):
        watch.look(world)
        world.now += 5
    warning = "warning: metrics cannot be written: No space left on device\n"
    assert capsys.readouterr().err == warning


def test_the_first_micro_batch_has_a_lag_while_it_runs(world):
    """It may have all of a backlog; a later query begins where the last one ended."""
    watch = world.watching({FIRST: 10, SECOND: 50})
    watch.look(world)
    assert world.figures.behind == {FIRST: 90, SECOND: 0}
    world.positions = {FIRST: 100, SECOND: 50}
    watch.end(world)
    assert world.figures.behind == {FIRST: 0, SECOND: 0}
    world.positions, world.ends = None, {FIRST: 130, SECOND: 50}
    world.now += 5
    watch.look(world)
    assert world.figures.behind == {FIRST: 30, SECOND: 0}


def test_a_partition_without_a_leader_is_counted_and_the_others_have_their_lag(world):
    world.positions = {FIRST: 40, SECOND: 0}
    world.watch.look(world)
    world.positions, world.ends = {FIRST: 60, SECOND: 10}, {FIRST: 120, SECOND: NO_LEADER}
    world.now += 5
    world.watch.look(world)
    assert world.figures.behind == {FIRST: 60, SECOND: 40}
    assert world.figures.unavailable == 1
    world.ends = {FIRST: 120, SECOND: 70}
    world.now += 5
    world.watch.look(world)
    assert (world.figures.behind, world.figures.unavailable) == ({FIRST: 60, SECOND: 60}, 0)


def test_a_deleted_topic_has_no_lag_and_is_not_unavailable(world):
    world.positions = {FIRST: 40, SECOND: 0}
    world.watch.look(world)
    world.ends = {FIRST: 100, SECOND: NO_TOPIC}
    world.now += 5
    world.watch.look(world)
    assert (world.figures.behind, world.figures.unavailable) == ({FIRST: 60}, 0)


def test_the_age_of_a_look_grows_while_no_broker_answers(world):
    world.positions, world.ends = {FIRST: 40, SECOND: 0}, {FIRST: NO_ANSWER, SECOND: NO_ANSWER}
    world.watch.look(world)
    assert (world.figures.looked_at, world.figures.unavailable) == (0, 2)


def test_a_silent_cluster_delays_neither_a_look_nor_counts_nor_the_end(world, capsys):
    answer, requested = threading.Event(), []

    def start(work):
        requested.append(in_background(lambda: answer.wait() and work()))
        return requested[-1]

    watch = world.watching({FIRST: 0}, start=start)
    for _ in range(3):
        watch.look(world)
        world.now += 5
    assert (len(requested), world.published) == (1, 3)
    watch.finish(world, lambda: True)
    watch.done(0, COUNTS, 0.1)
    world.positions = {FIRST: 70, SECOND: 50}
    watch.end(world)
    assert (world.published, world.figures.behind) == (4, {})
    answer.set()
    requested[0].result()
    watch.look(world)
    assert world.figures.behind == {FIRST: 30}


def test_a_query_that_ends_by_itself_is_looked_at_once_more(world):
    watch = world.watching({FIRST: 0, SECOND: 0}, start=in_background)
    world.positions = {FIRST: 100, SECOND: 50}
    watch.finish(world, lambda: False)
    watch.end(world)
    assert world.figures.behind == {FIRST: 0, SECOND: 0}
    assert world.figures.looked_at > 0


def test_a_failure_of_spark_does_not_hide_the_failure_of_the_query(world):
    """The JVM may have ended; the last figures are published even then."""

    class Lost:
        @property
        def lastProgress(self):  # noqa: N802 - Spark's name
            raise ConnectionRefusedError

    world.watch.end(Lost())
    assert world.published == 1


def test_looks_between_queries(world):
    watch = world.watching({FIRST: 40, SECOND: 50})
    watch.looked({FIRST: 90, SECOND: NO_LEADER, Partition("t", 2): 7})
    assert (world.figures.behind, world.figures.unavailable) == ({FIRST: 50}, 1)
    assert world.figures.looked_at > 0
    assert world.published == 1
