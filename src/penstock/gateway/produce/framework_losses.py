"""Refuses batches of which a framework's own topic would lose records.

See `engine.plans.framework_topics`. The batch is judged, and intercepted, as in any other topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from penstock.engine.plans.framework_topics import ALLOWED_BY, FrameworkTopic
from penstock.engine.verdict import Outcome, RecordError, because, refused, refused_records
from penstock.kafka.error_codes import INVALID_RECORD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.verdict import PolicyVerdict
    from penstock.gateway.produce.lookups.cleanup_policies import CleanupPolicies

log = structlog.get_logger()

_LOGGED_MAX: Final = 10_000
_BY_NAME: Final = "is named as frameworks name their own topics"
_COMPACTED: Final = "is compacted"
_DROPPED: Final = "an interceptor drops the record"


class FrameworkLosses:
    """Which topics lose no records, and the refusals of their batches."""

    def __init__(self, cleanup: CleanupPolicies) -> None:
        """Refuse nothing yet.

        Args:
            cleanup: Whether topics are compacted.
        """
        self._cleanup = cleanup
        self._logged: set[str] = set()

    def are_refused(self, plan: TopicPlan) -> bool | None:
        """Return whether no record of a topic may be lost; None if it is not known now."""
        if plan.framework == FrameworkTopic.IF_COMPACTED:
            return self._cleanup.is_compacted(plan.topic)
        return plan.framework == FrameworkTopic.BY_NAME

    async def look_up(self, topics: Iterable[str]) -> dict[str, bool]:
        """Return whether topics are compacted, as far as it can be found out now."""
        return await self._cleanup.look_up(topics)

    def forget(self, topic: str) -> None:
        """Forget whether a topic is compacted: that may have changed."""
        self._cleanup.forget(topic)

    def refusal(self, plan: TopicPlan, verdict: PolicyVerdict) -> PolicyVerdict:
        """Return the refusal of a batch of which records would be lost.

        Args:
            plan: The policies of its topic.
            verdict: The verdict that accepts the batch without these records.
        """
        by_name = plan.framework == FrameworkTopic.BY_NAME
        rule = (
            f"Topic {plan.topic} {_BY_NAME if by_name else _COMPACTED}, and has policies only by a "
            f"pattern with a wildcard, so its records are not set aside or dropped ({ALLOWED_BY})"
        )
        if plan.topic not in self._logged and len(self._logged) < _LOGGED_MAX:
            self._logged.add(plan.topic)
            log.warning(
                "a topic of a framework loses no records: batches are refused",
                topic=plan.topic,
                reason=_BY_NAME if by_name else _COMPACTED,
                remedy=f"name the topic without a wildcard, or set {ALLOWED_BY}=true",
            )
        return _refusal(plan, verdict, rule)


def _refusal(plan: TopicPlan, verdict: PolicyVerdict, rule: str) -> PolicyVerdict:
    bad = verdict.quarantined
    for diverted in bad:
        objection = diverted.verdict
        if not objection.record_errors:  # to the complete batch
            return refused(INVALID_RECORD, because(rule, objection.message), objection.policy)
    errors = {
        error.index: RecordError(error.index, because(rule, error.message), error.policy)
        for diverted in bad
        for error in diverted.verdict.record_errors
    }
    dropped_positions = verdict.replacement.dropped if verdict.replacement is not None else ()
    by_interceptor = f"{rule}: {_DROPPED}"
    for position in dropped_positions:
        if position not in errors:
            errors[position] = RecordError(position, by_interceptor, plan.interceptor_names)
    return refused_records([errors[position] for position in sorted(errors)])


def loses_records(plan: TopicPlan, verdict: PolicyVerdict) -> bool:
    """Return whether a batch of a topic is accepted without some records, which may be refused."""
    return (
        plan.framework != FrameworkTopic.NO
        and verdict.outcome is Outcome.ACCEPTED
        and verdict.replacement is not None
        and bool(verdict.replacement.dropped)
    )
