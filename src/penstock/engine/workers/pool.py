"""The workers together: who judges which batch, until when, and what follows a death.

A partition's batches go to the same worker, chosen by its name and number. When a worker is
held up by one batch, those behind it go to another one, started for the purpose if need be:
a slow policy on one topic does not delay the others. One more process waits, started but
without policies loaded, so that a replacement is there at once.

Rules for the next editor: every job is answered exactly once, by a verdict or by a failure;
a death is charged only to the batch that was being judged.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import structlog

from penstock.configuration import ConfigurationError
from penstock.engine.interception import unable
from penstock.engine.plan import Plan
from penstock.engine.verdict import OUT_OF_MEMORY, failed, timed_out
from penstock.engine.workers import messages
from penstock.engine.workers.timeouts import TimedOutBatches, batch_of
from penstock.engine.workers.worker import State, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from uuid import UUID

    from penstock.configuration import Configuration
    from penstock.engine.plan import TopicPlan
    from penstock.engine.verdict import Verdict
    from penstock.engine.workers.worker import Patterns

    Place = tuple[str, int]
    Instance = tuple[str, str]
    """A topic and its class of KIP-686."""

log = structlog.get_logger()

HELD_UP_S = 0.1
"""A worker busy with one batch for so long is not given another partition's."""
_TICK_S = 0.02
_OVERDUE = "did not decide"
_LOAD_MIN_S = 30.0
_EXTRA_IDLE_S = 60.0
_SHARE_OF_TIMEOUT = 0.75
"""Interceptors have so much of the time after which the client itself gives up a request; the
rest is the broker's."""
_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 0.5, 30.0


@dataclass(slots=True, eq=False)
class Job:
    """One partition's batch, or a question about a topic, on its way through the workers.

    Attributes:
        number: Tells it from others.
        place: Topic and partition: what one worker judges in order.
        policies: The names of all classes that look at it.
        buffers: The message; the last buffer of a batch is what the client sent.
        done: Takes the verdict.
        size: How much of it waits.
        submitted: When it came.
        deadline: When its client gives it up.
        interceptors: The names of those classes that are interceptors.
        records_policy: The class of KIP-686 among them.
    """

    number: int
    place: Place
    policies: str
    buffers: tuple[bytes | memoryview, ...]
    done: Callable[[Verdict], None]
    size: int
    submitted: float
    deadline: float = math.inf
    interceptors: str = ""
    records_policy: str | None = None
    attempts: int = 0
    owner: Worker | None = None
    alone: bool = False
    answered: bool = False

    def answer(self, verdict: Verdict) -> None:
        """Answer, unless that was done already."""
        if not self.answered:
            self.answered = True
            self.buffers = ()
            self.done(verdict)


class _Known(NamedTuple):
    """A plan as it is sent, and its classes in a sentence."""

    encoded: bytes
    policies: str
    interceptors: str


class Pool:
    """Runs the policies of one configuration."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        names: Mapping[str, Sequence[str]] | None = None,
        size: int | None = None,
        spare: bool = True,
    ) -> None:
        """Prepare; nothing is started.

        Args:
            configuration: Names the policies.
            names: Which of them are loaded, by key; those of records unless given.
            size: How many workers; `policy.workers` unless given.
            spare: Whether one more process waits, so that a replacement is there at once.
        """
        self._size: int = size or configuration["policy.workers"]
        self._timeout_s: float = configuration["policy.timeout.ms"] / 1000
        self._interceptors_timeout_s: float = (
            configuration["produce.request.interceptors.timeout.ms"] / 1000
        )
        self._retries: int = configuration["produce.request.interceptors.max.timeout.retries"]
        self._failed_code: int = configuration["produce.request.interceptors.failed.error.code"]
        self._timed_out = TimedOutBatches()
        self.patterns: Patterns = []
        self.wants_context = False
        self._load_message = messages.load(
            configuration.path,
            configuration.properties,
            Plan(configuration).names if names is None else names,
        )
        self._with_spare = spare
        self._in_use: Counter[Instance] = Counter()
        self._instances: dict[str, set[str]] = {}
        self._retiring: set[Instance] = set()
        self._slots: list[Worker | None] = [None] * self._size
        self._extra: list[Worker] = []
        self._spare: Worker | None = None
        self._waiting: list[Job] = []
        self._plans: dict[TopicPlan, _Known] = {}
        self._number = 0
        self._outstanding = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._backoff_s = 0.0
        self._load_failure = ""
        self._loading_until: dict[Worker, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving = False
        self._closed = False
        self._retry_at: float | None = None

    async def start(self) -> None:
        """Start the workers and load the policies in each.

        Raises:
            ConfigurationError: A policy cannot be loaded or configured.
        """
        self._loop = asyncio.get_running_loop()
        try:
            for slot in range(self._size):
                worker = self._slots[slot] = await self._started()
                self._load(worker)
            while self._loading_until:
                await asyncio.sleep(_TICK_S)
                self._check_loading()
            for loaded in self._slots:
                if loaded is None or loaded.state is not State.READY:
                    raise ConfigurationError(self._load_failure or "a policy worker did not start")
                self.patterns = loaded.patterns
                self.wants_context = loaded.wants_context
            await self._start_spare()
        except BaseException:
            await self.close()
            raise
        self._serving = True
        self._run(self._tick())

    def submit(
        self,
        topic_plan: TopicPlan,
        partition: int,
        topic_id: UUID,
        version: int,
        data: bytes | memoryview,
        done: Callable[[Verdict], None],
        *,
        timeout_ms: int = 2**31 - 1,
        dropped_before: Sequence[int] = (),
    ) -> None:
        """Have one partition's records judged; `done` is called once, with the verdict.

        Args:
            topic_plan: The topic's policies.
            partition: The partition's number.
            topic_id: The topic's id.
            version: The version of the Produce request.
            data: What the request carries for the partition; not to be changed meanwhile.
            done: Called from the event loop, perhaps before this returns.
            timeout_ms: The request's own timeout.
            dropped_before: Positions of records that interceptors dropped when the same
                batch came before; they are dropped again.
        """
        intercepted = bool(topic_plan.interceptors)
        if intercepted and self._timed_out:
            batch = batch_of(topic_plan.topic, partition, data)
            if self._timed_out.rests(batch):
                names = ", ".join(topic_plan.interceptors)
                done(self._too_late(names, "spent their time on this batch before"))
                return
        known = self._plans.get(topic_plan)
        if known is None:
            if len(self._plans) > 10_000:
                self._plans.clear()
            known = self._plans[topic_plan] = _Known(
                topic_plan.encode(),
                ", ".join(topic_plan.policies),
                ", ".join(topic_plan.interceptors),
            )
        plan = known.encoded
        self._number += 1
        in_time = _SHARE_OF_TIMEOUT * timeout_ms / 1000 if timeout_ms > 0 else math.inf
        again = messages.positions(dropped_before) if dropped_before else b""
        now = self._loop.time()
        header = messages.judge_header(
            self._number, version, partition, topic_id.bytes, len(plan), len(again), len(data)
        )
        job = Job(
            number=self._number,
            place=(topic_plan.topic, partition),
            policies=known.policies,
            buffers=(header, plan, again, data),
            done=done,
            size=len(data),
            submitted=now,
            deadline=now + in_time if intercepted else math.inf,
            interceptors=known.interceptors,
            records_policy=topic_plan.records_policy,
        )
        if topic_plan.records_policy is not None:
            self._in_use[topic_plan.topic, topic_plan.records_policy] += 1
            self._instances.setdefault(topic_plan.topic, set()).add(topic_plan.records_policy)
        self._take(job)

    def ask(self, question: messages.Question, names: str, done: Callable[[Verdict], None]) -> None:
        """Have a question about a topic answered; `done` is called once, with the verdict.

        Args:
            question: Is about creation, configs or a class.
            names: The classes it is put to, for the verdict where they do not answer.
            done: Called from the event loop.
        """
        self._number += 1
        message = messages.judge_topic(self._number, question)
        self._take(
            Job(
                number=self._number,
                place=("", 0),
                policies=names,
                buffers=(message,),
                done=done,
                size=len(message),
                submitted=self._loop.time(),
            )
        )

    def _take(self, job: Job) -> None:
        self._outstanding += 1
        self._idle.clear()
        if self._closed:
            self._answer(job, failed(job.policies, "was not asked: it is no longer in force"))
        else:
            self._assign(job)

    def retain(self, topic: str, records_policies: Container[str]) -> None:
        """Close a topic's instances of other classes of KIP-686, each after its last batch.

        Args:
            topic: Has another class now, or none, or is gone.
            records_policies: The classes that it still has.
        """
        for name in list(self._instances.get(topic, ())):
            if name not in records_policies:
                self._retiring.add((topic, name))
                self._retire((topic, name))
            else:
                self._retiring.discard((topic, name))

    def _retire(self, instance: Instance) -> None:
        """Close an instance in every worker, unless a batch is still to be judged by it."""
        if instance not in self._retiring or self._in_use[instance]:
            return
        topic, name = instance
        self._retiring.discard(instance)
        del self._in_use[instance]
        self._instances[topic].discard(name)
        if not self._instances[topic]:
            del self._instances[topic]
        for worker in self._active():
            worker.retire(messages.retire(name, topic))

    async def close(self, *, drain_s: float = 0.0) -> None:
        """Let the workers finish what they have, for at most `drain_s`, then end them."""
        if drain_s:
            try:
                async with asyncio.timeout(drain_s):
                    await self._idle.wait()
            except TimeoutError:
                pass
        self._closed = True
        workers = [*filter(None, self._slots), *self._extra, *filter(None, [self._spare])]
        for worker in workers:
            for job in (*worker.sent, *worker.queue):
                self._answer(job, failed(job.policies, "was not asked: the gateway stops"))
        for job in self._waiting:
            self._answer(job, failed(job.policies, "was not asked: the gateway stops"))
        await asyncio.gather(*(worker.close(self._timeout_s) for worker in workers))
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers that judge."""
        return [worker.pid for worker in self._active()]

    # Who judges what

    def _assign(self, job: Job) -> None:
        preferred = self._preferred(job)
        if preferred is not None and not self._held_up(preferred, job):
            preferred.give(job)
            return
        free = [worker for worker in self._active() if not self._held_up(worker, job)]
        if free:
            min(free, key=lambda worker: worker.load_factor).give(job)
            return
        self._waiting.append(job)
        self._relieve()

    def _preferred(self, job: Job) -> Worker | None:
        topic, partition = job.place
        place = crc32(b"%s/%d" % (topic.encode(), partition)) % self._size
        worker = self._slots[place]
        return worker if worker is not None and worker.state is State.READY else None

    def _held_up(self, worker: Worker, job: Job) -> bool:
        """Whether a worker is busy with one batch for long, and that one is not the job's own.

        Later batches of a slow partition keep waiting for it, or each of them would hold up
        one more worker.
        """
        if not worker.sent or self._loop.time() - worker.head_since < HELD_UP_S:
            return False
        head = worker.head()
        if head is None or self._loop.time() - worker.head_since < HELD_UP_S:
            return False
        return head.place != job.place

    def _active(self) -> list[Worker]:
        everyone = [*filter(None, self._slots), *self._extra]
        return [worker for worker in everyone if worker.state is State.READY]

    def _relieve(self) -> None:
        """Get a worker for the batches that wait for one."""
        loading = any(worker.state is State.LOADING for worker in self._loading_until)
        if loading or self._closed:
            return
        if not self._active() and self._load_failure:
            # Nobody is left to judge, and the policies cannot be loaded: fail closed.
            waiting, self._waiting = self._waiting, []
            for job in waiting:
                self._answer(job, failed(job.policies, "cannot be loaded in a new process"))
            return
        if all(self._slots) and len(self._extra) < self._size and self._retry_at is None:
            self._replace(None)

    def _move_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for job in waiting:
            self._assign(job)

    # What becomes of a worker

    async def _started(self) -> Worker:
        worker = Worker(on_state=self._state_changed, on_verdict=self._verdict)
        await worker.start()
        return worker

    async def _start_spare(self) -> None:
        if self._with_spare and self._spare is None:
            self._spare = await self._started()

    def _load(self, worker: Worker) -> None:
        worker.load(self._load_message)
        self._loading_until[worker] = self._loop.time() + max(_LOAD_MIN_S, self._timeout_s)

    def _replace(self, slot: int | None) -> None:
        """Load the policies in the spare process, for a slot or as an extra worker."""
        self._run(self._replacing(slot))

    async def _replacing(self, slot: int | None) -> None:
        worker, self._spare = self._spare, None
        if worker is None or worker.state is not State.SPARE:
            worker = await self._started()
        if slot is None:
            self._extra.append(worker)
        else:
            self._slots[slot] = worker
        self._load(worker)
        await self._start_spare()
        if self._closed:
            ending = [one for one in (worker, self._spare) if one is not None]
            await asyncio.gather(*(one.close(1) for one in ending))

    def _state_changed(self, worker: Worker) -> None:
        self._loading_until.pop(worker, None)
        if worker.state is State.READY:
            self._load_failure, self._backoff_s = "", 0.0
            if self._serving and not self._closed:
                self._move_waiting()
        elif worker.state is State.DEAD and not self._closed:
            self._died(worker)

    def _died(self, worker: Worker) -> None:
        if worker is self._spare:
            self._spare = None
            self._run(worker.close(1))
            return
        if worker not in self._slots and worker not in self._extra:
            return  # removed before, and closed by who did that
        self._run(worker.close(1))
        judged = self._in_hand(worker)
        if worker.was_ready:
            where = judged.place[0] if judged else None
            log.error("policy worker died", worker=worker.pid, reason=worker.failure, topic=where)
        if judged is not None:
            self._charge(worker, judged)
        self._remove(worker)
        self._move_waiting()

    def _charge(self, worker: Worker, job: Job) -> None:
        """Answer the batch that a worker died of, unless it has another attempt."""
        overdue = worker.failure.startswith(_OVERDUE)
        if not worker.intercepts(job):
            why = worker.failure if overdue else "ended its process"
            self._answer(job, failed(job.policies, why))
        elif not overdue:
            self._answer(job, unable(job.interceptors, self._failed_code, "their process ended"))
        else:
            job.attempts += 1
            if job.attempts > self._retries or self._loop.time() >= job.deadline:
                self._give_up(job)

    def _give_up(self, job: Job) -> None:
        """Answer a batch whose interceptors have spent their time."""
        if job.attempts:
            batch = batch_of(*job.place, job.buffers[-1])
            self._timed_out.add(batch, self._loop.time() - job.submitted)
        self._answer(
            job, self._too_late(job.interceptors, f"did not decide in {job.attempts} attempts")
        )

    def _too_late(self, interceptors: str, why: str) -> Verdict:
        limit = f"{self._interceptors_timeout_s * 1000:.0f} ms each"
        return timed_out(interceptors, f"{why} ({limit})")

    def _in_hand(self, worker: Worker) -> Job | None:
        """Tell which batch a worker died of."""
        if worker.garbled and len(worker.sent) > 1:
            # What wrote to our socket may be any of them: the next worker gets them singly.
            for job in worker.sent:
                job.alone = True
            return None
        head = worker.head()
        return head if head is not None and head.owner is worker else None

    def _remove(self, worker: Worker) -> None:
        """Take a worker out of use, and its batches back; have it replaced."""
        mine = [job for job in (*worker.sent, *worker.queue) if job.owner is worker]
        worker.sent.clear()
        worker.queue.clear()
        self._waiting = [job for job in mine if not job.answered] + self._waiting
        slot = self._slots.index(worker) if worker in self._slots else None
        if slot is None:
            self._extra.remove(worker)
        else:
            self._slots[slot] = None
        if self._serving:
            self._schedule_replacement(slot, worker)
        else:
            self._load_failure = worker.failure

    def _schedule_replacement(self, slot: int | None, worker: Worker) -> None:
        """Replace at once what died at work; wait longer and longer where loading fails."""
        if worker.was_ready:
            if slot is not None:
                self._replace(slot)
            return
        self._load_failure = worker.failure
        self._backoff_s = min(max(self._backoff_s * 2, _BACKOFF_FIRST_S), _BACKOFF_MAX_S)
        log.error(
            "policies cannot be loaded", reason=worker.failure, next_attempt_s=self._backoff_s
        )
        self._retry_at = self._loop.time() + self._backoff_s

    def _check_loading(self) -> None:
        now = self._loop.time()
        for worker, until in list(self._loading_until.items()):
            if now > until:
                worker.kill("a policy took too long to load and configure")

    async def _tick(self) -> None:
        """Watch the clock: deadlines, held up workers, extra ones with nothing to do."""
        while not self._closed:
            await asyncio.sleep(_TICK_S)
            now = self._loop.time()
            self._check_loading()
            if self._retry_at is not None and now >= self._retry_at:
                self._retry_at = None
                for slot, worker in enumerate(self._slots):
                    if worker is None:
                        self._replace(slot)
            self._withdraw_late(now)
            for worker in self._active():
                head = worker.head()
                if head is None:
                    continue
                intercepting = worker.intercepts(head)
                limit = self._interceptors_timeout_s if intercepting else self._timeout_s
                if now - worker.head_since > limit:
                    worker.kill(f"{_OVERDUE} within {limit * 1000:.0f} ms")
                elif intercepting and now > head.deadline:
                    worker.kill(f"{_OVERDUE} within the client's own timeout")
                elif worker.load_factor > 1 and now - worker.head_since > HELD_UP_S:
                    self._take_from(worker)
            if self._waiting:
                self._move_waiting()
            for worker in [one for one in self._extra if one.state is State.READY]:
                if not worker.sent and now - worker.idle_since > _EXTRA_IDLE_S:
                    self._extra.remove(worker)
                    self._run(worker.close(self._timeout_s))

    def _withdraw_late(self, now: float) -> None:
        """Answer the batches that no worker has begun while their client still waits."""
        waiting = [job for job in self._waiting if job.deadline < now]
        for worker in self._active():
            waiting += [job for job in worker.queue if job.deadline < now]
        if waiting:
            late = set(map(id, waiting))
            self._waiting = [job for job in self._waiting if id(job) not in late]
            for worker in self._active():
                worker.queue = deque(job for job in worker.queue if id(job) not in late)
            for job in waiting:
                self._give_up(job)

    def _take_from(self, worker: Worker) -> None:
        """Give what waits behind a slow batch to others, but for the same partition's.

        A batch sent ahead is judged again elsewhere; the first verdict counts.
        """
        head = worker.head()
        if head is None:
            return
        moved = [
            job
            for job in (*worker.sent, *worker.queue)
            if job is not head and job.owner is worker and job.place != head.place
        ]
        for job in moved:
            job.owner = None
        worker.queue = deque(job for job in worker.queue if job.owner is worker)
        self._waiting.extend(moved)

    def _verdict(self, worker: Worker, job: Job, verdict: Verdict) -> None:
        if verdict.error_type == OUT_OF_MEMORY:
            self._remove(worker)
            self._run(worker.close(1))
        self._answer(job, verdict)
        if self._waiting:
            self._move_waiting()

    def _answer(self, job: Job, verdict: Verdict) -> None:
        if not job.answered:
            self._outstanding -= 1
            if not self._outstanding:
                self._idle.set()
            job.answer(verdict)
            if job.records_policy is not None:
                instance = (job.place[0], job.records_policy)
                self._in_use[instance] -= 1
                if self._retiring:
                    self._retire(instance)

    def _run(self, coroutine: object) -> None:
        task: asyncio.Task[None] = self._loop.create_task(coroutine)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
