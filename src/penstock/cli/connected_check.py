"""`penstock check --connect`: what judges the topics that exist, with what policies look up.

A validation policy (KIP-940) may have a method `describe_topic(topic, configs)`: it returns lines
that say what the topic's records are judged by.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.cli.failures import CommandError
from penstock.cli.topic_settings import kept_settings
from penstock.cluster.compacted_topic import CompactedTopicError
from penstock.cluster.metadata import ClusterMetadata, MetadataUnavailableError
from penstock.configuration import ConfigurationError
from penstock.engine.instances import PolicyInstances
from penstock.engine.loading import describe
from penstock.engine.plan import NO_SETTINGS, Plan
from penstock.policy import RetriableException
from penstock.topic_configs.index import UnreadableTopicConfigsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from penstock.configuration import Configuration
    from penstock.engine.plan import TopicPlan


def describe_topics(configuration: Configuration) -> Iterator[str]:
    """Yield lines about each topic that a validation policy judges, in the order of names.

    Args:
        configuration: Names the cluster and the policy.

    Raises:
        ConfigurationError: It names no validation policy, or a topic's settings are invalid.
        CommandError: The cluster does not answer, or what the policy asks does not.
    """
    plan = Plan(configuration.policies)
    if configuration.record_validation_policy_class_name is None:
        raise ConfigurationError(
            f"{configuration.path}: --connect needs record.validation.policy.class.name"
        )
    policies = PolicyInstances(configuration.policies, plan.names)
    try:
        judged = 0
        for topic, own in sorted(_topics(configuration).items()):
            found = plan.for_topic(topic, own)
            if found is None or not (found.validation_policy or found.unusable):
                continue
            judged += 1
            yield f"topic {topic}"
            yield from (f"  {line}" for line in _lines(policies.validation, found))
        yield f"{judged} of the cluster's topics are judged by a validation policy"
    finally:
        policies.close()


def _topics(configuration: Configuration) -> dict[str, Mapping[str, str]]:
    """Return the topic level keys that were set on each topic of the cluster."""
    properties = configuration.upstream_properties
    try:
        view = ClusterMetadata(properties, configuration.folder)
        names = asyncio.run(view.topics()).keys()
        index = kept_settings(configuration, properties)
        ids = view.ids(name for name in names if index.names(name))
        return {
            name: index.of(name, topic_id)
            if (topic_id := ids.get(name)) is not None
            else NO_SETTINGS
            for name in names
        }
    except (MetadataUnavailableError, CompactedTopicError, UnreadableTopicConfigsError) as error:
        raise CommandError(f"{properties['bootstrap.servers']}: {error}") from None


def _lines(validation: Any, plan: TopicPlan) -> Iterator[str]:
    if plan.unusable:
        yield f"cannot be judged: {plan.unusable}"
        return
    describe_topic = getattr(validation, "describe_topic", None)
    if not callable(describe_topic):
        yield f"{plan.validation_policy}  record.validation.policy={plan.validation_setting}"
        return
    try:
        yield from describe_topic(plan.topic, plan.validation_configs)
    except ValueError as error:
        yield f"cannot be judged: {error}"
    except RetriableException as error:
        raise CommandError(f"topic {plan.topic}: {error.message}") from None
    except Exception as error:
        raise CommandError(
            f"topic {plan.topic}: {plan.validation_policy}: describe_topic() failed: "
            f"{describe(error)}"
        ) from None
