"""The pool of worker processes: started, loaded with policies, replaced, within a limit.

There are as many workers as configured, each in its slot. Extra workers, up to the
same number, help while some are blocked. One more process waits, started but without
policies, to replace a worker at once. A process counts from the decision
to start it until it is known to be dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.engine.workers.actions import Close, CountEnd, Kill, Load, LogError, Start
from penstock.engine.workers.observer import WorkerEnd
from penstock.engine.workers.processes.worker import KillCause, KillReason, Worker, WorkerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.workers.actions import Action

EXTRA_IDLE_S: Final = 60.0
_ENDING: Final = frozenset({WorkerState.KILLED, WorkerState.CLOSING})
_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 0.5, 30.0
_KILLED: Final = {
    KillReason.DEADLINE_EXCEEDED: WorkerEnd.DEADLINE,
    KillReason.PROTOCOL_ERROR: WorkerEnd.PROTOCOL,
    KillReason.LOAD_TIMEOUT: WorkerEnd.LOAD_TIMEOUT,
    KillReason.STALLED: WorkerEnd.STALLED,
}


class Backoff:
    """Exponential backoff: 0.5 s, 1 s, ... 30 s."""

    def __init__(self) -> None:
        self.pause_s = 0.0
        self.end_s = 0.0

    @property
    def failing(self) -> bool:
        """Whether the last attempt failed."""
        return self.pause_s > 0

    def failed(self, now: float) -> float:
        """Record a failure and return the pause; failures during a pause count as one."""
        if now >= self.end_s:
            self.pause_s = min(max(self.pause_s * 2, _BACKOFF_FIRST_S), _BACKOFF_MAX_S)
            self.end_s = now + self.pause_s
        return self.pause_s

    def worked(self) -> None:
        """Record a success."""
        self.pause_s = self.end_s = 0.0


class WorkerPool:
    """The workers of a schedule.

    Attributes:
        alive: All that are not known to be dead, oldest first.
        slots: The workers of each slot.
        extra: Workers beside these.
        last_error: Why there is no worker, in words for clients; empty if there is no problem.
        limit: The maximum number of processes.
    """

    def __init__(
        self, act: Callable[[Action], None], size: int, *, spare: bool, load_s: float
    ) -> None:
        """Prepare; nothing is started.

        Args:
            act: Called with each action.
            size: How many slots.
            spare: Whether one more process waits.
            load_s: How long a worker may load its policies.
        """
        self._act = act
        self._size = size
        self._spares = 1 if spare else 0
        self._load_s = load_s
        self._number = 0
        self.alive: list[Worker] = []
        self.slots: list[Worker | None] = [None] * size
        self.extra: list[Worker] = []
        self.last_error = ""
        self.limit = 2 * size + self._spares
        self._start_backoff = Backoff()
        self._load_backoff = Backoff()

    def count(self, state: WorkerState) -> int:
        """Count the workers in a state."""
        return sum(worker.state is state for worker in self.alive)

    @property
    def judging(self) -> list[Worker]:
        """The workers that have policies."""
        return [
            worker for worker in (*self.slots, *self.extra) if worker is not None and worker.judges
        ]

    @property
    def ending(self) -> list[Worker]:
        """The workers that no longer judge and are not known to be dead."""
        return [worker for worker in self.alive if worker.state in _ENDING]

    def fill(self, now: float, demand: int) -> None:
        """Load policies into spare processes, and start processes, where workers are missing.

        Args:
            demand: For how many more workers there is work.
        """
        spares = [worker for worker in self.alive if worker.state is WorkerState.SPARE]
        spares.sort(key=lambda worker: worker.number)
        loading = [worker for worker in (*self.slots, *self.extra) if worker is not None]
        loading = [worker for worker in loading if worker.state is WorkerState.LOADING]
        limit = self._size * 2 if not self._load_backoff.failing else 1
        if now < self._load_backoff.end_s:
            limit = 0
        vacant_slots = [slot for slot, worker in enumerate(self.slots) if worker is None]
        extra = max(0, min(demand - len(loading) - len(vacant_slots), self._size - len(self.extra)))
        unmet = 0
        for slot in (*vacant_slots, *[None] * extra):
            if len(loading) >= limit:
                break
            if not spares:
                unmet += 1
                continue
            worker = spares.pop(0)
            self._load(worker, slot, now)
            loading.append(worker)
        self._start(now, unmet + self._spares - len(spares))

    def _load(self, worker: Worker, slot: int | None, now: float) -> None:
        if slot is None:
            self.extra.append(worker)
        else:
            self.slots[slot] = worker
        worker.become(WorkerState.LOADING)
        worker.loading_until = now + self._load_s
        self._act(Load(worker))

    def _start(self, now: float, count: int) -> None:
        """Start processes until this many are starting."""
        if now < self._start_backoff.end_s:
            return
        starting = self.count(WorkerState.STARTING)
        if self._start_backoff.failing:
            count = min(count, 1)
        for _ in range(min(count - starting, self.limit - len(self.alive))):
            self._number += 1
            worker = Worker(self._number)
            self.alive.append(worker)
            self._act(Start(worker))

    def started(self, worker: Worker) -> None:
        """Record that a process runs."""
        worker.become(WorkerState.SPARE)
        if not self._load_backoff.failing:
            self.last_error = ""

    def loaded(self, worker: Worker, now: float) -> None:
        """Record that a worker has loaded its policies."""
        worker.become(WorkerState.READY)
        worker.last_active = worker.current_since = now
        self._start_backoff.worked()
        self._load_backoff.end_s = 0.0
        self.last_error = ""

    def answered(self, worker: Worker) -> None:
        """Record a worker's first verdict: starting workers makes sense."""
        worker.has_answered = True
        self._load_backoff.worked()

    def kill(self, worker: Worker, reason: KillReason, text: str) -> None:
        """Kill a process; it counts until it is known to be dead."""
        worker.kill_cause = KillCause(reason, text, worker.current)
        worker.become(WorkerState.KILLED)
        self.leave(worker)
        self._act(Kill(worker))

    def close(self, worker: Worker) -> None:
        """Let a process close its policies and exit; it counts until it is known to be dead."""
        worker.become(WorkerState.CLOSING)
        self.leave(worker)
        self._act(Close(worker))

    def leave(self, worker: Worker) -> None:
        """Free a worker's slot for another worker."""
        if worker in self.extra:
            self.extra.remove(worker)
        elif worker in self.slots:
            self.slots[self.slots.index(worker)] = None

    def died(
        self, worker: Worker, why: str, topic: str | None, now: float, *, useful: bool
    ) -> None:
        """Record the death of a process; back off if it judged nothing.

        Args:
            worker: The dead worker.
            why: The cause, as far as it is known.
            topic: The topic whose batch it was judging.
            useful: Whether something was judged by it, or by its death.
        """
        was_closing = worker.state is WorkerState.CLOSING
        worker.become(WorkerState.DEAD)
        self.leave(worker)
        self.alive.remove(worker)
        if worker.out_of_memory or not was_closing:
            self._act(CountEnd(_cause_of_end(worker)))
        if was_closing:
            return
        event = "policy worker died"
        fields: dict[str, object] = {"process": worker.number, "reason": why}
        if worker.state_reached is WorkerState.STARTING:
            self.last_error = "no process can be started for it"
            event = "a policy process cannot be started"
            fields["next_attempt_s"] = self._start_backoff.failed(now)
        elif worker.state_reached is WorkerState.SPARE:
            fields["next_attempt_s"] = self._start_backoff.failed(now)
        elif worker.state_reached is WorkerState.LOADING:
            self.last_error = "it cannot be loaded in a new process"
            event = "policies cannot be loaded"
            fields["next_attempt_s"] = self._load_backoff.failed(now)
        else:
            fields["topic"] = topic
            if not useful:
                fields["next_attempt_s"] = self._load_backoff.failed(now)
        self._act(LogError(event, fields))

    def check_loading(self, now: float) -> None:
        """Kill workers whose policies take too long to load."""
        for worker in list(self.alive):
            if worker.state is WorkerState.LOADING and now > worker.loading_until:
                text = "a policy took too long to load and configure"
                self.kill(worker, KillReason.LOAD_TIMEOUT, text)

    def idle(self, now: float) -> list[Worker]:
        """Return the extra workers that have been idle for `EXTRA_IDLE_S`."""
        ready = (worker for worker in self.extra if worker.state is WorkerState.READY)
        return [
            worker
            for worker in ready
            if not worker.sent_jobs and now - worker.last_active > EXTRA_IDLE_S
        ]


def _cause_of_end(worker: Worker) -> WorkerEnd:
    """Return why a worker died without a request to end, or is not trusted any more."""
    if worker.out_of_memory:
        return WorkerEnd.MEMORY
    if worker.kill_cause is not None:
        return _KILLED[worker.kill_cause.reason]
    if worker.state_reached <= WorkerState.SPARE:
        return WorkerEnd.NOT_STARTED
    loading = worker.state_reached is WorkerState.LOADING
    return WorkerEnd.NOT_LOADED if loading else WorkerEnd.CRASHED
