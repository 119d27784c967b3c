"""The loop of a stream, with a made-up cluster that fails, grows and loses topics."""

import uuid
from collections import Counter

import pytest

from penstock.jobs.report.counts import RecordCounts
from penstock.jobs.tasks.planning import Limit
from penstock.jobs.tasks.writing_task import UnfinishedRange, WritingResult
from penstock.kafka.client.errors import BrokerUnreachableError, DeniedError, TruncatedError
from penstock.kafka.client.positions import Position
from penstock.kafka.cluster.errors import ClusterError, NotDescribedError
from penstock.kafka.cluster.offsets import Topic
from penstock.kafka.cluster.ranges import Partition
from penstock.spark.execution.failures import SparkError
from penstock.spark.streams.stream import TOPICS_EVERY_S, Stream, StreamSettings

pytestmark = pytest.mark.unit


class World:
    """A cluster, the work that Spark does on it, and who watches.

    Attributes:
        logs: Where logs start and end, by partition.
        ids: The ids of topics.
        committed: Positions in the group.
        written: How often each offset was done, by partition and offset.
        away: Partitions whose leaders do not answer.
        on_wait: Called with each pause, instead of waiting; returns the events.
    """

    def __init__(self):
        self.logs, self.ids, self.committed = {}, {}, {}
        self.written = Counter()
        self.away, self.errors = set(), []
        self.denied, self.read_before = {}, set()
        self.now, self.is_ended = 0.0, False
        self.batches, self.waits, self.warnings, self.notes = [], [], [], []
        self.requests = Counter()
        self.on_wait = lambda world: None
        self.on_work = lambda world, batch: ()

    def create(self, name, partitions=1, end=0):
        self.ids[name] = uuid.uuid4()
        for number in range(partitions):
            self.logs[Partition(name, number)] = (0, end)

    def delete(self, name):
        del self.ids[name]
        self.logs = {
            partition: log for partition, log in self.logs.items() if partition.topic != name
        }
        self.committed = {entry: at for entry, at in self.committed.items() if entry.topic != name}

    def grow(self, count=10):
        self.logs = {name: (start, end + count) for name, (start, end) in self.logs.items()}

    # The source

    def topics(self):
        self._request("topics")
        return tuple(
            Topic(name, topic_id, tuple(log.number for log in self.logs if log.topic == name))
            for name, topic_id in self.ids.items()
        )

    def read_earlier(self):
        return self.read_before

    def deleted(self, names):
        for name in sorted(names & self.denied.keys()):
            raise NotDescribedError(name)
        return names - self.ids.keys() - self.denied.keys()

    def deny(self, name):
        """Take Describe away: no list has the topic any more."""
        self.denied[name] = self.ids.pop(name)

    def positions(self, partitions):
        self._request("positions")
        return {
            partition: self.committed[partition]
            for partition in partitions
            if partition in self.committed
        }

    def check(self, runs):
        assert None not in runs

    def commit(self, positions):
        self.committed |= positions

    def starts(self, partitions):
        return self._known(partitions, 0)

    def ends(self, partitions):
        self._request("ends")
        return self._known(partitions, 1)

    def _known(self, partitions, which):
        return {
            partition: self.logs[partition][which]
            for partition in partitions
            if partition in self.logs and partition not in self.away
        }

    def _request(self, what):
        self.requests[what] += 1
        if self.errors:
            raise self.errors.pop(0)

    # The work

    def __call__(self, batch, counted_as, topics, seen):
        self.batches.append(batch)
        failed = self.on_work(self, batch) or ()
        counts = RecordCounts()
        for part in (*batch.ranges, *batch.kept):
            assert topics[part.topic].topic_id == self.ids[part.topic]
            if part.of in failed:
                continue
            start = self.logs[part.of][0]
            counts.add_removed(part.of, max(min(start, part.end) - part.start, 0))
            for offset in range(max(part.start, start), part.end):
                self.written[(self.ids[part.topic], part.partition), offset] += 1
            self.committed[part.of] = Position(part.end, run="run")
        unfinished = tuple(UnfinishedRange(*part, reason="no leader") for part in failed)
        return WritingResult(counts, unfinished=unfinished)

    # The observer

    def looked(self, behind, unavailable):
        self.behind = behind

    def done(self, batch, result, seconds):
        pass

    def warn(self, text):
        self.warnings.append(text)

    def note(self, text):
        self.notes.append(text)

    # Time

    def wait(self, seconds):
        self.waits.append(seconds)
        self.now += seconds
        self.on_wait(self)
        assert len(self.waits) < 500, "it does not end"

    def stream(self, first=None, **settings):
        stream = Stream(
            self,
            self,
            self,
            StreamSettings("run", settings.pop("limit", Limit(records=100)), **settings),
            is_ended=lambda: self.is_ended,
            wait=self.wait,
            clock=lambda: self.now,
        )
        stream.begin(self.topics(), first)
        return stream

    def each_once(self, *names):
        """Check that all records were done once."""
        assert set(self.written.values()) <= {1}
        for name, (start, end) in self.logs.items():
            done = {at for (of, at) in self.written if of == (self.ids[name.topic], name.number)}
            assert done >= set(range(start, end)), name


@pytest.fixture
def world():
    found = World()
    found.create("t", 3, end=250)
    return found


def end_after(count):
    """Return a function that ends a stream at its n-th pause."""

    def on_wait(world):
        world.is_ended = len(world.waits) >= count

    return on_wait


def test_a_stream_with_available_now_ends(world):
    world.stream(available_now=True, every_s=3600).run()
    world.each_once()
    assert world.waits == []
    assert all(sum(r.offsets for r in batch.ranges) <= 102 for batch in world.batches)


def test_records_that_come_later(world):
    def on_wait(world):
        if len(world.waits) < 10:
            world.grow()
        else:
            world.is_ended = True

    world.on_wait = on_wait
    world.stream(every_s=5).run()
    world.each_once()
    assert set(world.behind.values()) == {0}


def test_without_anything_new_nothing_is_done_but_asking(world):
    world.on_wait = end_after(100)
    world.stream(every_s=1).run()
    batches = len(world.batches)
    assert batches == 8
    assert world.waits[-90:] == [1] * 90
    assert world.requests["ends"] <= 110
    assert world.requests["topics"] <= 1 + 100 / TOPICS_EVERY_S + 1


def test_requests_have_the_configured_interval_for_any_micro_batch(world):
    def on_work(world, batch):
        world.now += 3

    def on_wait(world):
        world.grow(1)
        world.is_ended = len(world.waits) == 3

    world.on_work, world.on_wait = on_work, on_wait
    world.stream(every_s=10, limit=Limit(records=10_000)).run()
    assert world.waits == [7, 7, 7]


def test_a_cluster_that_is_away_is_waited_for(world):
    def on_wait(world):
        if len(world.waits) == 3:
            world.grow()
            world.errors = [ClusterError("no broker"), BrokerUnreachableError("gone")] * 4
        world.is_ended = len(world.waits) == 15

    world.on_wait = on_wait
    world.stream().run()
    world.each_once()
    assert "no broker; waiting" in world.warnings
    assert max(world.waits) == 30
    assert world.waits[3:10] == [1, 2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize("error", [DeniedError(29, "topic t"), TruncatedError("cut")])
def test_a_permanent_error_ends_it(world, error):
    stream = world.stream()
    world.errors = [error]
    with pytest.raises(type(error)):
        stream.run()


def test_an_unavailable_partition_does_not_delay_the_others(world):
    away = Partition("t", 1)
    world.away = {away}

    def on_wait(world):
        world.grow()
        if len(world.waits) == 5:
            assert not any(item[0][1] == 1 for item in world.written)
            assert len(world.written) > 500
            world.away = set()
        world.is_ended = len(world.waits) == 10

    world.on_wait = on_wait
    world.stream().run()
    assert sum(item[0][1] == 1 for item in world.written) >= 300
    assert set(world.written.values()) == {1}


def test_tasks_that_fail_for_now_are_tried_again_with_pauses(world):
    def on_work(world, batch):
        return {Partition("t", 2)} if len(world.batches) < 12 else ()

    world.on_work = on_work
    world.stream(available_now=True).run()
    world.each_once()
    assert "no leader; waiting" in world.warnings
    assert world.waits[:3] == [1, 2, 4]


def test_new_topics_and_new_partitions(world):
    def on_wait(world):
        if len(world.waits) == 2:
            world.create("new", 2, end=30)
            world.logs[Partition("t", 3)] = (0, 40)
        world.is_ended = world.now > 2 * TOPICS_EVERY_S

    world.on_wait = on_wait
    world.stream(first=lambda: {Partition("t", n): 250 for n in range(3)}).run()
    assert Counter(name for (name, _) in world.written) == {
        (world.ids["new"], 0): 30, (world.ids["new"], 1): 30, (world.ids["t"], 3): 40,
    }  # fmt: skip
    assert world.notes == ["topic new is new; the stream reads it, too"]


def test_a_topic_that_is_gone_does_not_end_the_others(world):
    world.create("other", 1, end=5)

    def on_wait(world):
        if len(world.waits) == 2:
            world.delete("t")
        if len(world.waits) == 6:
            world.grow()
        world.is_ended = len(world.waits) == 12

    world.on_wait = on_wait
    world.stream().run()
    world.each_once()
    assert "topic t was deleted; the stream continues without it" in world.notes


def test_a_topic_that_may_not_be_described_any_more_ends_the_stream(world):
    """Its records would not be read, and nobody would know."""
    world.create("other", 1, end=5)

    def on_wait(world):
        if len(world.waits) == 2:
            world.deny("t")
        world.is_ended = world.now > 2 * TOPICS_EVERY_S

    world.on_wait = on_wait
    with pytest.raises(NotDescribedError, match="topic t: TOPIC_AUTHORIZATION_FAILED"):
        world.stream().run()
    assert not any("does not exist" in note for note in world.notes)


def test_a_topic_of_earlier_runs_that_may_not_be_described_now(world):
    world.create("other", 1, end=5)
    world.read_before = {"t", "other", "deleted"}
    world.stream()
    world.deny("t")
    with pytest.raises(NotDescribedError, match="topic t: TOPIC_AUTHORIZATION_FAILED"):
        world.stream()


def test_a_topic_that_no_list_has_for_a_moment_stays(world):
    world.create("other", 1, end=5)
    listed = world.topics

    def on_wait(world):
        is_short = 2 <= len(world.waits) and world.now < TOPICS_EVERY_S + 2
        world.topics = (lambda: listed()[1:]) if is_short else listed
        world.is_ended = world.now > 2 * TOPICS_EVERY_S

    world.on_wait = on_wait
    world.stream().run()
    world.each_once()
    assert world.notes == []


def test_a_topic_that_is_gone_while_a_task_reads_it(world):
    world.create("other", 1, end=500)

    def on_work(world, batch):
        if len(world.batches) == 3:
            world.delete("t")
        return {
            offset_range.of for offset_range in batch.ranges if offset_range.topic not in world.ids
        }

    world.on_work = on_work
    world.on_wait = end_after(12)
    stream = world.stream()
    with pytest.MonkeyPatch.context() as patch:
        # The made-up work looks topics up that are gone.
        patch.setattr(World, "__call__", _tolerant)
        stream.run()
    assert "topic t was deleted; the stream continues without it" in world.notes
    assert sum(at for (of, at) in world.written if of == (world.ids["other"], 0)) == sum(range(500))


def _tolerant(world, batch, counted_as, topics, seen):
    world.batches.append(batch)
    failed = set(world.on_work(world, batch))
    for offset_range in batch.ranges:
        if offset_range.of not in failed:
            for offset in range(offset_range.start, offset_range.end):
                world.written[(world.ids[offset_range.topic], offset_range.partition), offset] += 1
            world.committed[offset_range.of] = Position(offset_range.end, run="run")
    return WritingResult(
        unfinished=tuple(UnfinishedRange(*part, reason="no topic") for part in failed)
    )


def test_a_topic_that_is_created_again_is_read_from_its_start(world):
    def on_wait(world):
        if len(world.waits) == 2:
            left = dict(world.committed)
            world.delete("t")
            world.create("t", 2, end=20)
            world.committed = left  # as an attempt does that commits late
        world.is_ended = world.now > 2 * TOPICS_EVERY_S

    world.on_wait = on_wait
    world.stream().run()
    world.each_once()
    assert "topic t was deleted and created again" in world.notes


def test_a_topic_that_returns_unchanged_continues(world):
    def on_wait(world):
        if len(world.waits) == 2:
            world.hidden = (world.ids.pop("t"), world.logs)
            world.logs = {}
        if world.now > TOPICS_EVERY_S + 2 and "t" not in world.ids:
            world.ids["t"], world.logs = world.hidden
            world.grow()
        world.is_ended = world.now > 3 * TOPICS_EVERY_S

    world.on_wait = on_wait
    world.stream().run()
    world.each_once()


def test_the_start_of_a_job_is_committed_before_records_are_read(world):
    failing = [{Partition("t", 1)}, set()]
    world.on_work = lambda world, batch: failing.pop(0) if failing else ()
    stream = world.stream(first=lambda: {Partition("t", n): 100 + n for n in range(3)})
    assert {name.number: at.offset for name, at in world.committed.items()} == {
        0: 100, 1: 101, 2: 102,
    }  # fmt: skip
    assert world.written == {}
    assert [len(batch.kept) for batch in world.batches] == [3, 1]
    world.on_wait = end_after(1)
    stream.run()
    assert len(world.written) == 450 - 3


def test_a_job_continues_at_its_positions_and_elsewhere_at_the_start(world):
    world.committed = {Partition("t", 0): Position(240), Partition("t", 1): Position(250)}
    world.stream(first=pytest.fail, available_now=True).run()
    assert len(world.written) == 10 + 250


def test_removed_offsets_are_reported(world):
    world.logs[Partition("t", 0)] = (200, 250)
    world.committed = {Partition("t", 0): Position(50)}
    world.stream(available_now=True).run()
    assert [note for note in world.notes if "150 of t: offsets were removed" in note]
    world.each_once()


def test_removed_offsets_end_a_strict_stream_with_everything_else_done(world):
    world.logs[Partition("t", 0)] = (200, 250)
    world.committed = {Partition("t", 0): Position(50)}
    with pytest.raises(SparkError, match="150 of t: offsets were removed"):
        world.stream(available_now=True, strict=True).run()
    world.stream(available_now=True, strict=True).run()
    world.each_once()


def test_a_requested_end_waits_for_the_micro_batch(world):
    def on_work(world, batch):
        world.is_ended = True

    world.on_work = on_work
    world.stream().run()
    assert len(world.batches) == 1
    assert len(world.written) == 99


def test_a_micro_batch_that_fails_when_all_is_ended_is_given_up(world):
    def on_work(world, batch):
        world.is_ended = True
        raise ConnectionError("the JVM has ended, too")

    world.on_work = on_work
    world.stream().run()
    assert "given up" in world.notes[-1]


def test_a_job_of_spark_that_fails_ends_it(world):
    def on_work(world, batch):
        raise RuntimeError("a policy exited")

    world.on_work = on_work
    with pytest.raises(RuntimeError, match="a policy exited"):
        world.stream().run()


def test_a_stream_with_available_now_includes_an_unavailable_partition(world):
    world.away = {Partition("t", 1)}
    with pytest.raises(ClusterError, match="t-1 cannot be read: no leader answers"):
        world.stream(available_now=True)
    assert sum(world.waits) == 60


def test_a_stream_with_available_now_waits_for_an_election(world):
    world.away = {Partition("t", 1), Partition("t", 2)}

    def on_wait(world):
        if len(world.waits) == 3:
            world.away = set()

    world.on_wait = on_wait
    world.stream(available_now=True).run()
    world.each_once()
    assert world.warnings[:3] == ["t-1, t-2: no leader answers; waiting"] * 3


def test_a_position_in_an_open_transaction_is_waited_for_at_the_beginning(world):
    world.committed = {Partition("t", 0): Position(240)}
    unstable = BrokerUnreachableError("UNSTABLE_OFFSET_COMMIT (88)")
    send = world._request

    def failing(what):
        send(what)
        if what == "positions" and world.requests[what] < 4:
            raise unstable

    world._request = failing
    world.stream(available_now=True).run()
    assert len(world.written) == 10 + 500
    assert world.warnings[:3] == ["UNSTABLE_OFFSET_COMMIT (88); waiting"] * 3


def test_an_end_that_is_requested_at_the_beginning(world):
    world.is_ended = True
    world.stream().run()
    assert world.batches == []
    world.is_ended = False
    world.on_wait = end_after(1)
    world._request = _unreachable
    world.stream().run()
    assert world.batches == []


def _unreachable(what):
    if what == "positions":
        raise ClusterError("no broker")
