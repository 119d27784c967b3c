"""A worker process as the schedule sees it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.engine.workers.progress import DONE, Hand

if TYPE_CHECKING:
    from penstock.engine.workers.jobs import Job
    from penstock.engine.workers.queue import JobQueue

AHEAD_MIN, AHEAD_MAX, AHEAD_MAX_BYTES = 2, 512, 512 * 1024
"""What a worker is sent before it answers, so that it does not wait for the next one: always
two batches; more, up to a number and a size, while they come back soon."""
_SOON_S: Final = 0.01


class WorkerState(IntEnum):
    """Where a worker is in its life."""

    STARTING = 0
    SPARE = 1
    """Started, without policies."""
    LOADING = 2
    READY = 3
    HELD_UP = 4
    """Busy with one batch for so long that it gets no other one."""
    CLOSING = 5
    """It was told to close its policies and end."""
    KILLED = 6
    """It was killed, and is not known to be dead."""
    DEAD = 7


_S = WorkerState
_LEGAL: Final[tuple[frozenset[WorkerState], ...]] = (
    frozenset({_S.SPARE, _S.CLOSING, _S.KILLED, _S.DEAD}),
    frozenset({_S.LOADING, _S.CLOSING, _S.KILLED, _S.DEAD}),
    frozenset({_S.READY, _S.CLOSING, _S.KILLED, _S.DEAD}),
    frozenset({_S.HELD_UP, _S.CLOSING, _S.KILLED, _S.DEAD}),
    frozenset({_S.READY, _S.CLOSING, _S.KILLED, _S.DEAD}),
    frozenset({_S.KILLED, _S.DEAD}),
    frozenset({_S.DEAD}),
    frozenset(),
)
"""What may follow each state."""


class Reason(IntEnum):
    """Why a worker was killed."""

    OVERDUE = 0
    """A batch ran into its deadline."""
    GARBLED = 1
    """It sent what is no message, or no verdict where one is due."""
    LOADS_TOO_LONG = 2


class Killed(NamedTuple):
    """What a worker was killed for.

    Attributes:
        reason: The kind.
        text: For the log, and for the client whose batch was overdue.
        hand: What it had in hand.
    """

    reason: Reason
    text: str
    hand: Hand


class Worker:
    """A process: where it is in its life, what it was sent, what it was seen to do.

    Attributes:
        number: Tells it from others.
        state: Where it is.
        sent: What it has yet to answer, by attempt, in order.
        sent_bytes: Their size.
        ahead: How many it is sent before it answers.
        lines: What it serves.
        hand: What it was seen to have in hand.
        since: When that was seen first.
        heard: When it last gave a verdict, or was sent something with nothing before it.
        answered: Whether it has given a verdict.
        loading_until: When it has had enough time to load its policies.
        alone: Whether it has a job that must be alone.
        furthest: The state it came to before its end.
        killed: What for.
        failure: What it told when it could not load its policies.
    """

    __slots__ = ("ahead", "alone", "answered", "failure", "furthest", "hand", "heard", "killed",
                 "lines", "loading_until", "number", "sent", "sent_bytes", "since",
                 "state")  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = WorkerState.STARTING
        self.sent: dict[int, Job] = {}
        self.sent_bytes = 0
        self.ahead = 8
        self.lines: list[JobQueue] = []
        self.alone = False
        self.furthest = WorkerState.STARTING
        self.hand = Hand(0, DONE)
        self.since = 0.0
        self.heard = 0.0
        self.answered = False
        self.loading_until = 0.0
        self.killed: Killed | None = None
        self.failure = ""

    def __repr__(self) -> str:
        return f"worker {self.number} {self.state.name}"

    def become(self, state: WorkerState) -> None:
        """Go over to another state."""
        assert state in _LEGAL[self.state], f"{self.state.name} to {state.name}"
        self.state = state
        if state < WorkerState.CLOSING:
            self.furthest = max(self.furthest, state)

    @property
    def judges(self) -> bool:
        """Whether it has policies, and is not at its end."""
        return self.state is WorkerState.READY or self.state is WorkerState.HELD_UP

    @property
    def has_room(self) -> bool:
        """Whether it may be sent one more batch."""
        count = len(self.sent)
        if count < AHEAD_MIN:
            return not self.alone
        return count < self.ahead and self.sent_bytes < AHEAD_MAX_BYTES

    @property
    def is_dedicated(self) -> bool:
        """Whether it serves a partition that held it up."""
        return any(line.place is not None for line in self.lines)

    def came_back(self, after_s: float) -> None:
        """Learn how long a batch took from when it was sent."""
        if after_s > _SOON_S:
            self.ahead = max(AHEAD_MIN, self.ahead // 2)
        elif self.ahead < AHEAD_MAX:
            self.ahead += 1
