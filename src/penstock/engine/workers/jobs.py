"""One partition's batch, or a question about a topic, on its way through the workers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

    from penstock.engine.workers.queue import JobQueue

    Place = tuple[str, int]
    """A topic and the number of a partition: what one worker judges at a time."""


class JobState(IntEnum):
    """Where a job is."""

    WAITING = 0
    SENT = 1
    """A worker has it, and is not known to have begun it."""
    BEGUN = 2
    ANSWERED = 3


_LEGAL: Final = (
    frozenset({JobState.SENT, JobState.ANSWERED}),
    frozenset({JobState.BEGUN, JobState.WAITING, JobState.ANSWERED}),
    frozenset({JobState.WAITING, JobState.ANSWERED}),
    frozenset[JobState](),
)
"""What may follow each state. A job that is back from a worker waits again."""


@dataclass(slots=True, eq=False)
class Job:
    """What is to be judged, for whom, until when.

    Attributes:
        place: Topic and partition.
        turn: Who it is for: jobs that wait are taken in turn.
        policies: The names of all classes that look at it, for texts.
        interceptors: The names of those that are interceptors, for texts.
        payload: What a worker is told. The schedule does not look at it.
        done: Takes the verdict. The schedule does not call it.
        size: Bytes.
        deadline: When its client gives it up.
        state: Where it is.
        attempt: The number under which it was sent last. Numbers are never used twice.
        line: Where it waits, or came from.
        sent_at: When it was sent last.
        overdue: How many of its attempts interceptors let run into their deadline.
        lost: In how many attempts it was begun and its verdict lost, through nobody's fault
            that is known.
        alone: Whether a worker gets nothing beside it, so that its fault can be told.
        late: Whether it was answered while a worker was at it, because its client waits no
            longer.
    """

    place: Place
    turn: Hashable
    policies: str
    interceptors: str
    payload: Any
    done: Any
    size: int
    deadline: float
    state: JobState = JobState.WAITING
    attempt: int = 0
    line: JobQueue | None = None
    sent_at: float = 0.0
    overdue: int = 0
    lost: int = 0
    alone: bool = False
    late: bool = False

    def become(self, state: JobState) -> None:
        """Go over to another state."""
        if state not in _LEGAL[self.state]:
            raise AssertionError(f"{self.state.name} to {state.name}")
        self.state = state
