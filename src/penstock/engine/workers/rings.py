"""Rings: memory in which native threads of the gateway have batches judged by the workers.

A native thread writes a batch into the ring of the worker that judges its partition, and reads the
outcome there (`native/src/ring`). The schedule sees neither: it learns which worker is busy
with a batch of its ring, and decides which workers serve which partitions. Whatever is not the
usual case leaves the ring: the batches of a worker that is blocked, killed or closed are recalled,
so that their connections come back to Python, which submits them to the schedule.

A topic whose batch has blocked a worker stays with the schedule for `SLOW_S`: it has deadlines for
single batches, and knows which batch is to blame.
"""

from __future__ import annotations

import time
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.batch_to_judge import EarlyOutcome
    from penstock.engine.workers.processes.worker import Worker

    OnVerdict = Callable[[PolicyVerdict | None, float | None], None]
    """Gets a verdict, and how many seconds the batch was judged, if that is known."""

log = structlog.get_logger()

SLOW_S: Final = 30.0
_TOPICS_MAX: Final = 1_000
_VERDICTS_MAX: Final = 1_000
_RING_BITS: Final = 32
_supervisors = count(1)
_read = lru_cache(64)(TopicPlan.decode)


class RingFigures(NamedTuple):
    """The state of a ring.

    Attributes:
        current: The number of the batch that the worker judges; 0 for none.
        batch_count: How many batches were written.
        outcome_count: How many of them have an outcome.
        waiting_count: How many wait to be written.
        is_broken: Whether the worker has written what is not an outcome.
    """

    current: int
    batch_count: int
    outcome_count: int
    waiting_count: int
    is_broken: bool


class WorkerRings:
    """The rings of the workers of one supervisor.

    Attributes:
        pool: The native end: which ring serves which slot.
    """

    def __init__(
        self, native: Any, threads: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Make no ring yet.

        Args:
            native: The native module.
            threads: How many native threads the gateway has.
            clock: Returns the time in seconds.
        """
        self._clock = clock
        self._new_ring = native.Ring
        self._threads = threads
        self._rings: dict[Worker, Any] = {}
        self._servers: list[Worker | None] = []
        self._slow_until: dict[str, float] = {}
        self._paused: set[Worker] = set()
        self._closed_rings: dict[Worker, Any] = {}
        self._evicted: dict[int, int] = {}
        self._numbers: dict[Worker, int] = {}
        self._last_batches: dict[Worker, tuple[int, bytes]] = {}
        self._verdicts: dict[tuple[int, int], tuple[PolicyVerdict | None, float | None]] = {}
        self._callbacks: dict[tuple[int, int], OnVerdict] = {}
        self._supervisor = next(_supervisors)
        self._ring_numbers = count(1)
        self._was_logged = False
        self.pool = native.RingPool()

    def open(self, worker: Worker) -> Any | None:
        """Return a ring for a worker; None if the system gives no descriptors or no memory for it.

        Then the worker has its batches from Python.
        """
        number = self._supervisor << _RING_BITS | next(self._ring_numbers)
        try:
            ring = self._rings[worker] = self._new_ring(number, self._threads)
        except OSError as error:
            if not self._was_logged:
                self._was_logged = True
                log.warning("native threads have no ring of a worker", reason=str(error))
            return None
        self._numbers[worker] = number
        return ring

    def put_verdict(
        self,
        worker: Worker,
        number: int,
        verdict: PolicyVerdict | None,
        took_s: float | None = None,
    ) -> None:
        """Give the verdict on a batch to who waits for it, or keep it.

        Args:
            worker: It has the batch in its ring.
            number: The number of the batch there.
            verdict: The verdict; None if the batch was not judged.
            took_s: How many seconds it was judged; None if that is not known.
        """
        key = self._numbers.get(worker, 0), number
        on_verdict = self._callbacks.pop(key, None)
        if on_verdict is not None:
            on_verdict(verdict, took_s)
            return
        self._verdicts[key] = verdict, took_s
        if len(self._verdicts) > _VERDICTS_MAX:  # of connections that have ended
            ring, evicted_number = next(iter(self._verdicts))
            del self._verdicts[ring, evicted_number]
            self._evicted[ring] = max(evicted_number, self._evicted.get(ring, 0))

    def expect_verdict(self, early: EarlyOutcome, on_verdict: OnVerdict) -> None:
        """Call a function with the verdict on a batch; with None if it was lost with its worker.

        Or if a worker of other policies gave it: they may have the same plan, and not be the same.
        """
        key = early.ring, early.number
        if early.ring >> _RING_BITS != self._supervisor:
            on_verdict(None, None)
        elif early.is_accepted:
            on_verdict(ACCEPTED, early.took_s)
        elif key in self._verdicts:
            on_verdict(*self._verdicts.pop(key))
        elif self._may_come(early):
            self._callbacks[key] = on_verdict
        else:
            on_verdict(None, None)

    def _may_come(self, early: EarlyOutcome) -> bool:
        """Return whether the verdict on a batch may still be sent."""
        is_evicted = early.number <= self._evicted.get(early.ring, 0)
        return early.ring in self._numbers.values() and not is_evicted

    @property
    def is_awaited(self) -> bool:
        """Whether a verdict is waited for."""
        return bool(self._callbacks)

    def follow(self, servers: list[Worker | None]) -> None:
        """Let the workers that serve the slots have the batches of their partitions."""
        for worker in self._paused.intersection(filter(None, servers)):
            self._rings[worker].resume()
            self._paused.discard(worker)
        if servers != self._servers:
            self._servers = servers
            self.pool.set([self._rings.get(worker) if worker else None for worker in servers])

    def figures(self) -> dict[Worker, RingFigures]:
        """Return the state of each ring."""
        return {worker: RingFigures(*ring.figures()) for worker, ring in self._rings.items()}

    def recall(self, worker: Worker) -> None:
        """Have Python submit the batches of a worker's ring."""
        ring = self._rings.get(worker)
        if ring is not None:
            self._paused.add(worker)
            self._note_slow(ring.recall())

    def close(self, worker: Worker) -> None:
        """Recall the batches of a worker that ends; it gets no more."""
        ring = self._rings.pop(worker, None)
        self._paused.discard(worker)
        if ring is not None:
            self.follow([None if server is worker else server for server in self._servers])
            number = RingFigures(*ring.figures()).current
            plan = ring.close()
            self._closed_rings[worker] = ring
            self._last_batches[worker] = number, plan
            self._note_slow(plan)

    def put_late(self) -> None:
        """Give the verdicts on batches that were recalled while they were judged, and accepted."""
        for worker, ring in (*self._rings.items(), *self._closed_rings.items()):
            accepted_numbers, left_out_numbers = ring.take_late()
            for number in accepted_numbers:
                self.put_verdict(worker, number, ACCEPTED)
            for number in left_out_numbers:
                self.put_verdict(worker, number, None)

    def forget(self, worker: Worker, blame: str) -> None:
        """Wait for no verdict of a worker that has ended.

        Args:
            blame: How the batch that it judged has ended it; empty if that is not to blame.
        """
        self.put_late()
        self._closed_rings.pop(worker, None)
        number, plan = self._last_batches.pop(worker, (0, b""))
        if blame and plan and (self._numbers.get(worker, 0), number) not in self._verdicts:
            policies = TopicPlan.decode(plan).policy_names
            self.put_verdict(worker, number, failed(policies, blame))
        ring = self._numbers.pop(worker, 0)
        self._evicted.pop(ring, None)
        for key in [key for key in self._callbacks if key[0] == ring]:
            self._callbacks.pop(key)(None, None)

    def use_instance(self, topic: str, name: str) -> bool:
        """Return whether a ring has a batch that a topic's class of KIP-686 is to judge."""
        plans = (plan for ring in self._rings.values() for plan in ring.open_plans())
        return any((plan.topic, plan.records_policy) == (topic, name) for plan in map(_read, plans))

    def serves(self, topic: str) -> bool:
        """Return whether the batches of a topic may be judged through rings."""
        end_time = self._slow_until.get(topic)
        return end_time is None or self._clock() >= end_time

    def _note_slow(self, plan: bytes) -> None:
        if plan:
            now = self._clock()
            if len(self._slow_until) >= _TOPICS_MAX:
                self._slow_until = {
                    topic: end_time
                    for topic, end_time in self._slow_until.items()
                    if end_time > now
                }
            self._slow_until[TopicPlan.decode(plan).topic] = now + SLOW_S
