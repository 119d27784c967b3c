"""Executes the actions of the schedule on worker processes, and reports events back to it.

Nothing is decided here. Errors are isolated: an error in a worker, or in the callback of a verdict,
is logged and ends nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import structlog

from penstock.configuration import ConfigurationError, NotNowError
from penstock.configuration.topic_keys import RECORDS_POLICY
from penstock.engine.plans.plan import Plan
from penstock.engine.verdict import UNJUDGED, FailureCause, timed_out
from penstock.engine.workers import actions, messages
from penstock.engine.workers.clock import RunningClock
from penstock.engine.workers.gathered_writes import GatheredWrites
from penstock.engine.workers.instance_usage import InstanceUsage
from penstock.engine.workers.jobs import JudgingJob
from penstock.engine.workers.processes.child import Child, ProcessEnd
from penstock.engine.workers.processes.worker import KillReason, WorkerState
from penstock.engine.workers.progress import CurrentAttempt
from penstock.engine.workers.schedule import BLOCKED_AFTER_S, Schedule, SchedulePhase, WorkerLimits
from penstock.engine.workers.shared_values import SharedValues
from penstock.engine.workers.ticks import TICK_S, Ticks
from penstock.engine.workers.timeouts import TimedOutBatches, batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine, Hashable, Mapping, Sequence
    from re import Pattern

    from penstock.configuration import Configuration
    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.batch_to_judge import BatchToJudge
    from penstock.engine.workers.observer import WorkerObserver
    from penstock.engine.workers.processes.worker import Worker
    from penstock.engine.workers.rings import WorkerRings

    Patterns = list[tuple[str, Pattern[str]]]

log = structlog.get_logger()

_ADMIN_TIMEOUT_S = 30.0
"""The default request timeout of admin clients."""
_LOADING_CLOSE_S = 1.0
"""How long a worker may take to end that has not loaded its policies: there is nothing to close."""
_RETIRE_S = 1.0
"""So long after the last known batch, native threads have none that they have not submitted."""
CLOSE_MAX_S = 30.0
"""The time to end in which a gateway is not killed: by Kubernetes, which waits shortest."""
_SHARE_OF_TIMEOUT = 0.75
_TIMEOUT_MS = 30_000
"""The share of the request timeout in which a batch is judged; the rest is the broker's."""


class Supervisor:
    """Runs the policies of one configuration."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        names: Mapping[str, Sequence[str]] | None = None,
        size: int | None = None,
        spare: bool = True,
        child: Callable[[Worker, Supervisor], Child] = Child,
        observer: WorkerObserver | None = None,
        shared: SharedValues | None = None,
        writes: GatheredWrites | None = None,
        rings: WorkerRings | None = None,
        blocked_after_s: float = BLOCKED_AFTER_S,
    ) -> None:
        """Prepare; nothing is started.

        Args:
            configuration: Names the policies.
            names: Which of them are loaded, by key; those of records unless given.
            size: How many workers; `policy.workers` by default.
            spare: Whether one more process waits, to replace a worker at once.
            child: Makes the parent's side of a process.
            observer: Gets the events of workers.
            shared: The values that policies share, if other supervisors' workers have them as well.
            writes: Gathers writes of the event loop.
            rings: Rings, for native threads.
            blocked_after_s: See `WorkerLimits`.
        """
        self.rings = rings
        self.writes = writes or GatheredWrites()
        self._shared_values = shared or SharedValues()
        self._observer = observer
        interceptors_ms = configuration.produce_request_interceptors_timeout_ms
        self._limits = WorkerLimits(
            workers=size or configuration.policy_workers,
            spare=spare,
            timeout_s=configuration.policy_timeout_ms / 1000,
            interceptors_timeout_s=interceptors_ms / 1000,
            retries=configuration.produce_request_interceptors_max_timeout_retries,
            preparation_timeout_s=configuration.policy_preparation_timeout_ms / 1000,
            failed_code=configuration.produce_request_interceptors_failed_error_code,
            blocked_after_s=blocked_after_s,
        )
        self._schedule = Schedule(self._limits)
        loaded = Plan(configuration.policies).names if names is None else names
        self._load_message = messages.load(configuration.policies, loaded)
        self._close_s = self._limits.timeout_s
        self.patterns: Patterns = []
        self.needs_context = False
        self.loads_topics = False
        self.drops_records = False
        self._takes_client: frozenset[str] = frozenset()
        # For a class of KIP-686 that the file does not name, a worker reports it after loading.
        self._known_records_classes = set(loaded.get(RECORDS_POLICY, ()))
        self._topics_message = b""
        self._make_child = child
        self._children: dict[Worker, Child] = {}
        self._timed_out = TimedOutBatches()
        self._instances = InstanceUsage()
        self._retirements: dict[tuple[str, str], float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._open_event = asyncio.Event()
        self._idle = asyncio.Event()
        self._ticks = Ticks(self._tick)
        self._is_executing = False
        self._is_serving = False

    async def start(self) -> None:
        """Start the workers and load the policies in each.

        Raises:
            ConfigurationError: A policy cannot be loaded or configured.
        """
        self._clock = RunningClock()
        self._shared_values.listen(self._share)
        schedule = self._schedule
        try:
            schedule.begin(self._clock.now())
            self._execute_actions()
            self._ticks.start()
            await self._open_event.wait()
            if schedule.phase is not SchedulePhase.SERVING:
                why = schedule.failure or "a policy worker did not start"
                raise NotNowError(why) if schedule.may_pass else ConfigurationError(why)
        except BaseException:
            await self.close()
            raise
        self._is_serving = True

    def submit(self, batch: BatchToJudge, callback: Callable[[PolicyVerdict], None]) -> None:
        """Submit a batch for judging.

        Args:
            callback: Called once with the verdict from the event loop, perhaps before this returns.
        """
        early = batch.early
        is_same = early is not None and early.plan == batch.plan.encoded
        if self.rings is not None and early is not None and is_same and not batch.dropped_before:
            on_early = partial(self._on_early, batch, callback, self._clock.now())
            self.rings.expect_verdict(early, on_early)
        else:
            self._submit_batch(batch, callback, early.waited_s + early.took_s if early else 0.0)

    def _submit_batch(
        self, batch: BatchToJudge, callback: Callable[[PolicyVerdict], None], waited_s: float
    ) -> None:
        """Submit a batch that has waited for some time, perhaps in a ring."""
        plan, data, sender = batch.plan, batch.data, batch.sender
        encoded_client = messages.client(sender) if sender and self.needs_client(plan) else b""
        if plan.interceptors and self._timed_out:
            timed_out_batch = batch_of(plan.topic, batch.partition, data, encoded_client)
            if self._timed_out.is_suspended(timed_out_batch):
                each_ms = self._limits.interceptors_timeout_s * 1000
                why = f"spent their time on this batch before ({each_ms:.0f} ms each)"
                callback(timed_out(plan.interceptor_names, why))
                return
        again = b""
        if batch.dropped_before:
            again = messages.positions_before(batch.dropped_before, batch.quarantined_before)
        now = self._clock.now()
        records_policy = plan.records_policy
        if records_policy is not None:
            self._instances.used(plan.topic, records_policy)
        timeout_ms = batch.timeout_ms if batch.timeout_ms > 0 else _TIMEOUT_MS
        job = JudgingJob(
            (plan.topic, batch.partition),
            batch.client,
            plan.policy_names,
            plan.interceptor_names,
            # Read by `_send`, `_answer` and `_suspend`; a question is of another type.
            (
                batch.version,
                batch.topic_id.bytes,
                plan.encoded,
                again,
                encoded_client,
                data,
                records_policy,
            ),
            callback,
            len(data) + len(encoded_client),
            # For the client, the time in native threads counts, too.
            now - waited_s + _SHARE_OF_TIMEOUT * timeout_ms / 1000,
        )
        self._submit(job, now, waited_s)

    def _on_early(
        self,
        batch: BatchToJudge,
        callback: Callable[[PolicyVerdict], None],
        submitted_at: float,
        verdict: PolicyVerdict | None,
        took_s: float | None,
    ) -> None:
        """Return the verdict on a batch that was judged through a ring; judge it if it is lost."""
        early = batch.early
        assert early is not None
        all_s = early.waited_s + early.took_s + self._clock.now() - submitted_at
        if verdict is None:
            self._submit_batch(batch, callback, all_s)
            return
        if self._observer is not None:
            judged_s = all_s if took_s is None else took_s  # as `_observe` has it
            waited_s = max(0.0, all_s - judged_s)
            self._observer.judged(batch.plan.policy_names, verdict.cause, waited_s, judged_s)
        callback(verdict)

    def needs_client(self, plan: TopicPlan) -> bool:
        """Return whether a policy of a topic takes a context, or may, for all that is known.

        Args:
            plan: The topic's policies.
        """
        name = plan.records_policy
        if name is not None and name not in self._known_records_classes:
            return True
        return bool(self._takes_client) and not self._takes_client.isdisjoint(plan.policies)

    def submit_admin(
        self, request: messages.AdminRequest, names: str, callback: Callable[[PolicyVerdict], None]
    ) -> None:
        """Submit a request about a topic; `callback` is called once, with the verdict.

        Args:
            request: About a creation, configs or a class.
            names: The classes that judge it, for the verdict where they do not decide.
            callback: Called from the event loop.
        """
        now = self._clock.now()
        deadline = now + _SHARE_OF_TIMEOUT * _ADMIN_TIMEOUT_S
        self._submit(JudgingJob(("", 0), None, names, "", request, callback, 0, deadline), now)

    def _submit(self, job: JudgingJob, now: float, waited_s: float = 0.0) -> None:
        job.submitted_at = now - waited_s
        self._schedule.submit(job, now)
        self._ticks.wake()
        self._execute_actions()

    def leave(self, client: Hashable) -> None:
        """Judge the jobs of a client that is gone in the turn of all that are, until `cancel`."""
        self._schedule.leave(client)

    def cancel(self, client: Hashable) -> None:
        """Answer the waiting jobs of a client without judging them: it is gone."""
        self._schedule.cancel(client)
        self._execute_actions()

    def retain(self, topic: str, records_policies: Container[str]) -> None:
        """Close a topic's instances of other classes of KIP-686, each after its last batch.

        Args:
            topic: The topic, whose class has changed, or which was deleted.
            records_policies: The classes that it still has.
        """
        for name in self._instances.retain(topic, records_policies):
            self._retire(topic, name)

    def may_be_known(self, plan: TopicPlan) -> bool:
        """Return whether native threads may know a topic: its instances are not to be closed.

        Batches of a ring count for no instance: what made another in a ring would not close it.
        """
        name = plan.records_policy
        return name is None or self._instances.stays(plan.topic, name)

    def _retire(self, topic: str, name: str) -> None:
        """Close an instance; where native threads have batches judged, after their last batch."""
        if self.rings is None:
            self._close_instance(topic, name)
        else:
            self._retirements[topic, name] = self._clock.now() + _RETIRE_S

    def _retire_unused(self, rings: WorkerRings) -> None:
        """Close the instances that no batch of a ring needs any more."""
        now = self._clock.now()
        for (topic, name), due in list(self._retirements.items()):
            if self._instances.is_known(topic, name):
                del self._retirements[topic, name]  # it is in use again
            elif now >= due and not rings.use_instance(topic, name):
                del self._retirements[topic, name]
                self._close_instance(topic, name)

    def _close_instance(self, topic: str, name: str) -> None:
        for worker in self._schedule.judging:
            self._children[worker].write([messages.retire(name, topic)])

    def load_topics(self, plans: Sequence[TopicPlan]) -> None:
        """Let the validation policy load topics, in each worker while it has no batches.

        Workers that replace others do the same; extra workers, which run because others are
        busy, do not. Nothing waits for it. A policy that ends its process by it, or hangs, does
        not load topics again.
        """
        if not self.loads_topics or not plans:
            return
        self._topics_message = messages.load_topics(plans)
        for worker in self._schedule.judging:
            self._load_topics_in(worker)

    def _load_topics_in(self, worker: Worker) -> None:
        if self._topics_message and worker in self._schedule.pool.slots:
            self._children[worker].write([self._topics_message])

    async def close(self, *, drain_s: float = 0.0, close_s: float = CLOSE_MAX_S) -> None:
        """Let the workers finish their jobs, for at most `drain_s`, then end them.

        Args:
            drain_s: How long submitted batches may take.
            close_s: How long workers may take to close their policies, and no longer than a batch
                may; then they are killed. One that hangs takes all of it.
        """
        self._close_s = min(self._limits.timeout_s, close_s)
        if drain_s and self._schedule.outstanding:
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), drain_s)
        await self._drain_rings(drain_s)
        self._is_serving = False
        self._schedule.close()
        self._ticks.stop()
        self._execute_actions()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._shared_values.leave(self._share)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers that judge."""
        return [self._children[worker].pid for worker in self._schedule.judging]

    @property
    def schedule(self) -> Schedule:
        """The decisions about workers and batches, for tests and metrics."""
        return self._schedule

    # Actions of the schedule

    def _execute_actions(self) -> None:
        """Execute pending actions, and those that follow from them."""
        if self._is_executing:
            return
        self._is_executing = True
        todo, do = self._schedule.actions, self._EXECUTORS
        try:
            while todo:
                action = todo.popleft()
                try:
                    do[type(action)](self, action)
                except Exception:
                    log.exception("an error of the gateway", action=type(action).__name__)
        finally:
            self._is_executing = False
        if not self._is_serving and self._schedule.phase is not SchedulePhase.OPENING:
            self._open_event.set()

    def _start(self, action: actions.Start) -> None:
        self._run(self._run_worker(action.worker))

    def _load(self, action: actions.Load) -> None:
        self._children[action.worker].write(
            [self._load_message, *messages.shared(self._shared_values.all())]
        )

    def _send(self, action: actions.Send) -> None:
        worker, job, attempt = action
        payload = job.payload
        if type(payload) is not tuple:
            self._children[worker].write([messages.judge_admin(attempt, payload)])
            return
        version, topic_id, plan, dropped, encoded_client, data, _ = payload
        header = messages.judge_header(
            attempt,
            version,
            job.topic_partition[1],
            topic_id,
            len(plan),
            len(dropped),
            len(encoded_client),
            len(data),
        )
        self._children[worker].write((header, plan, dropped, encoded_client, data))

    def _skip(self, action: actions.Skip) -> None:
        self._children[action.worker].progress.skip(action.attempt)

    def _kill(self, action: actions.Kill) -> None:
        child = self._children.get(action.worker)
        killed = action.worker.kill_cause
        if killed is not None and killed.current.topic_number:
            self._stop_loading(killed.text)
        if child is not None:
            child.kill()
        self._close_ring(action.worker)

    def _recall(self, action: actions.Recall) -> None:
        if self.rings is not None:
            self.rings.recall(action.worker)

    def _close_ring(self, worker: Worker) -> None:
        if self.rings is not None:
            self.rings.close(worker)

    def _close(self, action: actions.Close) -> None:
        self._close_ring(action.worker)
        child = self._children.get(action.worker)
        if child is not None:
            child.write([messages.message(messages.CLOSE)])
            self._run(self._kill_after_timeout(child))

    def _answer(self, action: actions.ReturnVerdict) -> None:
        job, verdict = action
        callback, payload = job.callback, job.payload
        job.callback = None
        if self._observer is not None:
            self._observe(self._observer, job, verdict)
        if not job.is_abandoned:  # a batch that a worker is still judging may have to be suspended
            job.payload = None
        if not self._schedule.outstanding:
            self._idle.set()
        try:
            callback(verdict)
        finally:
            name = payload[-1] if type(payload) is tuple else None
            if name is not None and self._instances.free(job.topic_partition[0], name):
                self._retire(job.topic_partition[0], name)

    def _observe(self, observer: WorkerObserver, job: JudgingJob, verdict: PolicyVerdict) -> None:
        answer_time = self._clock.now()
        judged_s = job.judged_s
        if judged_s is None:  # the worker was killed, or died, or never had it
            began = job.attempt and verdict.cause not in UNJUDGED
            judged_s = answer_time - job.sent_at if began else 0.0
        waited_s = max(0.0, answer_time - job.submitted_at - judged_s)
        observer.judged(job.policies, verdict.cause, waited_s, judged_s)

    def _suspend(self, action: actions.Suspend) -> None:
        job = action.job
        *_, encoded_client, data, _ = job.payload
        self._timed_out.add(batch_of(*job.topic_partition, data, encoded_client), action.spent_s)

    def _count_end(self, action: actions.CountEnd) -> None:
        if self._is_serving and self._observer is not None:
            self._observer.ended(action.cause)

    def _report(self, action: actions.LogError) -> None:
        # Why a start has failed is in its error.
        if self._is_serving or self._schedule.phase is SchedulePhase.OPENING:
            log.error(action.event, **action.fields)

    # Not bound to the supervisor: such a cycle is collected seldom in a gateway.
    _EXECUTORS: ClassVar[Mapping[type, Callable[[Supervisor, Any], None]]] = {
        actions.Start: _start,
        actions.Load: _load,
        actions.Send: _send,
        actions.Skip: _skip,
        actions.Recall: _recall,
        actions.Kill: _kill,
        actions.Close: _close,
        actions.ReturnVerdict: _answer,
        actions.Suspend: _suspend,
        actions.CountEnd: _count_end,
        actions.LogError: _report,
    }

    # Events of the workers

    async def _run_worker(self, worker: Worker) -> None:
        """Run a process from its start to its end."""
        ring = self.rings.open(worker) if self.rings is not None else None
        child = self._make_child(worker, self, **({} if ring is None else {"ring": ring}))
        try:
            await child.start()
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            self._close_ring(worker)
            self._schedule.died(worker, CurrentAttempt(0, 0), why, self._clock.now())
            self._execute_actions()
            return
        self._children[worker] = child
        if worker.state is WorkerState.KILLED:
            child.kill()
        elif worker.state is WorkerState.CLOSING:
            self._close(actions.Close(worker))
        else:
            self._schedule.started(worker, self._clock.now())
            self._execute_actions()
        try:
            end = await child.ended()
        except BaseException as error:
            child.abandon()
            if not isinstance(error, Exception):
                raise
            log.exception("an error of the gateway", action="wait for a process")
            end = ProcessEnd(f"{type(error).__name__}: {error}")
        if worker.kill_cause is None and child.progress.current.topic_number:
            # Another process may have killed it for the memory that this took.
            self._stop_loading(end.text if end.by_another else "the policy ended its process")
        current, now = child.progress.current, self._clock.now()
        self._close_ring(worker)
        self._schedule.died(worker, current, end.text, now, by_another=end.by_another)
        self._execute_actions()
        if self.rings is not None:
            self.rings.forget(worker, _blame(worker, end))
        del self._children[worker]
        await child.read_output()

    async def _drain_rings(self, drain_s: float) -> None:
        """Wait for the verdicts on batches that were recalled while workers judge them."""
        deadline = time.monotonic() + drain_s
        rings = self.rings
        while rings is not None and rings.is_awaited and time.monotonic() < deadline:  # noqa: ASYNC110 - a ring is read at intervals
            await asyncio.sleep(TICK_S)

    def _stop_loading(self, reason: str) -> None:
        """Keep other workers from doing what has ended a worker."""
        if self._topics_message and self._is_serving:
            log.warning("topics not loaded", reason=reason)
        self._topics_message = b""

    async def _kill_after_timeout(self, child: Child) -> None:
        """Kill a process that does not exit in time."""
        is_loading = child.worker.state_reached <= WorkerState.LOADING
        close_s = min(self._close_s, _LOADING_CLOSE_S) if is_loading else self._close_s
        deadline = asyncio.get_running_loop().time() + close_s
        while child.worker.state is not WorkerState.DEAD:
            if asyncio.get_running_loop().time() > deadline:
                child.kill()
                return
            await asyncio.sleep(TICK_S)

    def on_ready(self, worker: Worker, ready: messages.Ready) -> None:
        """Handle READY."""
        if not self._is_serving:
            self.patterns, self.needs_context, self.loads_topics, self._takes_client = ready[:4]
            self.drops_records = ready.drops_records
        self._schedule.loaded(worker, self._clock.now())
        self._load_topics_in(worker)
        self._execute_actions()

    def on_load_failed(self, worker: Worker, text: str, *, may_pass: bool) -> None:
        """Handle LOAD_FAILED."""
        worker.failure, worker.may_pass = text, may_pass

    def on_topics_loaded(self, worker: Worker, report: messages.TopicsLoaded) -> None:
        """Handle TOPICS_LOADED."""
        loaded, total, problem = report
        if problem:
            log.warning(
                "topics not loaded",
                process=worker.number,
                count=total - loaded,
                total=total,
                reason=problem,
            )
        else:
            log.info("topics loaded", process=worker.number, count=loaded)

    def on_records_class(self, name: str, *, takes_client: bool) -> None:
        """Handle RECORDS_CLASS."""
        self._known_records_classes.add(name)
        if takes_client:
            self._takes_client |= {name}

    def on_policy_events(self, counts: Sequence[tuple[str, str, int]]) -> None:
        """Handle EVENTS."""
        if self._observer is not None:
            for event, result, amount in counts:
                self._observer.policy_event(event, result, amount)

    def on_shared(self, worker: Worker, values: Sequence[tuple[str, bytes]]) -> None:
        """Handle SHARED."""
        self._shared_values.put(values, worker)

    def _share(self, values: Sequence[tuple[str, bytes]], source: object) -> None:
        """Send shared values to the other workers; a loading worker already has them."""
        framed = messages.shared(values)
        for worker, child in self._children.items():
            if worker is not source and WorkerState.SPARE < worker.state < WorkerState.CLOSING:
                child.share(framed)

    def on_verdicts(
        self, worker: Worker, verdicts: Sequence[tuple[int, PolicyVerdict, float]]
    ) -> None:
        """Handle verdicts."""
        now, take = self._clock.now(), self._schedule.verdict
        for attempt, verdict, took_s in verdicts:
            take(worker, attempt, verdict, now, took_s)
        if len(verdicts) > 1:
            self.writes.during(self._execute_actions)
        else:
            self._execute_actions()

    def on_ring_verdict(
        self, worker: Worker, number: int, verdict: PolicyVerdict, took_s: float
    ) -> None:
        """Handle RING_VERDICT."""
        if self.rings is not None:
            self.rings.put_verdict(worker, number, verdict, took_s)
        if verdict.cause is FailureCause.OUT_OF_MEMORY:
            self._schedule.out_of_memory(worker, self._clock.now())
            self._execute_actions()

    def on_protocol_error(self, worker: Worker) -> None:
        """Handle bytes that are not a message: a policy wrote to the socket."""
        self._schedule.protocol_error(worker, self._clock.now())
        self._execute_actions()

    def _tick(self) -> bool:
        """Run the timers of the schedule; return whether nothing is being judged."""
        try:
            current = {
                worker: self._children[worker].progress.current for worker in self._schedule.judging
            }
            if self.rings is not None:
                self.rings.put_late()
            figures = self.rings.figures() if self.rings is not None else {}
            self._schedule.tick(current, self._clock.now(), figures)
        except Exception:
            log.exception("an error of the gateway", action="tick")
        self._execute_actions()
        if self.rings is not None:
            self.rings.follow(self._schedule.servers)
            self._retire_unused(self.rings)
        return self._is_serving and self._schedule.is_idle

    def _run(self, coroutine: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _blame(worker: Worker, end: ProcessEnd) -> str:
    """Return how a batch may have ended its worker; empty if it has not."""
    killed = worker.kill_cause
    if killed is None:
        is_closing = worker.state_reached is WorkerState.CLOSING
        return "" if end.by_another or is_closing else "ended its process"
    return killed.text if killed.reason is KillReason.DEADLINE_EXCEEDED else ""
