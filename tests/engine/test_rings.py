"""Rings of workers: what the parent keeps of them."""

import socket
import threading

import pytest
from structlog.testing import capture_logs

from penstock import _native
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, refused, replaced
from penstock.engine.workers.batch_to_judge import NOT_BEGUN, EarlyOutcome
from penstock.engine.workers.processes.worker import Worker
from penstock.engine.workers.rings import SLOW_S, FromRing, RingFigures, WorkerRings, put_back
from tests.engine.fake_rings import FakeNative, FakePool

REFUSED = refused(87, "no", "P")


@pytest.fixture
def sockets():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


class Clock:
    """A clock that stands."""

    now = 100.0

    def __call__(self):
        return self.now


def rings_of(*workers):
    clock = Clock()
    rings = WorkerRings(FakeNative, 2, clock)
    return rings, clock, [rings.open(worker) for worker in workers]


def test_slots_have_the_rings_of_their_workers():
    first, second = Worker(1), Worker(2)
    rings, _, (of_first, of_second) = rings_of(first, second)
    rings.follow([first, None, second])
    assert rings.pool.slots == [of_first, None, of_second]
    assert of_first.number != of_second.number
    assert rings.figures() == dict.fromkeys((first, second), RingFigures(3, 5, 2, 1, False))


def test_a_worker_that_ends_gets_no_batches():
    first, second = Worker(1), Worker(2)
    rings, _, (of_first, of_second) = rings_of(first, second)
    rings.follow([first, second])
    rings.close(first)
    assert rings.pool.slots == [None, of_second]
    assert of_first.calls == ["close"]
    rings.close(first)
    rings.recall(first)
    assert of_first.calls == ["close"]


def test_a_ring_that_was_recalled_takes_batches_again_when_its_worker_serves():
    first, second = Worker(1), Worker(2)
    rings, _, (ring, _) = rings_of(first, second)
    rings.follow([first, second])
    rings.recall(first)
    rings.follow([None, second])
    assert ring.calls == ["recall"]
    rings.follow([first, second])
    rings.follow([first, second])
    assert ring.calls == ["recall", "resume"]


def test_without_descriptors_a_worker_has_no_ring():
    class Without(FakeNative):
        @staticmethod
        def Ring(*_):  # noqa: N802 - a class
            raise OSError("too many open files")

    rings = WorkerRings(Without, 2)
    with capture_logs() as logged:
        assert [rings.open(Worker(number)) for number in (1, 2)] == [None, None]
    event = "native threads have no ring of a worker"
    assert [(line["event"], line["reason"]) for line in logged] == [(event, "too many open files")]
    rings.follow([None])
    assert rings.figures() == {}


def test_a_topic_that_blocked_a_worker_stays_away_for_a_while():
    worker = Worker(1)
    rings, clock, (ring,) = rings_of(worker)
    rings.recall(worker)
    assert rings.serves("orders")
    ring.plan = TopicPlan(topic="orders").encoded
    rings.recall(worker)
    assert not rings.serves("orders")
    assert rings.serves("payments")
    clock.now += SLOW_S
    assert rings.serves("orders")


class Verdicts(list):
    """The verdicts that were given, and how long their batches took."""

    def __init__(self):
        super().__init__()
        self.times = []

    def add(self, verdict, took_s):
        self.append(verdict)
        self.times.append(took_s)


def early(ring, number=7, *, is_accepted=False):
    return EarlyOutcome(b"plan", ring.number, number, is_accepted, 0.25, 0.5)


def test_a_verdict_is_given_to_who_expects_it_whatever_comes_first():
    worker = Worker(1)
    rings, _, (ring,) = rings_of(worker)
    verdicts = Verdicts()
    rings.put_verdict(worker, 7, REFUSED, 0.1)
    rings.expect_verdict(early(ring), verdicts.add)
    rings.expect_verdict(early(ring, 8), verdicts.add)
    assert verdicts == [REFUSED]
    rings.put_verdict(worker, 8, REFUSED, 0.2)
    assert verdicts == [REFUSED] * 2
    rings.expect_verdict(early(ring, 9, is_accepted=True), verdicts.add)
    assert verdicts[2] is ACCEPTED
    assert verdicts.times == [0.1, 0.2, 0.25]


def test_the_outcome_of_a_batch_that_no_worker_has_begun_is_none_at_once():
    rings, _, (ring,) = rings_of(Worker(1))
    verdicts = Verdicts()
    rings.expect_verdict(early(ring, NOT_BEGUN), verdicts.add)
    assert verdicts == [None]


@pytest.mark.parametrize("is_accepted", [True, False])
def test_an_outcome_of_other_policies_is_none_although_their_plan_is_the_same(is_accepted):
    """After a reload: the class may be another, or its properties."""
    worker = Worker(1)
    previous, _, (ring,) = rings_of(worker)
    current, _, (ring_now,) = rings_of(Worker(1))
    verdicts = Verdicts()
    previous.put_verdict(worker, 7, REFUSED)
    current.expect_verdict(early(ring, is_accepted=is_accepted), verdicts.add)
    assert verdicts == [None]
    previous.expect_verdict(early(ring, is_accepted=is_accepted), verdicts.add)
    current.expect_verdict(early(ring_now, is_accepted=True), verdicts.add)
    assert verdicts[1:] == [ACCEPTED if is_accepted else REFUSED, ACCEPTED]


def test_an_acceptance_stays_one_when_its_worker_has_ended():
    worker = Worker(1)
    rings, _, (ring,) = rings_of(worker)
    rings.close(worker)
    rings.forget(worker, "")
    rings.open(Worker(2))
    verdicts = Verdicts()
    rings.expect_verdict(early(ring, is_accepted=True), verdicts.add)
    assert verdicts == [ACCEPTED]


def test_a_verdict_that_is_lost_with_its_worker_is_none():
    worker = Worker(1)
    rings, _, (ring,) = rings_of(worker)
    verdicts = Verdicts()
    rings.expect_verdict(early(ring), verdicts.add)
    rings.close(worker)
    rings.forget(worker, "")
    rings.expect_verdict(early(ring), verdicts.add)
    assert verdicts == [None, None]


def test_the_batch_that_ended_its_worker_is_refused_for_that():
    worker = Worker(1)
    rings, _, (ring,) = rings_of(worker)
    verdicts = Verdicts()
    ring.plan = TopicPlan(topic="orders").encoded
    rings.expect_verdict(early(ring, 2), verdicts.add)
    rings.close(worker)
    rings.forget(worker, "ended its process")
    rings.expect_verdict(early(ring, 3), verdicts.add)  # the current batch of the ring
    assert verdicts[0] is None
    assert "ended its process" in verdicts[1].message


def test_a_batch_that_is_accepted_late_is_given_to_who_expects_it():
    worker = Worker(1)
    rings, _, (ring,) = rings_of(worker)
    verdicts = Verdicts()
    rings.expect_verdict(early(ring, 5), verdicts.add)
    rings.expect_verdict(early(ring, 6), verdicts.add)
    rings.put_late()
    assert verdicts == [ACCEPTED, None]  # the other was not begun


def test_verdicts_that_nobody_expects_are_bounded():
    worker = Worker(1)
    rings, _, (ring,) = rings_of(worker)
    for number in range(5000):
        rings.put_verdict(worker, number, REFUSED)
    verdicts = Verdicts()
    rings.expect_verdict(early(ring, 4999), verdicts.add)
    rings.expect_verdict(early(ring, 0), verdicts.add)
    assert verdicts == [REFUSED, None]  # it is judged again


@pytest.mark.skipif(not hasattr(_native, "Ring"), reason="native threads need Linux")
def test_both_ends_of_a_ring_share_memory(sockets):
    ring = _native.Ring(1, 2)
    memory, work, *outcomes = ring.descriptors()
    assert len(outcomes) == 2
    reader = _native.RingReader(memory, work, outcomes)
    assert not reader.has_more
    reader.begin(print, None, None, None, 1, 1)
    ours, theirs = sockets
    waiting = threading.Timer(0.01, ours.send, [b"x"])
    waiting.start()
    assert reader.judge(theirs.fileno()) == (True, None)
    waiting.join()
    assert ring.figures() == (0, 0, 0, 0, False)
    assert ring.recall() == b""
    assert ring.close() == b""
    with pytest.raises(OSError, match=r"(?i)invalid"):
        _native.RingReader(work, work, outcomes)


class Observer:
    """Keeps what it gets."""

    def __init__(self):
        self.judged, self.again, self.left_out = [], [], []

    def put_judged(self, batch, verdict, took_s):
        self.judged.append((batch, verdict, took_s))

    def judge_again(self, batch):
        self.again.append(batch)

    def leave_out(self, *of):
        self.left_out.append(of)


BATCH = FromRing(b"plan", 0, bytes(16), 9, 1, None, "c", None, b"data", 4)


def observing(worker):
    rings, clock, (ring,) = rings_of(worker)
    rings.clock = clock
    rings.observer = Observer()
    return rings, ring, rings.observer


def test_batches_that_are_only_observed_are_given_to_their_observer():
    worker = Worker(1)
    rings, ring, observer = observing(worker)
    rings.put_verdict(worker, 1, REFUSED, 0.5)
    rings.pool.observed = [(ring.number, n, 0.5, BATCH) for n in (1, 2)], [BATCH], [(b"p", 2, 3)]
    rings.put_late()
    assert observer.judged == [(BATCH, REFUSED, 0.5)]
    assert (observer.again, observer.left_out) == ([BATCH], [(b"p", 2, 3)])
    assert rings.is_awaited
    rings.put_verdict(worker, 2, REFUSED, 0.25)
    assert observer.judged[1:] == [(BATCH, REFUSED, 0.25)]
    assert not rings.is_awaited


@pytest.mark.parametrize("blame", ["ended its process", ""])
def test_the_batch_that_ended_its_worker_is_to_blame_and_is_judged_again_otherwise(blame):
    worker = Worker(1)
    rings, ring, observer = observing(worker)
    ring.plan = TopicPlan(topic="t", validators=("a.V",)).encoded
    rings.close(worker)
    rings.pool.observed = [(ring.number, 3, 0.0, BATCH)], [], []
    rings.forget(worker, blame)
    assert "abandon" in ring.calls
    assert (len(observer.judged), len(observer.again)) == ((1, 0) if blame else (0, 1))


def test_verdicts_that_nobody_takes_have_no_unlimited_bytes():
    worker = Worker(1)
    rings, _, (ring,) = rings_of(worker)
    large = replaced(bytes(10 * 2**20), (0,))
    for number in (1, 2, 3, 4, 4, 4):
        rings.put_verdict(worker, number, large)
    found = []
    for number in (1, 2, 3, 4):
        early = EarlyOutcome(b"", ring.number, number, False, 0.0, 0.0)
        rings.expect_verdict(early, lambda verdict, _: found.append(verdict))
    assert found == [None, large, large, large]


def test_a_verdict_that_a_class_only_claims_is_not_waited_for_long():
    rings, ring, observer = observing(Worker(1))
    numbers = range(10, 50)
    rings.pool.observed = [(ring.number, number, 0.0, BATCH) for number in numbers], [], []
    rings.put_late()
    assert rings.is_awaited
    rings.clock.now += 1
    rings.put_late()
    assert rings.is_awaited
    rings.clock.now += 1
    rings.put_late()
    assert not rings.is_awaited
    assert observer.again == [BATCH] * len(numbers)  # each keeps its room until then


def test_the_batch_that_ends_its_worker_counts_with_the_time_that_it_took():
    worker = Worker(1)
    rings, ring, observer = observing(worker)
    ring.plan = TopicPlan(topic="t", validators=("a.V",)).encoded
    rings.figures()
    for _ in range(5):
        rings.clock.now += 1
        rings.figures()
    rings.close(worker)
    rings.clock.now += 7
    rings.pool.observed = [(ring.number, 3, 0.0, BATCH)], [], []
    rings.forget(worker, "did not decide")
    assert [took_s for *_, took_s in observer.judged] == [5.0]


def test_a_topic_that_is_only_observed_leaves_rings_if_it_ends_its_worker_and_not_if_it_is_slow():
    worker = Worker(1)
    rings, ring, _ = observing(worker)
    ring.plan = TopicPlan(topic="t", validators=("a.V",)).encoded
    rings.recall(worker)
    assert rings.serves("t")
    rings.close(worker)
    assert not rings.serves("t")


class Failing(Observer):
    """Fails once for each kind of call."""

    def __init__(self):
        super().__init__()
        self.failed = set()

    def _fail(self, name):
        if name not in self.failed:
            self.failed.add(name)
            raise ValueError(name)

    def put_judged(self, *of):
        self._fail("judged")
        super().put_judged(*of)

    def judge_again(self, *of):
        self._fail("again")
        super().judge_again(*of)

    def leave_out(self, *of):
        self._fail("left out")
        super().leave_out(*of)


def test_an_error_with_a_batch_that_is_observed_concerns_no_other():
    worker = Worker(1)
    rings, ring, _ = observing(worker)
    observer = rings.observer = Failing()
    rings.put_verdict(worker, 1, REFUSED, 0.5)
    rings.put_verdict(worker, 2, REFUSED, 0.5)
    refused_batches = [(ring.number, number, 0.5, BATCH) for number in (1, 2, 3)]
    rings.pool.observed = refused_batches, [BATCH] * 2, [(b"p", 2, 3)] * 2
    with capture_logs() as events:
        rings.put_late()
    assert len(events) == 3
    rings.put_verdict(worker, 3, REFUSED, 0.5)
    assert [len(each) for each in (observer.judged, observer.again, observer.left_out)] == [2, 1, 1]


def test_without_workers_batches_that_are_observed_are_given_back():
    pool, observer = FakePool(), Observer()
    pool.observed = [(1, 2, 0.5, BATCH)], [BATCH], [(b"p", 2, 3)]
    put_back(pool, observer)
    assert (observer.again, observer.left_out) == ([BATCH] * 2, [(b"p", 2, 3)])


def found_of(rings, ring, *numbers):
    """Return the verdicts on batches; those that still may come are missing."""
    found = {}
    for number in numbers:
        early = EarlyOutcome(b"", ring.number, number, False, 0.0, 0.0)
        rings.expect_verdict(
            early, lambda verdict, _, number=number: found.update({number: verdict})
        )
    return found


def test_a_verdict_that_is_too_large_to_be_kept_removes_no_other():
    worker = Worker(1)
    rings, _, (ring,) = rings_of(worker)
    rings.put_verdict(worker, 1, REFUSED)
    rings.put_verdict(worker, 9, replaced(bytes(40 * 2**20), (0,)))
    assert found_of(rings, ring, 1, 5, 9) == {1: REFUSED, 9: None}
    rings.put_verdict(worker, 5, REFUSED)  # sent before, and received after it


def test_only_the_verdicts_that_were_removed_are_lost():
    worker = Worker(1)
    rings, _, (ring,) = rings_of(worker)
    for number in (2**63, *range(10, 1_010)):
        rings.put_verdict(worker, number, REFUSED)
    assert found_of(rings, ring, 3, 9, 10, 2**63) == {10: REFUSED, 2**63: None}
    for number in range(2_000, 2_000 + 3 * 1_000):
        rings.put_verdict(worker, number, REFUSED)
    assert found_of(rings, ring, 10, 2_000, 6_000) == {10: None, 2_000: None}


def test_verdicts_of_a_worker_that_has_ended_do_not_stay():
    worker = Worker(1)
    rings, clock, (ring,) = rings_of(worker)
    rings.put_verdict(worker, 1, REFUSED)
    rings.close(worker)
    rings.forget(worker, "")
    clock.now += 59
    rings.put_late()
    assert (ring.number, 1) in rings._verdicts
    clock.now += 1
    rings.put_late()
    assert (ring.number, 1) not in rings._verdicts
    other = Worker(2)
    rings, ring, _ = observing(other)
    rings.put_verdict(other, 1, REFUSED)
    rings.close(other)
    rings.forget(other, "")
    assert (ring.number, 1) not in rings._verdicts
    rings.put_verdict(other, 2, REFUSED)
    assert not rings._verdicts._verdicts
