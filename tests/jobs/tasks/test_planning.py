"""Tasks: ranges are cut into tasks."""

import pickle
import random
import time
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.jobs.tasks.planning import (
    TASKS_MAX,
    WORK_MAX,
    WORK_MIN,
    Limit,
    PackedTasks,
    Sizes,
    Task,
    next_batch,
    plan_tasks,
)
from penstock.kafka.cluster.ranges import OffsetRange, Partition, without
from penstock.kafka.wire.names import NO_ID

pytestmark = pytest.mark.unit


def ranges_of(*offsets, topic="t"):
    return [OffsetRange(topic, number, 100, 100 + count) for number, count in enumerate(offsets)]


def read(tasks):
    return [range_ for task in tasks for range_ in task.ranges]


def test_empty_ranges_have_no_task():
    assert plan_tasks([], cores=2) == ()
    assert plan_tasks(ranges_of(0, 0), cores=2) == ()


def test_a_large_partition_becomes_many_tasks_and_small_partitions_share_a_task():
    tasks = plan_tasks(ranges_of(10_000_000, *[10] * 50), cores=4)
    large = [task for task in tasks if any(range_.partition == 0 for range_ in task.ranges)]
    assert len(large) > 16
    assert len(tasks) < len(large) + 5
    assert sorted(without(ranges_of(10_000_000, *[10] * 50), read(tasks))) == []


def test_ranges_are_read_with_the_id_of_their_topic():
    topic_id = UUID(int=7)
    task = Task((OffsetRange("t", 0, 5, 9), OffsetRange("other", 2, 0, 3)))
    assert list(task.wanted({"t": topic_id})) == [
        ("t", 0, 5, 9, topic_id),
        ("other", 2, 0, 3, NO_ID),
    ]


def test_little_work_is_a_single_task():
    assert plan_tasks(ranges_of(100, 100, 100), cores=16) == (
        Task((
            OffsetRange("t", 0, 100, 200),
            OffsetRange("t", 1, 100, 200),
            OffsetRange("t", 2, 100, 200),
        )),
    )  # fmt: skip


def test_there_are_several_tasks_a_core_with_enough_work():
    few, many = (len(plan_tasks(ranges_of(1_000_000), cores=cores)) for cores in (2, 16))
    assert (few, many) == (8, 64)


def test_a_task_is_neither_too_small_nor_too_large():
    assert len(plan_tasks(ranges_of(10_000), cores=100)) == 2  # 11 MB
    tasks = plan_tasks(ranges_of(100_000_000), cores=1)
    assert WORK_MIN / 1100 < tasks[0].ranges[0].offsets <= WORK_MAX / 1100 + 1


@pytest.mark.thorough
def test_very_large_ranges_become_larger_tasks_and_not_more():
    tasks = plan_tasks(ranges_of(*[10**12] * 3), cores=1000)
    assert TASKS_MAX <= len(tasks) <= TASKS_MAX + 3


def test_sizes_count_rather_than_numbers_of_records():
    sizes = Sizes({Partition("t", 0): 1_000_000, Partition("t", 1): 10})
    tasks = plan_tasks(ranges_of(1000, 1000), cores=2, sizes=sizes)
    assert sum(range_.partition == 1 for range_ in read(tasks)) == 1
    assert sum(range_.partition == 0 for range_ in read(tasks)) == 8


def test_a_partition_in_order_is_in_a_single_task():
    ranges = ranges_of(500_000, *[10_000] * 30)
    tasks = plan_tasks(ranges, cores=4, ordered=True)
    assert sorted(read(tasks)) == ranges
    assert tasks[0] == Task((ranges[0],))
    assert 1 < len(tasks) <= 16


def test_parts_of_a_partition_stay_in_order():
    parts = [OffsetRange("t", 0, 500, 900), OffsetRange("t", 0, 0, 400)]
    (task,) = plan_tasks(parts, cores=4, ordered=True)
    assert task.ranges == (parts[1], parts[0])


@pytest.mark.parametrize("limit", [Limit(records=1000), Limit(bytes=100_000), Limit(70, 100_000)])
def test_no_task_exceeds_a_limit(limit):
    sizes = Sizes(default_bytes=200)
    ranges = ranges_of(12_345, 3, 5, 999, 1001, 400, 500, 600)
    tasks = plan_tasks(ranges, cores=2, sizes=sizes, limit=limit)
    for task in tasks:
        assert sum(range_.offsets for range_ in task.ranges) <= (limit.records or 10**9)
        assert sum(map(sizes.bytes_of, task.ranges)) <= (limit.bytes or 10**9)
    assert without(ranges, read(tasks)) == ()


def test_a_record_that_exceeds_a_limit_is_a_task():
    tasks = plan_tasks(ranges_of(3), cores=1, sizes=Sizes(default_bytes=1e6), limit=Limit(bytes=10))
    assert [range_.offsets for range_ in read(tasks)] == [1, 1, 1]


def test_wrong_arguments():
    with pytest.raises(ValueError, match="cores"):
        plan_tasks(ranges_of(1), cores=0)
    with pytest.raises(ValueError, match="next_batch"):
        plan_tasks(ranges_of(1), cores=1, ordered=True, limit=Limit(records=1))


_ranges = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 20), st.integers(0, 10**6)), max_size=30
).map(
    lambda drawn: [
        OffsetRange(topic, number, 7, 7 + count)
        for (topic, number), count in {(t, n): c for t, n, c in drawn}.items()
    ]
)


@pytest.mark.thorough
@given(_ranges, st.integers(1, 20), st.booleans(), st.randoms(use_true_random=False))
def test_every_offset_is_read_once_and_the_order_of_ranges_changes_nothing(
    ranges, cores, ordered, order
):
    tasks = plan_tasks(ranges, cores=cores, ordered=ordered)
    assert without(ranges, read(tasks)) == ()
    assert sum(range_.offsets for range_ in read(tasks)) == sum(range_.offsets for range_ in ranges)
    order.shuffle(ranges)
    assert plan_tasks(ranges, cores=cores, ordered=ordered) == tasks


def random_ranges(count):
    chance = random.Random(4)
    return [
        OffsetRange(f"topic-{i % 40}", i // 40, start, start + int(chance.paretovariate(0.8) * 100))
        for i in range(count)
        for start in [chance.randrange(10**9)]
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("ordered", [False, True])
def test_ten_thousand_partitions(ordered):
    ranges = random_ranges(10_000)
    began = time.process_time()
    tasks = plan_tasks(ranges, cores=64, ordered=ordered)
    packed = PackedTasks(tasks)
    assert time.process_time() - began < 3
    assert without(ranges, read(tasks)) == ()
    assert 64 < len(tasks) < 1000
    work = sorted(sum(range_.offsets for range_ in task.ranges) for task in tasks)
    if not ordered:
        assert work[-1] < 3 * work[len(work) // 2]
    assert len(pickle.dumps(packed)) < 300_000


def test_packed_tasks_are_decoded_separately():
    tasks = [
        Task((OffsetRange("a", 0, 0, 2**62), OffsetRange("b", 2**31 - 1, 5, 6))),
        Task(()),
        Task((OffsetRange("a", 7, 1, 2),)),
    ]
    packed = pickle.loads(pickle.dumps(PackedTasks(tasks)))
    assert [packed[number] for number in range(len(packed))] == tasks
    for number in (-1, 3):
        with pytest.raises(IndexError):
            packed[number]


def test_a_batch_takes_from_every_partition_in_proportion():
    batch, rest = next_batch(ranges_of(1000, 500, 0, 1), Limit(records=150))
    assert [range_.offsets for range_ in batch] == [99, 49, 1]
    assert [range_.offsets for range_ in rest] == [901, 451]
    assert without(ranges_of(1000, 500, 0, 1), [*batch, *rest]) == ()


def test_batches_reach_the_end():
    rest, batches = tuple(ranges_of(1000, 10, 1)), 0
    while rest:
        before = sum(range_.offsets for range_ in rest)
        batch, rest = next_batch(rest, Limit(records=100))
        assert sum(range_.offsets for range_ in batch) <= 103
        assert before == sum(range_.offsets for range_ in [*batch, *rest])
        batches += 1
    assert batches == 11


def test_a_batch_is_bounded_by_bytes():
    sizes = Sizes({Partition("t", 0): 1_000_000}, default_bytes=100)
    batch, _ = next_batch(ranges_of(1300, 1000), Limit(10_000, 50_000_000), sizes=sizes)
    assert 45_000_000 < sum(map(sizes.bytes_of, batch)) <= 50_000_000


def test_a_batch_without_a_limit_has_all_offsets():
    assert next_batch(ranges_of(3, 0, 4), Limit()) == (
        (OffsetRange("t", 0, 100, 103), OffsetRange("t", 2, 100, 104)),
        (),
    )


def test_at_once_each_core_has_a_task_of_any_size():
    ranges = [OffsetRange("t", number, 0, 5) for number in range(10)]
    assert len(plan_tasks(ranges, cores=4, ordered=True)) == 1
    tasks = plan_tasks(ranges, cores=4, ordered=True, at_once=True)
    assert sorted(len(task.ranges) for task in tasks) == [2, 2, 3, 3]
    assert len(plan_tasks(ranges[:3], cores=4, ordered=True, at_once=True)) == 3
