"""A world whose processes also judge batches of rings: `WorkerRings` is the gateway's."""

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from penstock.engine.verdict import ACCEPTED, UNJUDGED, FailureCause, PolicyVerdict
from penstock.engine.workers import actions
from penstock.engine.workers.batch_to_judge import EarlyOutcome
from penstock.engine.workers.jobs import JudgingJob
from penstock.engine.workers.processes.child import ProcessEnd
from penstock.engine.workers.processes.worker import KillReason, Worker, WorkerState
from penstock.engine.workers.progress import DONE, PREPARING
from penstock.engine.workers.rings import SLOW_S, WorkerRings
from penstock.engine.workers.schedule import BLOCKED_AFTER_S, NO_PROGRESS_CHECK_S, WorkerLimits
from penstock.engine.workers.supervisor import _blame
from tests.engine.plans import VALIDATED, plan_of
from tests.engine.simulated import Process, World

_PLANS = plan_of(VALIDATED)
_AT_ONCE = 4
_ROUNDING_S = 1e-6


@dataclass(eq=False)
class Batch:
    """A batch of a connection that a native thread has.

    Attributes:
        job: What Python submitted for it, if it did.
        answer: Its verdict; the client has a response then.
        judged: The verdicts of the workers that have judged it through a ring.
        culprit_of: The workers that it has ended in their rings.
        is_withdrawn: Whether its client has left.
        is_distrusted: Whether it was in a ring with nonsense.
    """

    partition: tuple[str, int]
    client: object
    plan: bytes
    job: JudgingJob | None = None
    answer: PolicyVerdict | None = None
    judged: list[PolicyVerdict] = field(default_factory=list)
    culprit_of: list[Worker] = field(default_factory=list)
    is_withdrawn: bool = False
    is_distrusted: bool = False


@dataclass(eq=False)
class Entry:
    """A batch in a ring."""

    batch: Batch
    number: int = 0
    outcome: str = ""
    """As the worker has written it."""
    is_read: bool = False
    is_returned: bool = False
    """Whether its thread waits no more."""
    is_pythons: bool = False
    is_left_out: bool = False


class SimulatedRing:
    """A ring, and the threads that wait for its outcomes; `native/src/ring/sender.rs`."""

    def __init__(self, number: int, _threads: int) -> None:
        self.number = number
        self.written: list[Entry] = []
        self.waiting: list[Entry] = []
        self.begun = 0
        """The number of the last batch that the worker has read."""
        self.current = 0
        self.is_paused = self.is_closed = self.is_broken = False
        self._untaken: list[tuple[Batch, int, str]] = []
        self._late: tuple[list[int], list[int]] = [], []

    def submit(self, batch: Batch) -> bool:
        if self.is_closed or self.is_paused:
            return False
        self.waiting.append(Entry(batch))
        self._refill()
        return True

    def _refill(self) -> None:
        while self.waiting and sum(not entry.is_read for entry in self.written) < _AT_ONCE:
            entry = self.waiting.pop(0)
            self.written.append(entry)
            entry.number = len(self.written)

    def _read(self) -> None:
        if self.is_broken:
            return
        for entry in self.written:
            if entry.outcome and not entry.is_read:
                entry.is_read = True
                if entry.is_pythons and entry.outcome != "verdict":
                    self._late[entry.outcome == "left out"].append(entry.number)
                if not entry.is_returned:
                    entry.is_returned = True
                    self._untaken.append((entry.batch, entry.number, entry.outcome))

    def break_off(self) -> None:
        """Find nonsense in it."""
        self._read()
        self.is_broken = self.is_closed = True
        for entry in self.written:
            entry.batch.is_distrusted |= not entry.is_read
        self._return_all(0)

    def take(self) -> list[tuple[Batch, int, str]]:
        """Return what threads learn: batches, numbers and outcomes."""
        self._read()
        if not self.is_closed:
            self._refill()
        untaken, self._untaken = self._untaken, []
        return untaken

    def recall(self) -> bytes:
        self.is_paused = True
        return self._recall_all()

    def close(self) -> bytes:
        self.is_closed = True
        return self._recall_all()

    def resume(self) -> None:
        self.is_paused = False

    def _recall_all(self) -> bytes:
        for entry in self.written:
            entry.is_left_out = True
        self._read()
        entry = self.written[self.current - 1] if self.current else None
        self._return_all(self.current)
        return entry.batch.plan if entry is not None and not entry.is_read else b""

    def _return_all(self, current: int) -> None:
        for entry in (*self.written, *self.waiting):
            if not entry.is_returned:
                entry.is_returned = True
                entry.is_pythons = entry.number != 0 and entry.number == current
                number = entry.number if entry.is_pythons else 0
                self._untaken.append((entry.batch, number, "left out"))
        self.waiting.clear()

    def withdraw(self, batch: Batch) -> None:
        """Have no thread wait for a batch whose client has left."""
        self.waiting = [entry for entry in self.waiting if entry.batch is not batch]
        for entry in self.written:
            if entry.batch is batch:
                entry.is_left_out = entry.is_returned = True
        self._untaken = [each for each in self._untaken if each[0] is not batch]

    def take_late(self) -> tuple[list[int], list[int]]:
        self._read()
        late, self._late = self._late, ([], [])
        return late

    def figures(self) -> tuple[int, int, int, int, bool]:
        answered = sum(entry.is_read for entry in self.written)
        return self.current, len(self.written), answered, len(self.waiting), self.is_broken

    @property
    def behind(self) -> list[Entry]:
        """Those whose threads wait, except the batch in the worker's hand."""
        waiting = (*self.written, *self.waiting)
        return [
            entry
            for entry in waiting
            if not (entry.is_returned or entry.outcome) and entry.number != self.current
        ]


class SimulatedPool:
    """The rings of the slots."""

    def __init__(self) -> None:
        self.slots: list[SimulatedRing | None] = []

    def set(self, slots: list[SimulatedRing | None]) -> None:
        self.slots = slots


class SimulatedNative:
    """The native module."""

    Ring = SimulatedRing
    RingPool = SimulatedPool


@dataclass(eq=False)
class Hand:
    """A batch of its ring that a process judges."""

    entry: Entry
    since: float
    """When its policy began to decide, or to prepare."""
    seen_at: float = math.nan
    """When a tick saw that."""
    is_begun: bool = False
    """Whether it was found not to be left out after it was noted that it is in hand."""
    verdict: PolicyVerdict | None = None
    """The verdict that was sent before its outcome is written."""


class RingWorld(World):
    """A world with rings, as the supervisor uses them, and with what must hold for them."""

    def __init__(self, limits: WorkerLimits) -> None:
        self.hands: dict[Process, Hand] = {}
        self.messages: dict[Process, list[tuple[int, PolicyVerdict]]] = {}
        self.batches: list[Batch] = []
        self.returned: list[tuple[Batch, int, int, str]] = []
        """Connections that Python has: batch, ring, number and outcome."""
        self.figures: Counter[str] = Counter()
        self._slow_since: dict[str, float] = {}
        self._seen: dict[Worker, tuple[tuple[Any, ...], float]] = {}
        self.own_rings = WorkerRings(SimulatedNative, 1, lambda: self.now)
        self.ring_of: dict[Worker, SimulatedRing] = {}
        super().__init__(limits)

    # The gateway

    def carry_out_in_rings(self, action: actions.Action) -> None:
        match action:
            case actions.Start(worker):
                self.ring_of[worker] = self.own_rings.open(worker)
            case actions.Recall(worker):
                self._note_slow(worker)
                self.own_rings.recall(worker)
            case actions.Kill(worker):
                self._check_deadline(worker)
                self._note_slow(worker)
                self.own_rings.close(worker)
            case actions.Close(worker):
                self.own_rings.close(worker)

    def tick(self, after_s: float = 0.02) -> None:
        self.own_rings.put_late()
        self.rings = self.own_rings.figures()
        for process, hand in self.hands.items():
            if math.isnan(hand.seen_at) and process.worker.judges:
                hand.seen_at = self.now + after_s
        super().tick(after_s)
        self.own_rings.follow(self.schedule.servers)
        self._check_tick()

    def _note_slow(self, worker: Worker) -> None:
        hand = self.hands.get(self.processes[worker])
        if hand is not None and not hand.entry.is_read and not self.ring_of[worker].is_broken:
            self._slow_since[hand.entry.batch.partition[0]] = self.now

    def produce(self, partition: tuple[str, int], client: object) -> Batch:
        """Let a native thread receive a batch."""
        batch = Batch(partition, client, _PLANS.for_topic(partition[0]).encoded)
        self.batches.append(batch)
        slots = self.own_rings.pool.slots
        ring = slots[self.schedule._slot_of(partition)] if slots else None
        if self.own_rings.serves(partition[0]) and ring is not None and ring.submit(batch):
            self.figures["in rings"] += 1
            slow_since = self._slow_since.get(partition[0], -math.inf)
            assert self.now - slow_since >= SLOW_S, "a slow topic is in a ring"
        else:
            self._submit(batch)
        return batch

    def _submit(self, batch: Batch) -> None:
        is_lost = batch.is_distrusted or batch.judged == [ACCEPTED]
        assert is_lost or not batch.judged, "judged again"
        assert batch.is_distrusted or not batch.culprit_of, (
            "a batch that has ended its worker is judged again"
        )
        assert batch.job is None or batch.job in self.answers
        if not batch.is_withdrawn:
            batch.job = self.submit(batch.partition, batch.client)

    def take(self) -> None:
        """Let threads learn of outcomes."""
        for ring in self.ring_of.values():
            for batch, number, outcome in ring.take():
                if outcome == "accepted":
                    self._answer(batch, ACCEPTED)
                else:
                    self.returned.append((batch, ring.number, number, outcome))

    def go_on(self, place: int = 0) -> None:
        """Let Python continue with a connection that came back."""
        if self.returned:
            batch, ring, number, _ = self.returned.pop(place % len(self.returned))
            if number:
                early = EarlyOutcome(batch.plan, ring, number, False, 0.0, 0.0)
                self.own_rings.expect_verdict(early, partial(self._on_early, batch))
            else:
                self._submit(batch)

    def _on_early(self, batch: Batch, verdict: PolicyVerdict | None, _: float | None) -> None:
        if verdict is None:
            self.figures["judged again"] += 1
            self._submit(batch)
        else:
            self.figures["to blame" if batch.culprit_of else f"early {verdict.outcome.name}"] += 1
            self._answer(batch, verdict)

    def _answer(self, batch: Batch, verdict: PolicyVerdict) -> None:
        if batch.is_withdrawn:
            return
        assert batch.answer is None and batch.job is None, "answered twice"
        batch.answer = verdict
        assert verdict in batch.judged or batch.culprit_of, "a verdict that nobody gave"

    def leave(self, batch: Batch) -> None:
        """Let a client leave whose batch may be in a ring."""
        batch.is_withdrawn = True
        for ring in self.ring_of.values():
            ring.withdraw(batch)

    # Processes

    def begin(self, process: Process) -> bool:
        return process not in self.hands and super().begin(process)

    def note_in_ring(self, process: Process) -> bool:
        """Let a process take the next batch of its ring into its hand."""
        judges = process.state in {"ready", "closing"} and not (process.current or process.killed)
        if process in self.hands or not judges:
            return False
        ring = self.ring_of[process.worker]
        self.send(process)
        while ring.begun < len(ring.written):
            entry = ring.written[ring.begun]
            ring.begun += 1
            if not entry.is_left_out:
                ring.current = entry.number
                self.hands[process] = Hand(entry, self.now)
                return True
            entry.outcome = "left out"
        return False

    def begin_in_ring(self, process: Process) -> bool:
        """Let a process begin the next batch of its ring, unless it was recalled just now."""
        hand = self.hands.get(process)
        if process.killed or (hand is None and not self.note_in_ring(process)):
            return False
        hand = self.hands[process]
        if not hand.is_begun and hand.entry.is_left_out:
            del self.hands[process]
            hand.entry.outcome = "left out"
            self.ring_of[process.worker].current = 0
            self.figures["left out in hand"] += 1
            return self.begin_in_ring(process)
        batch = hand.entry.batch
        assert hand.is_begun or not (batch.judged or batch.culprit_of), "begun again"
        hand.is_begun = True
        return True

    def prepare(self, process: Process, *, begins: bool) -> None:
        """Let a policy begin to prepare, or end it."""
        hand = self.hands.get(process)
        phase = PREPARING if begins else DONE
        if hand is not None and hand.is_begun and process.phase != phase:
            process.phase, hand.since, hand.seen_at = phase, self.now, math.nan

    def send_in_ring(self, process: Process, verdict: PolicyVerdict) -> None:
        """Let a process send the verdict on the batch of its ring; there is no outcome yet."""
        hand = self.hands.get(process)
        if hand is None or not hand.is_begun or hand.verdict or process.killed:
            return
        hand.verdict = verdict
        hand.entry.batch.judged.append(verdict)
        if verdict is not ACCEPTED:
            self.messages.setdefault(process, []).append((hand.entry.number, verdict))

    def end_in_ring(self, process: Process, verdict: PolicyVerdict = ACCEPTED) -> None:
        """Let a process give the verdict on the batch of its ring."""
        self.send_in_ring(process, verdict)
        hand = self.hands.get(process)
        if hand is None or hand.verdict is None or process.killed:
            return
        del self.hands[process]
        hand.entry.outcome = "accepted" if hand.verdict is ACCEPTED else "verdict"
        self.ring_of[process.worker].current = 0
        process.phase = DONE

    def deliver(self, process: Process) -> None:
        for number, verdict in self.messages.pop(process, []):
            self.own_rings.put_verdict(process.worker, number, verdict, 0.1)
            if verdict.cause is FailureCause.OUT_OF_MEMORY:
                self.figures["out of memory"] += 1
                self.schedule.out_of_memory(process.worker, self.now)
                self.carry_out()
                assert not process.worker.judges, "a worker without memory judges"
        super().deliver(process)

    def die(self, process: Process, *, by_another: bool = False) -> None:
        if process.state == "dead":
            return
        worker, hand = process.worker, self.hands.pop(process, None)
        cause = worker.kill_cause
        if hand is not None:
            self._note_lost(process, hand, by_another=by_another)
        self.deliver(process)
        self.own_rings.close(worker)
        super().die(process, by_another=by_another)
        self.own_rings.forget(worker, _blame(worker, ProcessEnd("why", by_another)))
        assert cause is worker.kill_cause

    def _note_lost(self, process: Process, hand: Hand, *, by_another: bool) -> None:
        """Note whether a batch has ended its worker."""
        worker = process.worker
        if worker.kill_cause is not None:
            ends = worker.kill_cause.reason is KillReason.DEADLINE_EXCEEDED
        else:
            ends = not by_another and worker.state_reached is not WorkerState.CLOSING
        if ends and hand.verdict is None:
            hand.entry.batch.culprit_of.append(worker)

    def break_off(self, process: Process) -> None:
        """Let a process write nonsense into its ring."""
        ring = self.ring_of[process.worker]
        if process.state == "ready" and not ring.is_closed:
            ring.break_off()

    # What must hold

    def _check_deadline(self, worker: Worker) -> None:
        process = self.processes[worker]
        hand, cause = self.hands.get(process), worker.kill_cause
        if hand is not None and cause.reason is KillReason.DEADLINE_EXCEEDED:
            self.figures["deadlines"] += 1
            assert self.now - hand.since > self._limit_s(process), "killed too early"

    def _limit_s(self, process: Process) -> float:
        limits = self.limits
        is_preparing = process.phase == PREPARING
        return limits.preparation_timeout_s if is_preparing else limits.timeout_s

    def _check_tick(self) -> None:
        for process in self.living():
            worker, ring = process.worker, self.ring_of[process.worker]
            hand = self.hands.get(process)
            if hand is not None and worker.judges:
                took = self.now - hand.seen_at
                assert took <= self._limit_s(process) + _ROUNDING_S, "a deadline is exceeded"
                if took > BLOCKED_AFTER_S + _ROUNDING_S:
                    self.figures["blocked"] += 1
                    assert not ring.behind, "batches wait for a blocked worker"
                    assert ring not in self.own_rings.pool.slots
            if hand is None and process.current is None:
                assert worker.state is not WorkerState.BLOCKED, "a worker stays blocked"
            if ring.is_broken:
                assert not worker.judges, "a worker that wrote nonsense judges"
            self._check_idle_ring(process, ring)
        for partition in self.schedule._partition_queues:
            slot = self.schedule._slot_of(partition)
            assert self.own_rings.pool.slots[slot] is None, "a partition has another worker"
        for slot, ring in enumerate(self.own_rings.pool.slots):
            if ring is not None:
                assert not (ring.is_paused or ring.is_closed), "nobody can use a ring"
                assert self.schedule.servers[slot] is not None

    def _check_idle_ring(self, process: Process, ring: SimulatedRing) -> None:
        """No batch stays in a ring that the worker does not read."""
        state = ring.figures()[:3]
        last, since = self._seen.get(process.worker, ((), 0.0))
        if state != last or ring.current:
            self._seen[process.worker] = state, self.now
            return
        begin_s = max(NO_PROGRESS_CHECK_S, self.limits.timeout_s)
        if process.worker.judges and self.now - since > begin_s + _ROUNDING_S and ring.written:
            # A batch may have come since.
            old = [entry for entry in ring.behind if entry.number and entry.number <= state[1]]
            assert not old, "batches stay with a worker that does not begin them"

    @property
    def is_done(self) -> bool:
        """Whether all is answered."""
        open_batches = [
            batch
            for batch in self.batches
            if batch.answer is None and batch.job not in self.answers and not batch.is_withdrawn
        ]
        return super().is_done and not open_batches and not self.own_rings.is_awaited

    def judge(self, process: Process, verdict: PolicyVerdict = ACCEPTED) -> bool:
        """Let it judge one batch of each kind, at once."""
        if self.begin_in_ring(process):
            self.end_in_ring(process, verdict)
            self.deliver(process)
            return True
        begun = super().judge(process, verdict)
        self.take()
        while self.returned:
            self.go_on()
        return begun

    def check_end(self) -> None:
        """Check what holds when nothing is open: rings are used again, and verdicts are right."""
        for batch in self.batches:
            if batch.is_withdrawn:
                continue
            of_job = self.answers.get(batch.job) if batch.job is not None else None
            assert (batch.answer is None) != (of_job is None)
            if batch.culprit_of and batch.answer is not None:
                assert batch.answer.cause not in UNJUDGED and batch.answer is not ACCEPTED
        self.tick()
        for _ in range(4000):
            self.be_kind(10)
            if None not in self.own_rings.pool.slots:
                break
            self.tick()
        before = self.figures["in rings"]
        sent = [self.produce(("fresh", number), None) for number in range(6)]
        assert self.figures["in rings"] == before + len(sent), "rings are not used again"
        self.be_kind(100)
        assert [batch.answer for batch in sent] == [ACCEPTED] * len(sent)
