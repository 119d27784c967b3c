"""Judges the batches of observed topics (`penstock.mode`) beside their way to the broker.

No request waits for these verdicts: they are counted and logged. (Native threads judge some batches
before they are forwarded, and count those that they accept.) The workers are separate processes
with the same policies and a lower priority (nice), so that a hanging policy here takes no worker
from the topics whose records are refused. They start with the first observed batch.

Waiting batches are copied, up to a limit; batches beyond the limit are not judged, and counted as
`not_observed`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import structlog

from penstock.configuration import ConfigurationError
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import FailureCause, Outcome, failed, not_judged
from penstock.engine.workers.batch_to_judge import BatchToJudge
from penstock.engine.workers.rings import put_back
from penstock.gateway.refusal_log import Refused
from penstock.policy import ClientContext

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine

    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.observer import WorkerEnd
    from penstock.engine.workers.rings import FromRing
    from penstock.engine.workers.supervisor import Supervisor
    from penstock.gateway.observing.metrics.counts import GatewayCounts

log = structlog.get_logger()

BATCHES_MAX: Final = 1000
"""The most batches that wait for a verdict."""
SHARE_OF_MEMORY: Final = 8
"""They hold no more than this part of `queued.max.request.bytes`, in addition."""
WAIT_MS: Final = 30_000
"""As a client's request timeout: a batch waits three quarters of it for a worker."""
_RETRY_S: Final = 30.0
_CLOSE_S: Final = 5.0
"""Nobody waits for a policy that hangs, and so neither does the end."""
_LOG_EVERY_S: Final = 60.0


class ObservedBatch(NamedTuple):
    """A batch that is forwarded with any verdict.

    Attributes:
        plan: The policies of its topic.
        partition: The partition's number.
        topic_id: The topic's id, as far as a policy needs it.
        version: The version of the Produce request.
        client_id: The client id, or None.
        connection: The number of the client's connection.
        sender: The client, for policies that take a context, and for the report of the verdict.
    """

    plan: TopicPlan
    partition: int
    topic_id: UUID
    version: int
    client_id: str | None
    connection: int
    sender: ClientContext | None = None


class _HeldBatch(NamedTuple):
    """A batch that waits for its verdict, and the room that it takes."""

    batch: ObservedBatch
    data: bytes
    size: int


def _of_ring(batch: FromRing) -> ObservedBatch:
    return ObservedBatch(
        TopicPlan.decode(batch.plan),
        batch.partition,
        UUID(bytes=batch.topic_id),
        batch.version,
        batch.client_id,
        batch.connection,
        ClientContext(batch.principal, batch.client_id, batch.address),
    )


class TimesBeside:
    """Counts the work of workers whose verdicts no request waits for; a `WorkerObserver`."""

    def __init__(self, counts: GatewayCounts) -> None:
        self._counts = counts

    def judged(
        self,
        policies: str,
        cause: FailureCause | None,
        waited_s: float,  # noqa: ARG002 - nobody waited
        judged_s: float,
    ) -> None:
        """Count how long a batch was judged."""
        self._counts.judged_beside(policies, cause, judged_s)

    def ended(self, cause: WorkerEnd) -> None:
        """Count a worker that ended by itself."""
        self._counts.ended(cause)

    def policy_event(self, event: str, result: str, amount: int) -> None:
        """Count the events of a policy."""
        self._counts.policy_event(event, result, amount)


class ObservedBatches:
    """The batches that are being observed by the policies of one configuration.

    Attributes:
        ring_pool: The batches that native threads observe, which have the same limits; or None.
    """

    def __init__(
        self,
        make_pool: Callable[[], Supervisor],
        *,
        max_bytes: int,
        run: Callable[[Coroutine[object, object, None]], object],
        refused: Callable[[Refused], None],
        counts: GatewayCounts | None = None,
        ring_pool: Any | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is started.

        Args:
            make_pool: Makes the workers, which are not started yet.
            max_bytes: How many bytes may wait for verdicts.
            run: Runs a coroutine beside everything else.
            refused: Called with everything that would not have been accepted.
            counts: Counts the verdicts.
            ring_pool: The native end of the workers, which outlives them, if they have rings.
            clock: Returns the time in seconds.
        """
        self._make_pool = make_pool
        self.ring_pool = ring_pool
        self._max_bytes = max_bytes
        self._run = run
        self._refused = refused
        self._counts = counts
        self._clock = clock
        self._pool: Supervisor | None = None
        self._is_open = False
        self._is_closed = False
        self._retry_at = 0.0
        self._started = asyncio.Event()
        self._early: list[_HeldBatch] = []
        self._left_out = 0
        self._left_out_logged = -_LOG_EVERY_S
        self.batches = 0
        self.held_bytes = 0

    @property
    def pool(self) -> Supervisor | None:
        """The workers; None until there is something to observe."""
        return self._pool

    @property
    def open_pool(self) -> Supervisor | None:
        """The workers, once they judge."""
        return self._pool if self._is_open and not self._is_closed else None

    def put_judged(self, batch: FromRing, verdict: PolicyVerdict, took_s: float) -> None:
        """Report the verdict on a batch that was judged through a ring."""
        try:
            observed = _of_ring(batch)
            if self._counts is not None:
                self._counts.judged_beside(observed.plan.policy_names, verdict.cause, took_s)
            self._report(observed, batch.data, verdict)
        finally:
            if self.ring_pool is not None:
                self.ring_pool.release(batch.size)

    def judge_again(self, batch: FromRing) -> None:
        """Judge a batch without a ring; it has its room."""
        held_batch = _HeldBatch(_of_ring(batch), batch.data, batch.size)
        self._hold(held_batch)
        if self._can_judge():
            self._begin(held_batch)
        else:
            self._release(held_batch)
            self._leave_out(held_batch.batch, held_batch.data)

    def leave_out(self, plan: bytes, batch_count: int, record_count: int) -> None:
        """Count batches for which there was no room, and their records."""
        if self._counts is not None:
            self._counts.records_not_observed(TopicPlan.decode(plan), record_count)
        self._note_left_out(batch_count)

    def collect_counts(self) -> None:
        """Add the counts of the batches that were judged through rings."""
        self.look()
        if self.ring_pool is not None and self._counts is not None:
            self._counts.forwarded(*self.ring_pool.collect())

    def look(self) -> None:
        """Take what native threads have for Python; while there are workers, they do that."""
        rings = self._pool.rings if self._pool is not None else None
        if rings is not None and rings.observer is not None:
            rings.put_late()
        elif self.ring_pool is not None:
            put_back(self.ring_pool, self)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return self._pool.pids if self._pool is not None and self._is_open else []

    def submit(self, batch: ObservedBatch, data: bytes | memoryview) -> None:
        """Submit a batch for judging; never raise, and return at once.

        Args:
            batch: Where it belongs.
            data: The batch; it is copied.
        """
        try:
            self._submit(batch, data)
        except Exception:
            log.exception("an error of the gateway", action="observe")

    def _submit(self, batch: ObservedBatch, data: bytes | memoryview) -> None:
        if batch.plan.unusable:
            names = batch.plan.policy_names or "of this topic"
            self._report(batch, data, failed(names, f"cannot run: {batch.plan.unusable}"))
            return
        size = len(data) + len(batch.client_id or "")
        if not self._can_judge() or not self._has_room(len(data), size):
            self._leave_out(batch, data)
            return
        # A view would keep the complete request in memory.
        held_batch = _HeldBatch(batch, bytes(data), size)
        self._hold(held_batch)
        self._begin(held_batch)

    def _can_judge(self) -> bool:
        """Return whether there are workers, or will be."""
        if self._is_closed or self._clock() < self._retry_at:
            return False
        return self._pool is not None or self._start_pool()

    def _has_room(self, bytes_count: int, size: int) -> bool:
        """Return whether there is room for a batch; then it is taken from native threads."""
        if self.ring_pool is not None:
            return bool(self.ring_pool.reserve(size))
        return self.batches < BATCHES_MAX and self.held_bytes + bytes_count <= self._max_bytes

    def _hold(self, held_batch: _HeldBatch) -> None:
        self.batches += 1
        self.held_bytes += len(held_batch.data)

    def _release(self, held_batch: _HeldBatch) -> None:
        self.batches -= 1
        self.held_bytes -= len(held_batch.data)
        if self.ring_pool is not None:
            self.ring_pool.release(held_batch.size)

    def _begin(self, held_batch: _HeldBatch) -> None:
        if self._is_open:
            self._judge(held_batch)
        else:
            self._early.append(held_batch)

    def _start_pool(self) -> bool:
        """Start the workers; return False if they cannot even be made now."""
        try:
            self._pool = self._make_pool()
        except Exception as error:
            self._cannot_start(error)
            return False
        if self._pool.rings is not None:
            self._pool.rings.observer = self
        self._started.clear()
        self._run(self._open(self._pool))
        return True

    def _judge(self, held_batch: _HeldBatch) -> None:
        assert self._pool is not None
        batch = held_batch.batch
        try:
            self._pool.submit(
                BatchToJudge(
                    batch.plan,
                    batch.partition,
                    batch.topic_id,
                    batch.version,
                    held_batch.data,
                    timeout_ms=WAIT_MS,
                    client=batch.connection,
                    sender=batch.sender,
                ),
                partial(self._judged, held_batch),
            )
        except Exception:
            log.exception("an error of the gateway", action="observe")
            self._judged(held_batch, not_judged(batch.plan.policy_names, "there was an error"))

    async def _open(self, pool: Supervisor) -> None:
        try:
            if not self._is_closed:
                await pool.start()
                self._is_open = True
        except Exception as error:
            self._cannot_start(error)
        self._started.set()
        early, self._early = self._early, []
        for held_batch in early:
            if self._is_open and not self._is_closed:
                self._judge(held_batch)
            else:
                policies = held_batch.batch.plan.policy_names
                self._judged(held_batch, not_judged(policies, "no worker started"))

    def _cannot_start(self, error: Exception) -> None:
        """Let a later batch try again."""
        self._pool = None
        self._retry_at = self._clock() + _RETRY_S
        if not self._is_closed:
            is_known = isinstance(error, ConfigurationError)
            log.error(
                "observed topics are not judged: the policies cannot be loaded again",
                reason=str(error),
                **({} if is_known else {"exc_info": error}),
            )

    def _judged(self, held_batch: _HeldBatch, verdict: PolicyVerdict) -> None:
        self._release(held_batch)
        if verdict.cause is FailureCause.NOT_JUDGED:
            self._leave_out(held_batch.batch, held_batch.data)
        else:
            self._report(held_batch.batch, held_batch.data, verdict)

    def _report(
        self, batch: ObservedBatch, data: bytes | memoryview, verdict: PolicyVerdict
    ) -> None:
        if self._counts is not None:
            self._counts.observed(batch.plan, data, verdict)
        if verdict.outcome is not Outcome.ACCEPTED:
            self._refused(
                Refused(
                    batch.plan.topic,
                    batch.partition,
                    batch.client_id,
                    verdict,
                    is_observed=True,
                    principal=None if batch.sender is None else batch.sender.principal,
                    address=None if batch.sender is None else batch.sender.address,
                )
            )

    def _leave_out(self, batch: ObservedBatch, data: bytes | memoryview) -> None:
        if self._counts is not None:
            self._counts.not_observed(batch.plan, data)
        self._note_left_out(1)

    def _note_left_out(self, count: int) -> None:
        self._left_out += count
        now = self._clock()
        if now - self._left_out_logged >= _LOG_EVERY_S and not self._is_closed:
            self._log_left_out(now)

    def _log_left_out(self, now: float) -> None:
        if self._left_out:
            log.warning("batches not observed: there was no room, or no worker in time",
                        count=self._left_out)  # fmt: skip
        self._left_out, self._left_out_logged = 0, now

    def retain(self, topic: str, records_policies: Container[str]) -> None:
        """Close a topic's instances of other classes of KIP-686; see `Supervisor.retain`."""
        if self._pool is not None and self._is_open:
            self._pool.retain(topic, records_policies)

    async def close(self, *, drain_s: float = 0.0) -> None:
        """Close the policies; see `Supervisor.close`."""
        pool = self._pool
        ends_at = time.monotonic() + drain_s
        if pool is not None and not self._is_open and drain_s:
            # What came first is judged, too: after a reload the workers may still be starting.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._started.wait(), drain_s)
        drain_s = max(ends_at - time.monotonic(), 0.0)
        if pool is None or not self._is_open:
            drain_s = 0.0
            self._is_closed = True
        if pool is not None:
            if pool.rings is not None and drain_s:
                pool.rings.recall_all()
            await pool.close(drain_s=drain_s, close_s=_CLOSE_S)
        self.collect_counts()
        if pool is not None and pool.rings is not None:
            # Rings refer to their observer, which refers to the workers: a cycle keeps the policies
            # of before a reload in memory until Python's collector reads all objects.
            pool.rings.observer = None
        self._is_closed = True
        self._log_left_out(self._clock())
