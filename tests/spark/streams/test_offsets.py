"""What a stream's next micro-batch is, with made-up offsets."""

import random

import pytest

from penstock.jobs.tasks.planning import Limit
from penstock.jobs.tasks.writing_task import UnfinishedRange, WritingResult
from penstock.kafka.client.errors import TruncatedError
from penstock.kafka.cluster.ranges import OffsetRange, Partition
from penstock.spark.streams.offsets import KEPT_AT_ONCE, KEPT_FOR_S, StreamOffsets

pytestmark = pytest.mark.unit
A, B, C = (Partition("t", number) for number in range(3))
LIMIT = Limit(records=100)
ALL_DONE = WritingResult()


def unfinished(*ones):
    return WritingResult(unfinished=tuple(ones))


@pytest.fixture
def offsets():
    """Three partitions at 0, whose positions have just been committed."""
    found = StreamOffsets("run")
    for partition in (A, B, C):
        found.add(partition, 0, kept_at=0.0)
    return found


def step(offsets, ends, starts=None, now=1.0, limit=LIMIT):
    offsets.learn(ends, now)
    return offsets.next(tuple(ends), starts or {}, limit, now)


def test_nothing_new_is_nothing_to_do(offsets):
    assert step(offsets, {A: 0, B: 0, C: 0}) is None


def test_every_micro_batch_is_bounded(offsets):
    batch = step(offsets, {A: 1_000_000, B: 3_000_000, C: 0})
    assert sum(offset_range.offsets for offset_range in batch.ranges) == 100
    assert batch.ranges == (OffsetRange("t", 0, 0, 25), OffsetRange("t", 1, 0, 75))
    assert batch.number == 0
    offsets.done(batch, ALL_DONE, 1.0)
    batch = step(offsets, {A: 1_000_000, B: 3_000_000, C: 0})
    assert (batch.number, batch.ranges[0].start) == (1, 25)


def test_a_stream_comes_to_the_end_whatever_happens_and_each_offset_is_done_once():
    chance = random.Random(7)
    offsets = StreamOffsets("run", available_now=True)
    ends = {Partition("t", number): chance.randrange(500) for number in range(20)}
    for end in ends:
        offsets.add(end, 0, kept_at=0.0)
    done = dict.fromkeys(ends, 0)
    rounds = 0
    while not offsets.is_at_end:
        rounds += 1
        available = [end for end in ends if chance.random() < 0.9]
        # Records come while it runs; they are not waited for.
        grown = (
            {partition: ends[partition] + rounds for partition in available}
            if rounds > 50
            else ends
        )
        offsets.learn(grown, 1.0)
        batch = offsets.next(available, {}, LIMIT, 1.0)
        if batch is None:
            continue
        result = []
        for end in batch.ranges:
            fate = chance.random()
            if fate < 0.1:
                result.append(UnfinishedRange(*end.of, reason="no leader"))
            elif fate < 0.2:
                result.append(UnfinishedRange(*end.of))
            else:
                reached = chance.randint(end.start + 1, end.end) if fate < 0.5 else end.end
                assert end.start == done[end.of]
                done[end.of] = reached
                if reached < end.end:
                    result.append(UnfinishedRange(*end.of, reached))
        offsets.done(batch, unfinished(*result), 1.0)
    assert done == ends


def test_a_range_that_failed_is_tried_again_as_it_was_and_counted_as_before(offsets):
    first = step(offsets, {A: 50, B: 10, C: 0})
    assert offsets.done(first, unfinished(UnfinishedRange("t", 0, reason="no leader")), 1.0)
    again = step(offsets, {A: 90, B: 30, C: 0})
    assert again.ranges == (OffsetRange("t", 0, 0, 50), OffsetRange("t", 1, 10, 30))
    assert again.counted_as == {A: "run:0"}
    assert offsets.counted_as(again) == "run:1"
    assert offsets.done(again, unfinished(UnfinishedRange("t", 0, reason="no leader")), 1.0)
    third = step(offsets, {A: 90, B: 30, C: 0})
    assert (third.ranges, third.counted_as) == ((OffsetRange("t", 0, 0, 50),), {A: "run:0"})
    assert not offsets.done(third, unfinished(UnfinishedRange("t", 0, reason="no leader")), 1.0)
    assert offsets.done(step(offsets, {A: 90, B: 30, C: 0}), ALL_DONE, 1.0)
    assert step(offsets, {A: 90, B: 30, C: 0}).ranges == (OffsetRange("t", 0, 50, 90),)


def test_a_range_that_failed_waits_while_it_cannot_be_read(offsets):
    batch = step(offsets, {A: 50})
    offsets.done(batch, unfinished(UnfinishedRange("t", 0, reason="no leader")), 1.0)
    assert step(offsets, {B: 0, C: 0}) is None


def test_a_stopped_range_continues_at_its_position(offsets):
    batch = step(offsets, {A: 50})
    assert offsets.done(batch, unfinished(UnfinishedRange("t", 0, 20)), 1.0)
    batch = step(offsets, {A: 50})
    assert (batch.ranges, batch.counted_as) == ((OffsetRange("t", 0, 20, 50),), {})


def test_a_range_that_was_not_begun_is_planned_again(offsets):
    batch = step(offsets, {A: 50})
    assert not offsets.done(batch, unfinished(UnfinishedRange("t", 0)), 1.0)
    batch = step(offsets, {A: 80})
    assert (batch.ranges, batch.counted_as) == ((OffsetRange("t", 0, 0, 80),), {})


def test_removed_offsets_are_in_the_micro_batch_and_do_not_fill_it(offsets):
    batch = step(offsets, {A: 10**9 + 50, B: 1000, C: 0}, {A: 10**9, B: 1000})
    assert batch.ranges == (OffsetRange("t", 0, 0, 10**9 + 50), OffsetRange("t", 1, 0, 1000))


def test_positions_are_committed_again_before_brokers_forget_them(offsets):
    later = KEPT_FOR_S + 1
    batch = step(offsets, {A: 5, B: 0, C: 0}, now=later)
    assert batch.kept == (OffsetRange("t", 1, 0, 0), OffsetRange("t", 2, 0, 0))
    offsets.done(batch, unfinished(UnfinishedRange("t", 2, reason="no coordinator")), later)
    batch = step(offsets, {A: 5, B: 0, C: 0}, now=later)
    assert (batch.ranges, batch.kept) == ((), (OffsetRange("t", 2, 0, 0),))
    offsets.done(batch, ALL_DONE, later)
    assert step(offsets, {A: 5, B: 0, C: 0}, now=later) is None


def test_positions_of_many_partitions_are_committed_in_portions():
    offsets = StreamOffsets("run")
    ends = {Partition("t", number): 0 for number in range(2 * KEPT_AT_ONCE + 1)}
    for end in ends:
        offsets.add(end, 0)
    sizes = []
    while (batch := step(offsets, ends)) is not None:
        sizes.append(len(batch.kept))
        offsets.done(batch, ALL_DONE, 1.0)
    assert sizes == [KEPT_AT_ONCE, KEPT_AT_ONCE, 1]


def test_a_log_that_is_shorter_than_the_position_is_an_error_after_a_while(offsets):
    offsets.done(step(offsets, {A: 50}), ALL_DONE, 1.0)
    assert step(offsets, {A: 40}, now=2.0) is None
    assert step(offsets, {A: 50}, now=50.0) is None
    assert step(offsets, {A: 40}, now=55.0) is None
    assert step(offsets, {A: 40}, now=114.0) is None
    with pytest.raises(TruncatedError, match="t-0: the log ends at offset 40, before 50"):
        step(offsets, {A: 40}, now=115.1)


def test_the_lag_is_reported(offsets):
    offsets.learn({A: 50, B: 7}, 1.0)
    assert offsets.behind == {A: 50, B: 7, C: 0}


def test_a_topic_that_is_gone_is_forgotten(offsets):
    offsets.add(Partition("u", 0), 0)
    offsets.drop("t")
    assert offsets.partitions == (Partition("u", 0),)
    assert A not in offsets


def test_a_stream_with_available_now_waits_for_unreadable_partitions():
    offsets = StreamOffsets("run", available_now=True)
    for partition in (A, B):
        offsets.add(partition, 0, kept_at=0.0)
    assert step(offsets, {A: 0}) is None
    assert not offsets.is_at_end
    offsets.done(step(offsets, {A: 3, B: 2}), ALL_DONE, 1.0)
    assert offsets.is_at_end
    assert step(offsets, {A: 9, B: 9}) is None


def test_the_first_micro_batch_can_be_of_positions_only(offsets):
    offsets.learn({A: 50}, 1.0)
    batch = offsets.first()
    assert batch.ranges == ()
    assert [part.of for part in batch.kept] == [A, B, C]
    assert all(part.offsets == 0 for part in batch.kept)
