"""What `penstock check` says of a topic's mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.configuration.topic_keys import MODE, OBSERVE, value_of

if TYPE_CHECKING:
    from penstock.engine.plans.plan import Plan
    from penstock.engine.plans.topic_plan import TopicPlan

_OBSERVED: Final = ", observed: nothing is refused"


def mode_of(plan: Plan, topic: str, found: TopicPlan | None) -> str:
    """Return what becomes of bad records of a topic or a glob, where they are not refused."""
    if found is None:
        observed = value_of(MODE, plan.settings_of_pattern(topic)) == OBSERVE
        return _OBSERVED if observed else ""
    if found.holds_dead_letters and found.waited_for is None:
        return ", not judged: it holds dead letters"
    if found.mode == OBSERVE and found.waited_for is None:
        return _OBSERVED
    words = ", observed, but for policies with a mode of their own" if found.mode == OBSERVE else ""
    if found.quarantines:
        words += f", in quarantine: bad records go to {found.dead_letter_topic}"
    if found.marks:
        words += ", marked: bad records are stored, with headers that say why"
    return words
