"""Dead letter topics that a gateway would not write to, or not create, as `penstock check` warns.

A topic that does not exist yet is judged as a gateway would create it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.configuration.globs import is_glob
from penstock.configuration.topic_keys import DEAD_LETTER_TOPIC
from penstock.engine.admin_policies import AdminContext, TopicCreation
from penstock.engine.plans.plan import NO_SETTINGS
from penstock.engine.verdict import Outcome
from penstock.gateway.admin.topic_policies import TopicPolicies
from penstock.gateway.produce.dead_letters.rules import configs_of_letters, name_obstacle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.configuration import Configuration
    from penstock.engine.plans.plan import Plan

_MESSAGE_MAX_BYTES: Final = 1_048_588
"""Kafka's default for a topic."""


def name_warnings(
    configuration: Configuration,
    plan: Plan,
    topics: Mapping[str, int],
    own: Mapping[str, Mapping[str, str]],
) -> Iterator[str]:
    """Yield a warning for each dead letter topic that a gateway would not write to, or not create.

    Args:
        configuration: Names the policies.
        plan: The policies of topics.
        topics: Their numbers of partitions, or globs of the file with 1.
        own: The topic level keys that were set on topics, of all topics that exist.
    """
    creations: dict[str, TopicCreation] = {}
    for topic, partitions in sorted(topics.items()):
        topic_plan = plan.for_pattern(topic, own.get(topic, NO_SETTINGS))
        if (
            topic_plan is None
            or not topic_plan.quarantines
            or is_glob(topic_plan.dead_letter_topic)
        ):
            continue
        name = topic_plan.dead_letter_topic
        keys = own.get(name, NO_SETTINGS)
        why_not = name_obstacle(plan, configuration.own_topics, topic, name, keys)
        if why_not:
            yield f"warning: topic {topic}: batches with bad records are refused: {why_not}"
        elif name not in own:
            configs = configs_of_letters(_MESSAGE_MAX_BYTES)
            replicas = topic_plan.dead_letter_replicas
            creations[name] = TopicCreation(name, partitions, replicas, None, configs)
    if creations and configuration.create_topic_policy_class_name is not None:
        yield from asyncio.run(_refusals(configuration, list(creations.values())))


async def _refusals(configuration: Configuration, topics: Sequence[TopicCreation]) -> list[str]:
    """Return a warning for each topic that the `CreateTopicPolicy` does not accept."""
    policies = TopicPolicies(configuration, tries_classes=False)
    await policies.start()
    try:
        warnings = []
        for topic in topics:
            verdict = await policies.creation(topic, AdminContext())
            if verdict.outcome is not Outcome.ACCEPTED:
                why = verdict.message or verdict.detail or "the policy gave no reason"
                warnings.append(
                    f"warning: {DEAD_LETTER_TOPIC}: {verdict.policy} does not accept "
                    f"{topic.topic} with {topic.num_partitions} partitions and "
                    f"{topic.replication_factor} replicas, so batches with bad records are "
                    f"refused: {why}"
                )
        return warnings
    finally:
        await policies.close()
