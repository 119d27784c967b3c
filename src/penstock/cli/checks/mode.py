"""What `penstock check` says of a topic's mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.configuration.topic_keys import MODE, OBSERVE, value_of

if TYPE_CHECKING:
    from penstock.engine.plans.plan import Plan
    from penstock.engine.plans.topic_plan import TopicPlan

_OBSERVED: Final = ", observed: nothing is refused"


def mode_of(plan: Plan, topic: str, topic_plan: TopicPlan | None) -> str:
    """Return what becomes of bad records of a topic or a glob, where they are not refused."""
    if topic_plan is None:
        observed = value_of(MODE, plan.settings_of_pattern(topic)) == OBSERVE
        return _OBSERVED if observed else ""
    if topic_plan.holds_dead_letters and topic_plan.waited_for is None:
        return ", not judged: it holds dead letters"
    if topic_plan.mode == OBSERVE and topic_plan.waited_for is None:
        return _OBSERVED
    words = (
        ", observed, but for policies with a mode of their own"
        if topic_plan.mode == OBSERVE
        else ""
    )
    if topic_plan.quarantines:
        words += f", in quarantine: bad records go to {topic_plan.dead_letter_topic}"
    if topic_plan.marks:
        words += ", marked: bad records are stored, with headers that say why"
    return words
