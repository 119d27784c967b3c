"""A worker process as the schedule sees it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.engine.workers.progress import DONE, CurrentAttempt

if TYPE_CHECKING:
    from penstock.engine.workers.jobs import JobQueue, JudgingJob

IN_FLIGHT_MIN, IN_FLIGHT_MAX, IN_FLIGHT_MAX_BYTES = 2, 512, 512 * 1024
"""The limits of the window of unanswered batches, which hides the latency of the socket: it starts
small, grows by one while verdicts come soon, and is halved when they do not."""
_SOON_S: Final = 0.01
AHEAD_S: Final = 0.02
"""A worker gets no more batches while its own are expected to take longer: the next client is
chosen after them."""


class WorkerState(IntEnum):
    """The state of a worker."""

    STARTING = 0
    SPARE = 1
    """Started, without policies."""
    LOADING = 2
    READY = 3
    BLOCKED = 4
    """Busy with one batch for so long that it gets no others."""
    CLOSING = 5
    """It has to close its policies and exit."""
    KILLED = 6
    """Killed, and not known to be dead."""
    DEAD = 7


_S = WorkerState
_LEGAL: Final[tuple[frozenset[WorkerState], ...]] = (
    frozenset({_S.SPARE, _S.CLOSING, _S.KILLED, _S.DEAD}),
    frozenset({_S.LOADING, _S.CLOSING, _S.KILLED, _S.DEAD}),
    frozenset({_S.READY, _S.CLOSING, _S.KILLED, _S.DEAD}),
    frozenset({_S.BLOCKED, _S.CLOSING, _S.KILLED, _S.DEAD}),
    frozenset({_S.READY, _S.CLOSING, _S.KILLED, _S.DEAD}),
    frozenset({_S.KILLED, _S.DEAD}),
    frozenset({_S.DEAD}),
    frozenset(),
)
"""The legal next states."""


class KillReason(IntEnum):
    """Why a worker was killed."""

    DEADLINE_EXCEEDED = 0
    """A batch ran into its deadline."""
    PROTOCOL_ERROR = 1
    """It sent something that is not a message."""
    LOAD_TIMEOUT = 2
    STALLED = 3
    """It had batches and began none."""


class KillCause(NamedTuple):
    """Why a worker was killed.

    Attributes:
        text: For the log, and for the client whose batch was overdue.
        current: The attempt that it was at.
    """

    reason: KillReason
    text: str
    current: CurrentAttempt


class Worker:
    """A process: its state, the messages sent to it, its observed progress.

    Attributes:
        number: Its unique number.
        sent_jobs: The unanswered jobs by attempt, in order.
        sent_s: How long they are expected to take together.
        in_flight_max: How many unanswered jobs it may have.
        queues: The queues that it serves.
        current: The last attempt that it was seen to begin.
        current_since: When that was first seen.
        last_active: When it last sent a verdict, or was sent a job while idle.
        has_answered: Whether it has sent a verdict.
        loading_until: The deadline for loading its policies.
        exclusive: Whether it has an exclusive job.
        drains: Whether it is sent nothing before it has answered everything, since an exclusive
            job comes next.
        state_reached: The last state before its end.
        kill_cause: Why it was killed, if it was.
        failure: Its message where it could not load its policies.
        may_pass: Whether that may go away by itself.
        out_of_memory: Whether it is closed because it is not trusted any more.
        ring_state: The batch of its ring that it judges (0 for none), how many have an outcome, and
            the phase.
        ring_since: When that was first seen.
    """

    __slots__ = (
        "current",
        "current_since",
        "drains",
        "exclusive",
        "failure",
        "has_answered",
        "in_flight_max",
        "kill_cause",
        "last_active",
        "loading_until",
        "may_pass",
        "number",
        "out_of_memory",
        "queues",
        "ring_since",
        "ring_state",
        "sent_bytes",
        "sent_jobs",
        "sent_s",
        "state",
        "state_reached",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = WorkerState.STARTING
        self.sent_jobs: dict[int, JudgingJob] = {}
        self.sent_bytes = 0
        self.sent_s = 0.0
        self.in_flight_max = 8
        self.queues: list[JobQueue[Worker]] = []
        self.exclusive = False
        self.drains = False
        self.ring_state = (0, 0, DONE)
        self.ring_since = 0.0
        self.state_reached = WorkerState.STARTING
        self.current = CurrentAttempt(0, DONE)
        self.current_since = 0.0
        self.last_active = 0.0
        self.has_answered = False
        self.loading_until = 0.0
        self.kill_cause: KillCause | None = None
        self.failure = ""
        self.may_pass = False
        self.out_of_memory = False

    def __repr__(self) -> str:
        return f"worker {self.number} {self.state.name}"

    def become(self, state: WorkerState) -> None:
        """Change to another state."""
        assert state in _LEGAL[self.state], f"{self.state.name} to {state.name}"
        self.state = state
        if state < WorkerState.CLOSING:
            self.state_reached = max(self.state_reached, state)

    @property
    def judges(self) -> bool:
        """Whether it has policies and is not about to end."""
        return self.state is WorkerState.READY or self.state is WorkerState.BLOCKED

    @property
    def has_capacity(self) -> bool:
        """Whether it may be sent another job."""
        if self.drains or self.sent_s > AHEAD_S:
            return False
        count = len(self.sent_jobs)
        if count < IN_FLIGHT_MIN:
            return not self.exclusive
        return count < self.in_flight_max and self.sent_bytes < IN_FLIGHT_MAX_BYTES

    @property
    def is_dedicated(self) -> bool:
        """Whether it serves the queue of a partition that blocked it."""
        return any(queue.topic_partition is not None for queue in self.queues)

    def record_latency(self, latency_s: float) -> None:
        """Adapt the window to the time from sending a job to its verdict."""
        if latency_s > _SOON_S:
            self.in_flight_max = max(IN_FLIGHT_MIN, self.in_flight_max // 2)
        elif self.in_flight_max < IN_FLIGHT_MAX:
            self.in_flight_max += 1
