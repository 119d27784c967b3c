"""`penstock audit --topics`: the topics that exist, judged as if they were created now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from penstock.cli.failures import CommandError
from penstock.configuration import ConfigurationError
from penstock.configuration.interfaces import ALTER_CONFIG, CREATE_TOPIC
from penstock.engine.admin_policies import AdminContext, ConfigAlteration, TopicCreation
from penstock.engine.plans.plan import INTERNAL_TOPICS
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.engine.verdict import ACCEPTED, Outcome
from penstock.gateway.admin.topic_policies import TopicPolicies
from penstock.jobs.topics.topic_settings import kept_settings
from penstock.kafka.cluster.compacted_topic import CompactedTopicError
from penstock.kafka.cluster.metadata import ClusterMetadata, MetadataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.configuration import Configuration
    from penstock.engine.verdict import PolicyVerdict


class JudgedTopic(NamedTuple):
    """A topic, and the policies' verdict on it."""

    topic: str
    verdict: PolicyVerdict

    @property
    def why(self) -> str:
        """The reason, for a person."""
        return self.verdict.message or self.verdict.detail or "the policy gave no reason"


async def judge_topics(
    configuration: Configuration, properties: Mapping[str, str]
) -> list[JudgedTopic]:
    """Judge every topic but Kafka's own and Penstock's, in the order of their names.

    Each is put to the policies with its counts, and the configs that were set on it, as a
    request to create it would be; a policy that lists the cluster's topics gets the others.

    Args:
        configuration: Names the policies.
        properties: How the cluster is reached, as a Java client takes them.

    Raises:
        ConfigurationError: It names no policy of topics, or a policy that cannot be loaded.
        CommandError: The cluster does not answer.
    """
    policies = TopicPolicies(configuration, tries_classes=False)
    if not (policies.create_topic or policies.alter_config):
        raise ConfigurationError(
            f"{configuration.path}: --topics needs {CREATE_TOPIC} or {ALTER_CONFIG}"
        )
    await policies.start()
    try:
        view = ClusterMetadata(properties, configuration.path)
        topics = await view.topics()
        own = {
            *INTERNAL_TOPICS,
            configuration.topic_settings_topic,
            configuration.audit_topic,
        }
        names = sorted(topics.keys() - own)
        configs = await asyncio.to_thread(view.configs, names)
        await asyncio.to_thread(_add_settings, configuration, properties, view, configs)
        judged_topics = []
        for name in names:
            others = {other: counts for other, counts in topics.items() if other != name}
            context = AdminContext(topics=others)
            verdict = ACCEPTED
            if configs[name]:
                altered = ConfigAlteration("TOPIC", name, configs[name])
                verdict = await policies.alteration(altered, context)
            if verdict.outcome is Outcome.ACCEPTED:
                creation = TopicCreation(name, *topics[name], None, configs[name])
                verdict = await policies.creation(creation, context)
            judged_topics.append(JudgedTopic(name, verdict))
    except (MetadataUnavailableError, CompactedTopicError) as error:
        raise CommandError(f"{properties['bootstrap.servers']}: {error}") from None
    else:
        return judged_topics
    finally:
        await policies.close()


def _add_settings(
    configuration: Configuration,
    properties: Mapping[str, str],
    view: ClusterMetadata,
    configs: dict[str, dict[str, str]],
) -> None:
    """Add the topic level keys that Penstock keeps to the configs of their topics."""
    index = kept_settings(configuration, properties)
    ids = view.ids(name for name in configs if index.names(name))
    for name, topic_id in ids.items():
        if topic_id is None:
            continue
        try:
            configs[name] |= index.of(name, topic_id)
        except UnreadableTopicConfigsError as error:
            raise CompactedTopicError(str(error)) from None
