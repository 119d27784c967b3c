"""Turns of clients: by the time of their batches, also while clients connect and disconnect."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.workers.jobs import JobQueue, JudgingJob
from penstock.engine.workers.turns import LEAST_S

COSTS = st.sampled_from([0.0, 0.0005, 0.002, 0.03, 0.5])


def job(client, partition=0) -> JudgingJob:
    return JudgingJob(("t", partition), client, "P", "", None, None, 9, math.inf)


def judge(queue: JobQueue, took_s: float) -> JudgingJob:
    taken = queue.take()
    queue.settle(taken, took_s)
    return taken


def test_small_batches_are_taken_from_each_client_in_turn():
    queue: JobQueue = JobQueue(0)
    for client in "aaabbbccc":
        queue.add(job(client))
    assert [judge(queue, 0.0001).client for _ in range(9)] == [*"abcabcabc"]


def test_a_client_whose_batches_turned_out_slow_comes_later():
    queue: JobQueue = JobQueue(0)
    for client in "aabbbb":
        queue.add(job(client))
    assert judge(queue, 0.1).client == "a"
    assert [judge(queue, 0.001).client for _ in range(5)] == [*"bbbba"]


def test_a_recalled_job_is_the_next():
    queue: JobQueue = JobQueue(0)
    for client in "aab":
        queue.add(job(client))
    judge(queue, 5.0)
    (first, second) = (queue.take(), queue.take())
    assert (first.client, second.client) == ("b", "a")
    queue.requeue(second)
    assert queue.take() is second


@given(
    st.lists(st.tuples(st.integers(0, 4), COSTS, st.booleans()), min_size=1, max_size=200),
)
def test_everything_that_is_added_is_taken_once_and_in_order(steps):
    queue: JobQueue = JobQueue(0)
    added: list[JudgingJob] = []
    taken: list[JudgingJob] = []
    for client, cost_s, back in steps:
        for partition in range(2):
            added.append(job(client, partition))
            queue.add(added[-1])
        current = queue.take()
        if back:
            queue.requeue(current)
            assert queue.take() is current
        taken.append(current)
        queue.settle(current, cost_s)
    while queue.job_count:
        taken.append(judge(queue, 0.01))
    assert len(taken) == len(added)
    assert set(taken) == set(added)
    number = {current: n for n, current in enumerate(added)}
    for client in range(5):
        for partition in range(2):
            of_it = [
                number[current]
                for current in taken
                if (current.client, current.topic_partition[1]) == (client, partition)
            ]
            assert of_it == sorted(of_it)
    assert not list(queue)


@given(st.lists(st.sampled_from([0.001, 0.004, 0.02, 0.09]), min_size=2, max_size=8))
def test_clients_that_always_have_more_get_the_same_time(costs):
    queue: JobQueue = JobQueue(0)
    spent = [0.0] * len(costs)
    for client in range(len(costs)):
        for _ in range(3):
            queue.add(job(client))
    for _ in range(400):
        current = queue.take()
        queue.settle(current, costs[current.client])
        spent[current.client] += costs[current.client]
        queue.add(job(current.client))
    assert max(spent) - min(spent) <= 3 * max(costs)


@pytest.mark.parametrize("cost_s", [LEAST_S / 2, 0.05])
def test_clients_that_are_gone_leave_nothing(cost_s):
    queue: JobQueue = JobQueue(0)
    queue.add(job("stays"))
    for client in range(5_000):
        for _ in range(2):
            queue.add(job(client))
        judge(queue, cost_s)
        queue.cancel(client)
    assert len(queue._turns._order) < 200
    assert len(queue._turns._by_client) < 200


def test_clients_that_need_not_wait_and_are_quick_are_not_kept():
    queue: JobQueue = JobQueue(0)
    for client in range(1_000):
        queue.pass_through(job(client))
    assert not queue._turns._by_client


def test_clients_that_were_slow_once_are_forgotten():
    queue: JobQueue = JobQueue(0)
    for client in range(10_000):
        current = job(client)
        queue.pass_through(current)
        queue.settle(current, 0.1)
    assert len(queue._turns._by_client) < 1_000


def test_a_slow_client_is_not_kept_waiting_for_ever_by_many_that_always_have_more():
    """Each batch of it is given up, and sent again: the next one then has its turn."""
    queue: JobQueue = JobQueue(0)
    for client in [*range(100)] * 2:
        queue.add(job(client))
    now, judged = 0.0, 0
    for _ in range(10):
        sent, gives_up = job("slow"), now + 22.5
        queue.add(sent)
        taken = None
        while now < gives_up and taken is not sent:
            taken = queue.take()
            took_s = 0.3 if taken is sent else 0.005
            queue.settle(taken, took_s)
            now += took_s
            if taken is not sent:
                queue.add(job(taken.client))
        if taken is sent:
            judged += 1
        else:
            queue.discard(sent)
    assert judged >= 5


def waits_beside_clients_that_leave(*, stays: bool) -> list[float]:
    """Return how long a client of quick batches waits for each, one at a time.

    Every 50 ms another client sends five batches that take 0.2 s, and leaves a second later: more
    than there is time for.
    """
    gone: set[object] = set()
    queue: JobQueue = JobQueue(0, gone=gone)
    now, arrivals, sent_at, waits = 0.0, 0, None, []
    while now < 60:
        while arrivals * 0.05 <= now:
            client = arrivals
            arrivals += 1
            for _ in range(5):
                queue.add(job(client))
            queue.leave(client - 20)
            gone.add(client - 20)
        if sent_at is None:
            queue.add(job("good" if stays else f"good {now}"))
            sent_at = now
        taken = queue.take()
        is_good = str(taken.client).startswith("good")
        now += 0.0005 if is_good else 0.2
        queue.settle(taken, 0.0005 if is_good else 0.2)
        if is_good:
            waits.append(now - sent_at)
            sent_at = None
            queue.cancel(taken.client) if not stays else None
    return waits


@pytest.mark.parametrize("stays", [True, False], ids=["stays", "connects for each"])
def test_clients_that_send_slow_batches_and_leave_share_a_turn(stays):
    waits = waits_beside_clients_that_leave(stays=stays)
    assert len(waits) > 100
    assert sorted(waits)[len(waits) // 2] < (0.25 if stays else 0.5)
    assert max(waits) < 1.0


def test_a_new_client_does_not_wait_longer_because_of_another_new_client():
    """Many clients always have more: the first batch of a new client is judged before its deadline."""
    queue: JobQueue = JobQueue(0)

    def take(*, seconds: float = 0.005) -> JudgingJob:
        taken = queue.take()
        queue.settle(taken, 5.0 if taken.client == "slow" else seconds)
        if isinstance(taken.client, int):
            queue.add(job(taken.client))
        return taken

    for client in [*range(100)] * 2:
        queue.add(job(client))
    for _ in range(200):
        take()
    queue.add(job("slow"))
    while take().client != "slow":
        pass
    queue.add(job("new"))
    before = 0
    while take().client != "new":
        before += 1
    assert before * 0.005 < 10


def test_jobs_of_disconnected_clients_are_judged_in_order_and_can_be_cancelled():
    gone: set[object] = set()
    queue: JobQueue = JobQueue(0, gone=gone)
    jobs = [job(client, partition) for client in "abc" for partition in (0, 0, 1)]
    for current in jobs:
        queue.add(current)
    for client in "ab":
        queue.leave(client)
        gone.add(client)
    late = job("a")
    queue.add(late)
    first = queue.take()
    queue.requeue(first)
    assert queue.take() is first
    queue.requeue(first)
    assert set(queue.cancel("b")) == set(jobs[3:6])
    into: JobQueue = JobQueue(topic_partition=("t", 1), gone=gone)
    queue.split(("t", 1), into)
    assert set(into) == {jobs[2], jobs[8]}
    queue.discard(jobs[7])
    taken = [queue.take() for _ in range(queue.job_count)]
    assert [current for current in taken if current.client == "a"] == [jobs[0], jobs[1], late]
    assert [current for current in taken if current.client == "c"] == [jobs[6]]
    assert {into.take() for _ in range(into.job_count)} == {jobs[2], jobs[8]}
    assert not list(queue)
    assert not list(into)


class Random:
    """Numbers that look random: a linear congruential generator."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, end: int) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 33) % end


def order_of_a_history(seed: int) -> list[int]:
    """Return the order in which the batches of a random history are begun.

    Each batch is of another partition, as those of a connection that has one request at a time.
    """
    random, queue = Random(seed), JobQueue[None](0)
    begun: list[JudgingJob] = []
    order: list[int] = []
    count = 0
    for _ in range(240):
        kind = random.below(8)
        if kind < 4:
            new = job(random.below(8), count)
            if not queue.job_count and random.below(2) == 0:
                queue.pass_through(new)
                begun.append(new)
                order.append(count)
            else:
                queue.add(new)
            count += 1
        elif kind < 6:
            if queue.job_count:
                begun.append(queue.take())
                order.append(begun[-1].topic_partition[1])
        elif begun:
            done = begun.pop(random.below(len(begun)))
            took_s = [0.0002, 0.0008, 0.004, 0.03, 0.5][(done.client + random.below(3)) % 5]
            if took_s > LEAST_S or done.expected_s:
                queue.settle(done, took_s)
    while queue.job_count:
        order.append(queue.take().topic_partition[1])
    return order


def test_native_threads_have_the_same_turns():
    """`native/tests/turns.rs` compares its orders with this file, too."""
    orders = Path(__file__).parents[2] / "native/tests/turns.txt"
    lines = (" ".join(map(str, order_of_a_history(seed))) for seed in range(16))
    assert "".join(f"{line}\n" for line in lines) == orders.read_text()
