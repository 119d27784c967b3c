"""Logs refusals, with a limit of lines per second for the same reason."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from penstock.engine.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.verdict import Verdict

log = structlog.get_logger()

_LINES_A_SECOND: Final = 10
_REASONS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused partition of a Produce request, or a refused topic or config resource.

    Attributes:
        topic: The name of the topic; for configs, the type and the name of the resource.
        partition: The partition; None for topics and configs.
        client_id: The client id, or None.
        verdict: The verdict.
        principal: The principal of the client, or None if it is not known.
        address: The address of the client, or None if it is not known.
        records: How many records the batch has, as its header says; None for topics and configs.
        resource: For configs, the type and the name of the resource.
    """

    topic: str
    partition: int | None
    client_id: str | None
    verdict: Verdict
    principal: str | None = None
    address: str | None = None
    records: int | None = None
    resource: tuple[str, str] | None = None


class RefusalLog:
    """Writes one line for each refused partition, within a rate limit."""

    def __init__(self, watch: Callable[[Refused], None] | None = None) -> None:
        self._watch = watch
        self._second = 0
        self._lines: dict[tuple[str, int, str], int] = {}

    def report(self, refused: Refused) -> None:
        """Log a refusal, and pass it to the watcher."""
        if self._watch is not None:
            self._watch(refused)
        verdict = refused.verdict
        second = int(time.monotonic())
        if second != self._second:
            self._report_omitted()
            self._second = second
        reason = (refused.topic, verdict.code, verdict.policy)
        if len(self._lines) >= _REASONS_MAX and reason not in self._lines:
            return
        count = self._lines[reason] = self._lines.get(reason, 0) + 1
        if count > _LINES_A_SECOND:
            return
        write, what = log.info, "refused"
        if verdict.outcome is Outcome.POSTPONED:
            write, what = log.warning, "postponed"
        subject = "topic" if refused.partition is None else "records"
        if verdict.outcome is Outcome.FAILED:
            write = log.error
        write(
            "policy failed" if verdict.outcome is Outcome.FAILED else f"{subject} {what}",
            topic=refused.topic,
            **({} if refused.partition is None else {"partition": refused.partition}),
            client_id=refused.client_id,
            code=verdict.code,
            policy=verdict.policy,
            message=_first(refused),
            **({"records": len(verdict.record_errors)} if verdict.record_errors else {}),
            **({"detail": verdict.detail} if verdict.detail else {}),
        )

    def _report_omitted(self) -> None:
        for (topic, code, policy), count in self._lines.items():
            if count > _LINES_A_SECOND:
                log.info(
                    "refusals not logged singly",
                    topic=topic,
                    code=code,
                    policy=policy,
                    count=count - _LINES_A_SECOND,
                )
        self._lines.clear()


def _first(refused: Refused) -> str | None:
    """Return the message of the first record, or of the batch."""
    errors = refused.verdict.record_errors
    return errors[0].message if errors else refused.verdict.message
