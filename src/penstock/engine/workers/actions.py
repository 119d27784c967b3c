"""Actions that the schedule decides on and the supervisor executes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.jobs import JudgingJob
    from penstock.engine.workers.observer import WorkerEnd
    from penstock.engine.workers.processes.worker import Worker


class Start(NamedTuple):
    """Start a process."""

    worker: Worker


class Load(NamedTuple):
    """Load the policies in a process."""

    worker: Worker


class Send(NamedTuple):
    """Send a job, under the number of its attempt."""

    worker: Worker
    job: JudgingJob
    attempt: int


class Skip(NamedTuple):
    """Skip all attempts up to a number, except the attempt that the worker has begun."""

    worker: Worker
    attempt: int


class Recall(NamedTuple):
    """Recall the batches of a worker's ring."""

    worker: Worker


class Kill(NamedTuple):
    """Kill a process and its descendants."""

    worker: Worker


class Close(NamedTuple):
    """Close the policies of a process, and end it."""

    worker: Worker


class ReturnVerdict(NamedTuple):
    """Return the verdict to the submitter of the job."""

    job: JudgingJob
    verdict: PolicyVerdict


class Suspend(NamedTuple):
    """Do not retry a batch soon: its interceptors spent this many seconds on it."""

    job: JudgingJob
    spent_s: float


class CountEnd(NamedTuple):
    """Count the end of a worker that ended without a request to."""

    cause: WorkerEnd


class LogError(NamedTuple):
    """Write an error to the log."""

    event: str
    fields: Mapping[str, Any]


Action = (
    Start
    | Load
    | Send
    | Skip
    | Recall
    | Kill
    | Close
    | ReturnVerdict
    | Suspend
    | CountEnd
    | LogError
)
