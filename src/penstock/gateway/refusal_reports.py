"""Reports refusals in the log, in the audit trail and on the console, and changes of plans."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from penstock.engine.verdict import FailureCause
from penstock.gateway.refusal_log import RefusalLog, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.gateway.observing.audit_trail.trail import AuditTrail
    from penstock.gateway.observing.plan_watch import PlanChange

log = structlog.get_logger()


class RefusalReports:
    """Everything that a refusal is reported to.

    Attributes:
        audit_trail: Writes refusals; None if nothing does, and until it is open.
        show: Shows a refusal on the console; None without a console.
    """

    def __init__(self, watch: Callable[[Refused], None] | None = None) -> None:
        """Report to the log.

        Args:
            watch: Called for each refused partition, in addition to the log.
        """
        self.audit_trail: AuditTrail | None = None
        self.show: Callable[[Refused], None] | None = None
        self._log = RefusalLog(watch)

    def report(self, refused: Refused) -> None:
        """Log a refusal, and pass it to the watcher; write it to the audit trail if it was done.

        A batch whose client has gone was not refused.
        """
        if refused.verdict.cause is FailureCause.ABANDONED:
            self._log.report(refused)
            return
        if self.audit_trail is not None and not refused.is_observed:
            self.audit_trail.put(refused)
        if self.show is not None:
            self.show(refused)
        self._log.report(refused)

    def plan_changed(self, change: PlanChange) -> None:
        """Log that a topic has another plan, and write it to the audit trail."""
        log.info(
            "plan changed",
            topic=change.topic,
            plan=change.after,
            before=change.before,
            cause=change.cause,
            **({} if change.principal is None else {"principal": change.principal}),
        )
        if self.audit_trail is not None:
            self.audit_trail.put_change(change)

    def reopen(self) -> None:
        """Open the file of the audit trail again, if it was renamed."""
        if self.audit_trail is not None:
            self.audit_trail.reopen()

    async def close(self) -> None:
        """Close the audit trail."""
        if self.audit_trail is not None:
            await asyncio.to_thread(self.audit_trail.close)
