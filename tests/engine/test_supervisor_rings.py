"""A supervisor and the outcomes of batches that were judged through rings before Python had them."""

import asyncio
import os
from pathlib import Path

import pytest

from penstock import _native
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED
from penstock.engine.workers import messages, supervisor
from penstock.engine.workers.batch_to_judge import NOT_BEGUN, EarlyOutcome
from penstock.engine.workers.processes.child import Child
from penstock.engine.workers.processes.worker import Worker
from penstock.engine.workers.rings import WorkerRings
from tests.engine.fake_rings import IdleNative
from tests.engine.played import KILLED, NO, Supervised, judged, until
from tests.engine.supervised import Judging

PLAN = TopicPlan(topic="t", validators=("a.V",))


def with_rings(**properties):
    return Supervised(rings=WorkerRings(IdleNative, 1), **properties)


def early(supervised, number=1, *, plan=PLAN, is_accepted=False, took_s=0.0, waited_s=0.0):
    """Return the outcome of a batch of the worker that judges."""
    ring = supervised.process.ring.number
    return EarlyOutcome(plan.encoded, ring, number, is_accepted, took_s, waited_s)


def judges(supervised):
    return len(supervised.process.of("judge"))


async def test_an_early_outcome_is_not_judged_again():
    async with with_rings() as supervised:
        assert supervised.submit(early=early(supervised, is_accepted=True)) == [ACCEPTED]
        refused = supervised.submit(early=early(supervised, 2))
        assert refused == []
        supervised.supervisor.on_ring_verdict(supervised.process.worker, 2, NO, 0.1)
        assert refused == [NO]
        assert judges(supervised) == 0


@pytest.mark.parametrize("is_accepted", [True, False])
async def test_an_early_outcome_of_replaced_policies_is_judged_again(is_accepted):
    """Their plan is the same: their class, or its properties, may not be."""
    async with with_rings() as previous, with_rings() as current:
        outcome = early(previous, is_accepted=is_accepted, took_s=3.0, waited_s=4.5)
        previous.supervisor.on_ring_verdict(previous.process.worker, 1, NO, 0.1)
        verdicts = current.submit(early=outcome)
        assert verdicts == []
        current.process.answer(NO)
        assert verdicts == [NO]
        assert judges(previous) == 0
        assert current.observer.waits == [pytest.approx(7.0, abs=1.0)]


async def test_the_time_before_python_counts_for_the_client_of_a_batch(monkeypatch):
    """It has three quarters of its time, wherever it waits."""
    async with with_rings() as supervised:
        jobs = []
        monkeypatch.setattr(
            supervised.supervisor.schedule, "submit", lambda job, _: jobs.append(job)
        )
        for waited_s in (0.0, 5.0):
            not_begun = early(supervised, NOT_BEGUN, waited_s=waited_s)
            assert supervised.submit(early=not_begun, timeout_ms=10_000) == []
        first, second = (job.deadline for job in jobs)
        assert first - second == pytest.approx(5.0, abs=1.0)


async def test_an_early_outcome_of_another_plan_is_judged_again():
    """The topic was altered meanwhile."""
    async with with_rings() as supervised:
        other = TopicPlan(topic="t", validators=("a.V", "b.V"))
        outcome = early(supervised, is_accepted=True, took_s=3.0, waited_s=4.5)
        verdicts = supervised.submit(other, early=outcome)
        assert verdicts == []
        assert judged(supervised.process.of("judge")[-1])[0] == other
        supervised.process.answer(NO)
        assert supervised.observer.waits == [pytest.approx(7.0, abs=1.0)]


@pytest.mark.parametrize("is_accepted", [True, False])
async def test_a_batch_that_loses_records_again_is_judged_again(is_accepted):
    """The worker that accepted or refused it has seen the records that are dropped."""
    async with with_rings() as supervised:
        outcome = early(supervised, is_accepted=is_accepted)
        supervised.supervisor.on_ring_verdict(supervised.process.worker, 1, NO, 0.1)
        verdicts = supervised.submit(early=outcome, dropped_before=(0,))
        assert verdicts == []
        plan, dropped, _, _ = judged(supervised.process.of("judge")[-1])
        assert (plan, dropped) == (PLAN, messages.positions_before((0,), ()))
        supervised.process.answer(ACCEPTED)
        assert verdicts == [ACCEPTED]


async def test_replaced_policies_end_after_the_verdict_on_the_batch_in_hand():
    async with with_rings() as supervised:
        supervisor, process = supervised.supervisor, supervised.process
        verdicts = supervised.submit(early=early(supervised))
        closing = asyncio.ensure_future(supervisor.close(drain_s=60.0))
        await asyncio.sleep(0.1)
        assert process.of("close") == []
        supervisor.on_ring_verdict(process.worker, 1, NO, 0.1)
        await closing
        assert verdicts == [NO]
        assert process.of("judge") == []


async def test_a_batch_in_hand_of_a_worker_that_is_killed_is_judged_again():
    async with with_rings() as supervised:
        first = supervised.process
        verdicts = supervised.submit(early=early(supervised))
        first.die(KILLED)
        await until(lambda: any(p is not first and p.of("judge") for p in supervised.processes))
        supervised.process.answer(ACCEPTED)
        assert verdicts == [ACCEPTED]


async def test_the_time_of_an_early_outcome_counts_as_waiting_and_judging():
    async with with_rings() as supervised:
        observer = supervised.observer
        supervised.submit(early=early(supervised, is_accepted=True, took_s=2.0, waited_s=3.0))
        assert observer.verdicts == [("a.V", None, 2.0)]
        assert observer.waits == [pytest.approx(3.0, abs=1.0)]
        # Of a batch that was in the worker's hand, its verdict has the time.
        supervised.submit(early=early(supervised, 2, waited_s=9.0))
        supervised.supervisor.on_ring_verdict(supervised.process.worker, 2, NO, 4.0)
        assert observer.verdicts[1:] == [("a.V", NO.cause, 4.0)]
        assert observer.waits[1:] == [pytest.approx(5.0, abs=1.0)]
        # Or it is not known: as if its worker had ended.
        supervised.submit(early=early(supervised, 3, waited_s=9.0))
        supervised.supervisor.rings.put_verdict(supervised.process.worker, 3, ACCEPTED)
        assert observer.verdicts[2:] == [("a.V", None, pytest.approx(9.0, abs=1.0))]
        assert observer.waits[2:] == [0.0]


class Transport:
    """A socket to a worker, which is sent everything at once."""

    def __init__(self, calls):
        self.calls = calls

    def get_write_buffer_size(self):
        return 0

    def is_closing(self):
        return False

    def writelines(self, buffers):
        self.calls.append(b"".join(buffers))


def test_a_worker_has_shared_values_before_batches_that_are_written_later():
    ring = IdleNative.Ring(1, 1)
    supervised = with_rings()
    child = Child(Worker(1), supervised.supervisor, ring=ring)
    child._transport = Transport(ring.calls)
    for number in (1, 2):
        child.share([b"shared ", b"values"])
        shared = b"shared values" + messages.mark(number)
        assert ring.calls[-2:] == [shared, f"expect mark {number}"]


def files_of(descriptors):
    """Return what identifies the open files, or pipes, of some processes."""
    found = map(Path.stat, descriptors)
    return {(status.st_dev, status.st_ino) for status in found}


def descriptors_of(pid, *numbers):
    """Return descriptors of a process; all by default."""
    folder = Path(f"/proc/{pid}/fd")
    return [folder / str(number) for number in numbers] or list(folder.iterdir())


@pytest.mark.system
@pytest.mark.skipif(not hasattr(_native, "Ring"), reason="native threads need Linux")
async def test_a_process_has_the_descriptors_of_no_other_ring(tmp_path):
    """A class could write into the rings of others; not by mistake alone."""
    children = []

    class Listed(Child):
        async def start(self):
            await super().start()
            children.append(self)

    rings = [WorkerRings(_native, 2) for _ in range(2)]
    of_two = {"policy.workers": 2, "child": Listed}
    folders = [tmp_path / "previous", tmp_path / "current"]
    for folder in folders:
        folder.mkdir()
    async with (
        Judging(folders[0], rings=rings[0], **of_two),
        Judging(folders[1], rings=rings[1], **of_two) as judging,
    ):
        os.kill(judging.supervisor.pids[0], 9)
        await until(lambda: len(children) >= 2 * 3 + 1)  # one more of each is spare
        alive = [child for child in children if child._process.poll() is None]
        files_of_rings = [
            files_of(descriptors_of(os.getpid(), *child.ring.descriptors())) for child in alive
        ]
        for child, own in zip(alive, files_of_rings, strict=True):
            found = files_of(descriptors_of(child.pid))
            assert own <= found
            for other in files_of_rings:
                assert other is own or not other & found


async def test_an_instance_is_closed_after_its_last_batch_in_a_ring(monkeypatch):
    monkeypatch.setattr(supervisor, "_RETIRE_S", 0.1)
    plan = TopicPlan(topic="t", records_policy="b.P")
    async with with_rings() as supervised:
        closed = lambda: supervised.process.of("retire")  # noqa: E731 - it is short
        supervised.submit(plan)
        supervised.process.answer(ACCEPTED)
        supervised.process.ring.open = [plan.encoded, PLAN.encoded]
        supervised.supervisor.retain("t", ())
        await asyncio.sleep(0.3)
        assert closed() == []
        supervised.process.ring.open = [PLAN.encoded]
        await until(closed)
        assert len(closed()) == 1


async def test_native_threads_know_no_topic_whose_instance_is_to_be_closed():
    """No batch of a ring would have it closed."""
    plan = TopicPlan(topic="t", records_policy="b.P")
    async with with_rings() as supervised:
        may_be_known = supervised.supervisor.may_be_known
        assert may_be_known(PLAN)
        assert not may_be_known(plan)
        supervised.submit(plan)
        assert may_be_known(plan)
        supervised.supervisor.retain("t", ["b.P"])
        assert may_be_known(plan)
        supervised.supervisor.retain("t", ())
        assert not may_be_known(plan)  # the last batch is not judged yet
        supervised.process.answer(ACCEPTED)
        assert not may_be_known(plan)
        supervised.submit(plan)
        assert may_be_known(plan)


async def test_an_instance_that_is_used_again_is_not_closed(monkeypatch):
    monkeypatch.setattr(supervisor, "_RETIRE_S", 0.1)
    plan = TopicPlan(topic="t", records_policy="b.P")
    async with with_rings() as supervised:
        for _ in range(2):
            supervised.submit(plan)
            supervised.process.answer(ACCEPTED)
            supervised.supervisor.retain("t", ())
            supervised.submit(plan)
            supervised.process.answer(ACCEPTED)
        await asyncio.sleep(0.3)
        assert supervised.process.of("retire") == []
        supervised.supervisor.retain("t", ())
        await until(lambda: supervised.process.of("retire"))
