"""Logs refusals, with a limit of lines per second for the same reason."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from penstock.engine.verdict import OF_GATEWAYS, STORED, FailureCause, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.verdict import PolicyVerdict

log = structlog.get_logger()

_LINES_A_SECOND: Final = 10
_REASONS_MAX: Final = 1000
_NOT_REFUSED: Final = frozenset({"observed", *(outcome.value for outcome in STORED)})


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused partition of a Produce request, or a refused topic or config resource.

    Also records to which a policy objects and that were stored with marks (`penstock.mode`): see
    the outcome of the verdict.

    Attributes:
        topic: The name of the topic; for configs, the type and the name of the resource.
        partition: The partition; None for topics and configs.
        client_id: The client id, or None.
        is_observed: Whether it only would have been refused (`penstock.mode`).
        principal: The principal of the client, or None if it is not known.
        address: The address of the client, or None if it is not known.
        records: How many records the batch has according to its header; None for topics and
            configs.
        resource: For configs, the type and the name of the resource.
        dead_letter_topic: Where the records are, if they are in quarantine.
        plan: The digest of the topic's plan; empty for topics and configs, and if it is unknown.
        is_awaited: Whether its client sends the request again and again, until the topic exists.
    """

    topic: str
    partition: int | None
    client_id: str | None
    verdict: PolicyVerdict
    is_observed: bool = False
    principal: str | None = None
    address: str | None = None
    records: int | None = None
    resource: tuple[str, str] | None = None
    dead_letter_topic: str | None = None
    is_awaited: bool = False
    plan: str = ""


class RefusalLog:
    """Writes one line for each refused partition, within a rate limit."""

    def __init__(self, watch: Callable[[Refused], None] | None = None) -> None:
        self._watch = watch
        self._second = 0
        self._lines: dict[tuple[str, int, str, str], int] = {}

    def report(self, refused: Refused) -> None:
        """Log a refusal, and pass it to the watcher; for debugging only, if its client has gone."""
        if refused.verdict.cause is FailureCause.ABANDONED:
            log.debug(
                "records abandoned",
                topic=refused.topic,
                partition=refused.partition,
                client_id=refused.client_id,
            )
            return
        if self._watch is not None:
            self._watch(refused)
        verdict = refused.verdict
        second = int(time.monotonic())
        if second != self._second:
            self._report_omitted()
            self._second = second
        became = "observed" if refused.is_observed else verdict.outcome.value
        reason = (refused.topic, verdict.code, verdict.policy, became)
        if len(self._lines) >= _REASONS_MAX and reason not in self._lines:
            return
        count = self._lines[reason] = self._lines.get(reason, 0) + 1
        if count > _LINES_A_SECOND:
            return
        write = log.info
        if verdict.outcome is Outcome.POSTPONED:
            write = log.warning
        if verdict.outcome is Outcome.FAILED:
            write = log.warning if refused.is_observed else log.error
        write(
            _event(refused),
            topic=refused.topic,
            **({} if refused.partition is None else {"partition": refused.partition}),
            client_id=refused.client_id,
            **({} if refused.principal is None else {"principal": refused.principal}),
            **({} if refused.address is None else {"address": refused.address}),
            code=verdict.code,
            policy=verdict.policy,
            message=_first(refused),
            **({"records": len(verdict.record_errors)} if verdict.record_errors else {}),
            **({"detail": verdict.detail} if verdict.detail else {}),
        )

    def _report_omitted(self) -> None:
        for (topic, code, policy, became), count in self._lines.items():
            if count > _LINES_A_SECOND:
                log.info(
                    "refusals not logged separately",
                    topic=topic,
                    code=code,
                    policy=policy,
                    count=count - _LINES_A_SECOND,
                    **({became: True} if became in _NOT_REFUSED else {}),
                )
        self._lines.clear()


def _event(refused: Refused) -> str:
    """Return the name of the event; another in the modes that refuse nothing."""
    outcome = refused.verdict.outcome
    if outcome is Outcome.FAILED:
        return "policy would fail" if refused.is_observed else "policy failed"
    subject = "topic" if refused.partition is None else "records"
    what = outcome.value if outcome in OF_GATEWAYS else "refused"
    return f"{subject} would be {what}" if refused.is_observed else f"{subject} {what}"


def _first(refused: Refused) -> str | None:
    """Return the message of the first record, or of the batch."""
    errors = refused.verdict.record_errors
    return errors[0].message if errors else refused.verdict.message
