"""Which topics lose records though their clients get a success, by the file and their own keys."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from penstock.engine.plans.plan import NO_SETTINGS, Plan
from penstock.gateway.produce.producer_state.changes import are_too_many, pattern_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.topic_configs.index import TopicConfigIndex

_AT_ONCE: Final = 100
"""How many topics are read before requests have their turn again."""


def plans_of(
    topic: str, plan: Plan, stored_keys: Sequence[Mapping[str, str]]
) -> Iterator[TopicPlan]:
    """Return the plans that may hold for a topic.

    Args:
        stored_keys: All topic level keys that may be set on the topic itself, by its possible ids.
    """
    return filter(None, (plan.for_topic(topic, own) for own in stored_keys or [NO_SETTINGS]))


def losses(
    topic: str, plan: Plan, stored_keys: Sequence[Mapping[str, str]]
) -> Counter[TopicPlan | None]:
    """Return a value that differs if a topic may lose other records.

    The arguments are those of `plans_of`. The value counts how many ids lose the same: a topic that
    is created again may have the keys of the old topic. It is empty if no id can lose records,
    with or without keys.
    """
    file_losses, *key_losses = (_losses(topic, plan, own) for own in (NO_SETTINGS, *stored_keys))
    key_losses = key_losses or [file_losses]
    return Counter(key_losses) if file_losses or any(key_losses) else Counter()


def _losses(topic: str, plan: Plan, own: Mapping[str, str]) -> TopicPlan | None:
    topic_plan = plan.for_topic(topic, own)
    return topic_plan.losses if topic_plan is not None else None


def may_lose_records(topic: str, plans: Sequence[Plan], index: TopicConfigIndex | None) -> bool:
    """Whether records of a topic may not be stored though the client gets success.

    Args:
        plans: The policies before and after a change.
        index: The topic level keys that are set on topics; None if there are none.
    """
    stored_keys = index.all_of(topic) if index is not None else []
    return any(
        topic_plan.losses for plan in plans for topic_plan in plans_of(topic, plan, stored_keys)
    )


async def losing_topics(plans: Sequence[Plan], index: TopicConfigIndex | None) -> list[str]:
    """Return patterns (`re.search`) for the topics with own keys that may lose records.

    The arguments are those of `may_lose_records`.
    """
    names: list[str] = []
    for count, topic in enumerate(index.topic_names if index is not None else (), start=1):
        if count % _AT_ONCE == 0:
            await asyncio.sleep(0)
        if may_lose_records(topic, plans, index):
            names.append(topic)
            if are_too_many(names):
                break
    return [pattern_of(names)] if names else []
