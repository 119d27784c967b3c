"""What the schedule wants done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.verdict import Verdict
    from penstock.engine.workers.jobs import Job
    from penstock.engine.workers.worker import Worker


class Start(NamedTuple):
    """Start a process."""

    worker: Worker


class Load(NamedTuple):
    """Have a process load the policies."""

    worker: Worker


class Send(NamedTuple):
    """Send a job, under the number of its attempt."""

    worker: Worker
    job: Job
    attempt: int


class Skip(NamedTuple):
    """Have a worker skip all attempts up to a number, but for what it has begun."""

    worker: Worker
    attempt: int


class Kill(NamedTuple):
    """End a process, and what it started, at once."""

    worker: Worker


class Close(NamedTuple):
    """Let a process close its policies and end."""

    worker: Worker


class Answer(NamedTuple):
    """Give a job its verdict."""

    job: Job
    verdict: Verdict


class Rest(NamedTuple):
    """Do not try a batch again too soon: its interceptors spent so many seconds on it."""

    job: Job
    spent_s: float


class Report(NamedTuple):
    """Write an error to the log."""

    event: str
    fields: Mapping[str, Any]


Action = Start | Load | Send | Skip | Kill | Close | Answer | Rest | Report
