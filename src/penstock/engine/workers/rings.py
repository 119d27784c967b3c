"""Rings: memory in which native threads of the gateway have batches judged by the workers.

A native thread writes a batch into the ring of the worker that judges its partition, and reads the
outcome there (`native/src/ring`). The schedule sees neither: it learns which worker is busy
with a batch of its ring, and decides which workers serve which partitions. Whatever is not the
usual case leaves the ring: the batches of a worker that is blocked, killed or closed are recalled,
so that their connections come back to Python, which submits them to the schedule.

A topic whose batch has blocked a worker stays with the schedule for `SLOW_S`: it has deadlines for
single batches, and knows which batch is to blame. Where batches are only observed, that is so of a
batch that has ended its worker.
"""

from __future__ import annotations

import time
from collections import deque
from functools import lru_cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import structlog

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, failed
from penstock.engine.workers.batch_to_judge import NOT_BEGUN, EarlyOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.processes.worker import Worker

    OnVerdict = Callable[[PolicyVerdict | None, float | None], None]
    """Gets a verdict, and how many seconds the batch was judged, if that is known."""
    _Key = tuple[int, int]
    """The number of a ring, and that of a batch there."""

log = structlog.get_logger()

SLOW_S: Final = 30.0
_TOPICS_MAX: Final = 1_000
_VERDICTS_MAX: Final = 1_000
_VERDICTS_MAX_BYTES: Final = 32 * 2**20
"""Verdicts that nobody has taken yet have no more batches to be stored."""
_LATE_S: Final = 2.0
"""A worker sends a verdict before the outcome. If it has not come so long after that, a class has
written the outcome."""
_KEPT_S: Final = 60.0
"""Who waits for a verdict of a worker that has ended takes it sooner."""
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


class FromRing(NamedTuple):
    """A batch of a ring that is only observed.

    Attributes:
        plan: The topic's policies that observe it, encoded.
        partition: The partition's number.
        topic_id: The topic's id; zeros where no policy needs it.
        version: The version of the Produce request.
        connection: The number of the connection.
        principal: The client's principal, if that is known.
        client_id: The client id, or None.
        address: The client's address, if that is known.
        data: Its bytes, as they were received.
        size: How many bytes of the room for batches that are only observed it takes.
    """

    plan: bytes
    partition: int
    topic_id: bytes
    version: int
    connection: int
    principal: str | None
    client_id: str | None
    address: str | None
    data: bytes
    size: int


class RingObserver(Protocol):
    """Gets the batches that are only observed, and that no worker has accepted.

    It gives the room of each back.
    """

    def put_judged(self, batch: FromRing, verdict: PolicyVerdict, took_s: float) -> None:
        """Take the verdict on a batch, and how many seconds it took."""

    def judge_again(self, batch: FromRing) -> None:
        """Have a batch judged that has no verdict."""

    def leave_out(self, plan: bytes, batch_count: int, record_count: int) -> None:
        """Count batches for which there was no room, and their records."""


class WorkerRings:
    """The rings of the workers of one supervisor.

    Attributes:
        pool: The native end: which ring serves which slot.
        observer: Gets the batches that are only observed, and that no worker has accepted.
    """

    def __init__(
        self,
        native: Any,
        threads: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        pool: Any | None = None,
    ) -> None:
        """Make no ring yet.

        Args:
            native: The native module.
            threads: How many native threads the gateway has.
            clock: Returns the time in seconds.
            pool: Where batches are only observed: their native end.
        """
        self._clock = clock
        self._new_ring = native.Ring
        self._threads = threads
        self._rings: dict[Worker, Any] = {}
        self._servers: list[Worker | None] = []
        self._slow_until: dict[str, float] = {}
        self._paused: set[Worker] = set()
        self._closed_rings: dict[Worker, Any] = {}
        self._numbers: dict[Worker, int] = {}
        self._current: dict[Worker, tuple[int, float]] = {}
        self._last_batches: dict[Worker, tuple[int, bytes, float]] = {}
        self._verdicts = _Verdicts()
        self._callbacks: dict[_Key, OnVerdict] = {}
        self._late: deque[tuple[float, _Key]] = deque()
        self._old_rings: deque[tuple[float, int]] = deque()
        self._supervisor = next(_supervisors)
        self._ring_numbers = count(1)
        self._was_logged = False
        self.observer: RingObserver | None = None
        self.pool = native.RingPool() if pool is None else pool

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
        if worker not in self._numbers:
            return  # it has ended: nobody waits for that any more
        key = self._numbers[worker], number
        on_verdict = self._callbacks.pop(key, None)
        if on_verdict is not None:
            on_verdict(verdict, took_s)
            return
        self._verdicts.put(key, verdict, took_s)

    def expect_verdict(self, early: EarlyOutcome, on_verdict: OnVerdict) -> None:
        """Call a function with the verdict on a batch; with None if it was lost with its worker.

        Or if a worker of other policies gave it: they may have the same plan, and not be the same.
        """
        key = early.ring, early.number
        if early.ring >> _RING_BITS != self._supervisor or early.number == NOT_BEGUN:
            on_verdict(None, None)
        elif early.is_accepted:
            on_verdict(ACCEPTED, early.took_s)
        elif key in self._verdicts:
            on_verdict(*self._verdicts.take(key))
        elif self._may_come(early):
            self._callbacks[key] = on_verdict
        else:
            on_verdict(None, None)

    def _may_come(self, early: EarlyOutcome) -> bool:
        """Return whether the verdict on a batch may still be sent."""
        is_lost = self._verdicts.is_lost(early.ring, early.number)
        return early.ring in self._numbers.values() and not is_lost

    @property
    def is_awaited(self) -> bool:
        """Whether a verdict is waited for."""
        return bool(self._callbacks) or (self.observer is not None and self.pool.observed_count > 0)

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
        figures = {worker: RingFigures(*ring.figures()) for worker, ring in self._rings.items()}
        now = self._clock()
        for worker, ring_figures in figures.items():
            if worker not in self._current or self._current[worker][0] != ring_figures.current:
                self._current[worker] = ring_figures.current, now
        return figures

    def recall(self, worker: Worker) -> None:
        """Have Python submit the batches of a worker's ring."""
        ring = self._rings.get(worker)
        if ring is not None:
            self._paused.add(worker)
            plan = ring.recall()
            # Where nobody waits, a worker may only be slow because others go first.
            if self.observer is None:
                self._note_slow(plan)

    def close(self, worker: Worker) -> None:
        """Recall the batches of a worker that ends; it gets no more."""
        ring = self._rings.pop(worker, None)
        self._paused.discard(worker)
        if ring is not None:
            self.follow([None if server is worker else server for server in self._servers])
            number = RingFigures(*ring.figures()).current
            plan = ring.close()
            self._closed_rings[worker] = ring
            known_number, start_time = self._current.pop(worker, (0, 0.0))
            took_s = self._clock() - start_time if number == known_number else 0.0
            self._last_batches[worker] = number, plan, took_s
            self._note_slow(plan)

    def put_late(self) -> None:
        """Give the verdicts on batches that were recalled while they were judged, and accepted."""
        for worker, ring in (*self._rings.items(), *self._closed_rings.items()):
            accepted_numbers, left_out_numbers = ring.take_late()
            for number in accepted_numbers:
                self.put_verdict(worker, number, ACCEPTED)
            for number in left_out_numbers:
                self.put_verdict(worker, number, None)
        if self.observer is not None:
            for ring in (*self._rings.values(), *self._closed_rings.values()):
                ring.look()
            self._put_observed(self.observer)
        self._lose_late()

    def _put_observed(self, observer: RingObserver) -> None:
        """Give the batches that are only observed, and not accepted, to their observer."""
        refused, returned, left_out = self.pool.take_observed()
        now = self._clock()
        for ring, number, took_s, fields in refused:
            early = EarlyOutcome(b"", ring, number, is_accepted=False, took_s=took_s, waited_s=0.0)
            self.expect_verdict(early, partial(_put, observer, FromRing(*fields), took_s))
            if (ring, number) in self._callbacks:
                self._late.append((now + _LATE_S, (ring, number)))
        _put_others(observer, returned, left_out)

    def _lose_late(self) -> None:
        """Wait no more for the verdicts on observed batches that should be here; forget others."""
        now = self._clock()
        while self._late and self._late[0][0] <= now:
            _, key = self._late.popleft()
            on_verdict = self._callbacks.pop(key, None)
            if on_verdict is not None:
                on_verdict(None, None)
        while self._old_rings and self._old_rings[0][0] <= now:
            self._verdicts.forget(self._old_rings.popleft()[1])

    def recall_all(self) -> None:
        """Recall the batches of all workers, and give those that are only observed back."""
        for worker in self._rings:
            self.recall(worker)
        self.put_late()

    def forget(self, worker: Worker, blame: str) -> None:
        """Wait for no verdict of a worker that has ended.

        Args:
            blame: How the batch that it judged has ended it; empty if that is not to blame.
        """
        ring = self._closed_rings.get(worker)
        if ring is not None and self.observer is not None:
            ring.look()
            ring.abandon()
        self.put_late()
        self._closed_rings.pop(worker, None)
        number, plan, took_s = self._last_batches.pop(worker, (0, b"", 0.0))
        if blame and plan and (self._numbers.get(worker, 0), number) not in self._verdicts:
            policies = TopicPlan.decode(plan).policy_names
            # Who waits counts all the time.
            known_s = None if self.observer is None else took_s
            self.put_verdict(worker, number, failed(policies, blame), known_s)
        number_of_ring = self._numbers.pop(worker, 0)
        for key in [key for key in self._callbacks if key[0] == number_of_ring]:
            self._callbacks.pop(key)(None, None)
        if self.observer is not None:
            self._verdicts.forget(number_of_ring)
        else:
            self._old_rings.append((self._clock() + _KEPT_S, number_of_ring))

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


class _Verdicts:
    """Verdicts that nobody has taken yet, within limits; those beyond are lost, the first first."""

    def __init__(self) -> None:
        self._verdicts: dict[_Key, tuple[PolicyVerdict | None, float | None]] = {}
        self._bytes = 0
        self._lost_numbers: dict[int, set[int]] = {}
        self._last_lost: dict[int, int] = {}

    def __contains__(self, key: _Key) -> bool:
        return key in self._verdicts

    def put(self, key: _Key, verdict: PolicyVerdict | None, took_s: float | None) -> None:
        """Keep a verdict, instead of an earlier verdict on the same batch."""
        if key in self._verdicts:
            self.take(key)
        if _size(verdict) > _VERDICTS_MAX_BYTES:
            self._lose(*key)
            return
        self._verdicts[key] = verdict, took_s
        self._bytes += _size(verdict)
        while len(self._verdicts) > _VERDICTS_MAX or self._bytes > _VERDICTS_MAX_BYTES:
            first_key = next(iter(self._verdicts))  # of a connection that has ended
            self.take(first_key)
            self._lose(*first_key)

    def take(self, key: _Key) -> tuple[PolicyVerdict | None, float | None]:
        """Remove a verdict, and return it, and how many seconds the batch was judged."""
        verdict, took_s = self._verdicts.pop(key)
        self._bytes -= _size(verdict)
        return verdict, took_s

    def is_lost(self, ring: int, number: int) -> bool:
        """Return whether there was a verdict on a batch."""
        is_old = number <= self._last_lost.get(ring, 0)
        return is_old or number in self._lost_numbers.get(ring, ())

    def _lose(self, ring: int, number: int) -> None:
        numbers = self._lost_numbers.setdefault(ring, set())
        numbers.add(number)
        if len(numbers) > _VERDICTS_MAX:
            first_number = min(numbers)
            numbers.remove(first_number)
            self._last_lost[ring] = max(first_number, self._last_lost.get(ring, 0))

    def forget(self, ring: int) -> None:
        """Remove all that is known of a ring."""
        self._lost_numbers.pop(ring, None)
        self._last_lost.pop(ring, None)
        for key in [key for key in self._verdicts if key[0] == ring]:
            self.take(key)


def put_back(pool: Any, observer: RingObserver) -> None:
    """Give the batches that are only observed to their observer, while no worker has rings."""
    refused, returned, left_out = pool.take_observed()
    _put_others(observer, [*(fields for *_, fields in refused), *returned], left_out)


def _put_others(
    observer: RingObserver, returned: list[Any], left_out: list[tuple[bytes, int, int]]
) -> None:
    for fields in returned:
        _attempt(observer.judge_again, FromRing(*fields))
    for counts in left_out:
        _attempt(observer.leave_out, *counts)


def _attempt(work: Callable[..., None], *arguments: Any) -> None:
    """Call an observer; its error concerns no other batch."""
    try:
        work(*arguments)
    except Exception:
        log.exception("an error of the gateway", action="observe")


def _put(
    observer: RingObserver,
    batch: FromRing,
    took_s: float,
    verdict: PolicyVerdict | None,
    took_otherwise_s: float | None,
) -> None:
    """Give an observer the verdict on a batch, or the batch if its verdict is lost."""
    if verdict is None:
        _attempt(observer.judge_again, batch)
    else:
        known_s = took_s if took_otherwise_s is None else took_otherwise_s
        _attempt(observer.put_judged, batch, verdict, known_s)


def _size(verdict: PolicyVerdict | None) -> int:
    """Return how many bytes a verdict has that does not store its batch as it is."""
    replacement = None if verdict is None else verdict.replacement
    return 0 if replacement is None else len(replacement.data) + len(replacement.letters)
