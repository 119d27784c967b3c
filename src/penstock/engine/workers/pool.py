"""Which processes there should be: started, loaded, replaced, never too many.

There are as many workers as the configuration says, each in its slot. Extra ones, up to the
same number, help while some are held up. One process more waits, started but without
policies, so that a replacement is there at once. A process counts from the moment in which it
is decided to start it until it is known to be dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.engine.workers.actions import Close, Kill, Load, Report, Start
from penstock.engine.workers.worker import Killed, Reason, Worker, WorkerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.workers.actions import Action

EXTRA_IDLE_S: Final = 60.0
_ENDING: Final = frozenset({WorkerState.KILLED, WorkerState.CLOSING})
_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 0.5, 30.0


class Backoff:
    """When to try again what failed: after 0.5 s, 1 s, ... 30 s."""

    def __init__(self) -> None:
        self.pause_s = 0.0
        self.until = 0.0

    @property
    def failing(self) -> bool:
        """Whether the last attempt failed."""
        return self.pause_s > 0

    def failed(self, now: float) -> float:
        """Take note of a failure; give the pause. Several at the same time are one."""
        if now >= self.until:
            self.pause_s = min(max(self.pause_s * 2, _BACKOFF_FIRST_S), _BACKOFF_MAX_S)
            self.until = now + self.pause_s
        return self.pause_s

    def worked(self) -> None:
        """Take note of a success."""
        self.pause_s = self.until = 0.0


class WorkerPool:
    """The workers of a schedule.

    Attributes:
        alive: All that are not known to be dead, oldest first.
        slots: The workers of each slot.
        extra: Workers beside these.
        trouble: Why there is no worker, as a client may be told; empty where all is well.
        limit: No more processes than these, ever.
    """

    def __init__(
        self, act: Callable[[Action], None], size: int, *, spare: bool, load_s: float
    ) -> None:
        """Prepare; nothing is started.

        Args:
            act: Takes what is to be done.
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
        self.trouble = ""
        self.limit = 2 * size + self._spares
        self._starting = Backoff()
        self._loading = Backoff()

    def count(self, state: WorkerState) -> int:
        """Count the workers in a state."""
        return sum(worker.state is state for worker in self.alive)

    @property
    def judging(self) -> list[Worker]:
        """The workers that have policies."""
        return [one for one in (*self.slots, *self.extra) if one is not None and one.judges]

    @property
    def ending(self) -> list[Worker]:
        """The workers that judge nothing any more, and are not known to be dead."""
        return [one for one in self.alive if one.state in _ENDING]

    def fill(self, now: float, wanted: int) -> None:
        """Load and start what is missing.

        Args:
            now: The time.
            wanted: For how many more workers there is work.
        """
        spares = [worker for worker in self.alive if worker.state is WorkerState.SPARE]
        spares.sort(key=lambda worker: worker.number)
        loading = [one for one in (*self.slots, *self.extra) if one is not None]
        loading = [one for one in loading if one.state is WorkerState.LOADING]
        most = self._size * 2 if not self._loading.failing else 1
        if now < self._loading.until:
            most = 0
        missing = [slot for slot, worker in enumerate(self.slots) if worker is None]
        extra = max(0, min(wanted - len(loading) - len(missing), self._size - len(self.extra)))
        unmet = 0
        for slot in (*missing, *[None] * extra):
            if len(loading) >= most:
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
        """Start processes, so many with those that are starting."""
        if now < self._starting.until:
            return
        starting = self.count(WorkerState.STARTING)
        if self._starting.failing:
            count = min(count, 1)
        for _ in range(min(count - starting, self.limit - len(self.alive))):
            self._number += 1
            worker = Worker(self._number)
            self.alive.append(worker)
            self._act(Start(worker))

    def started(self, worker: Worker) -> None:
        """Take note that a process runs."""
        worker.become(WorkerState.SPARE)
        if not self._loading.failing:
            self.trouble = ""

    def loaded(self, worker: Worker, now: float) -> None:
        """Take note that a worker has its policies."""
        worker.become(WorkerState.READY)
        worker.heard = worker.since = now
        self._starting.worked()
        self._loading.until = 0.0
        self.trouble = ""

    def answered(self, worker: Worker) -> None:
        """Take note of a worker's first verdict: new workers are of use."""
        worker.answered = True
        self._loading.worked()

    def kill(self, worker: Worker, reason: Reason, text: str) -> None:
        """End a process; it counts until it is known to be dead."""
        worker.killed = Killed(reason, text, worker.hand)
        worker.become(WorkerState.KILLED)
        self.leave(worker)
        self._act(Kill(worker))

    def close(self, worker: Worker) -> None:
        """Let a process end; it counts until it is known to be dead."""
        worker.become(WorkerState.CLOSING)
        self.leave(worker)
        self._act(Close(worker))

    def leave(self, worker: Worker) -> None:
        """Make a worker's place free for another one."""
        if worker in self.extra:
            self.extra.remove(worker)
        elif worker in self.slots:
            self.slots[self.slots.index(worker)] = None

    def gone(self, worker: Worker, why: str, topic: str | None, now: float, *, fruit: bool) -> None:
        """Take note of a death; wait before the next attempt where it was of no use.

        Args:
            worker: Was alive.
            why: As it is known.
            topic: What it was judging.
            now: The time.
            fruit: Whether something was judged by it, or by its death.
        """
        was_closing = worker.state is WorkerState.CLOSING
        worker.become(WorkerState.DEAD)
        self.leave(worker)
        self.alive.remove(worker)
        if was_closing:
            return
        event = "policy worker died"
        fields: dict[str, object] = {"process": worker.number, "reason": why}
        if worker.furthest is WorkerState.STARTING:
            self.trouble = "no process can be started for it"
            event = "a policy process cannot be started"
            fields["next_attempt_s"] = self._starting.failed(now)
        elif worker.furthest is WorkerState.SPARE:
            fields["next_attempt_s"] = self._starting.failed(now)
        elif worker.furthest is WorkerState.LOADING:
            self.trouble = "it cannot be loaded in a new process"
            event = "policies cannot be loaded"
            fields["next_attempt_s"] = self._loading.failed(now)
        else:
            fields["topic"] = topic
            if not fruit:
                fields["next_attempt_s"] = self._loading.failed(now)
        self._act(Report(event, fields))

    def check_loading(self, now: float) -> None:
        """End workers that load for too long."""
        for worker in list(self.alive):
            if worker.state is WorkerState.LOADING and now > worker.loading_until:
                text = "a policy took too long to load and configure"
                self.kill(worker, Reason.LOADS_TOO_LONG, text)

    def idle(self, now: float) -> list[Worker]:
        """Give the extra workers that have had nothing to do for a while."""
        ready = (worker for worker in self.extra if worker.state is WorkerState.READY)
        return [one for one in ready if not one.sent and now - one.heard > EXTRA_IDLE_S]
