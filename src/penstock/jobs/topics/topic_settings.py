"""The topic level keys that were set on topics by admin tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.configuration import Configuration
    from penstock.engine.topic_configs.index import TopicConfigIndex
    from penstock.kafka.cluster.offsets import Topic

_SETTINGS_TIMEOUT_S: Final = 30.0


def kept_settings(configuration: Configuration, properties: Mapping[str, str]) -> TopicConfigIndex:
    """Read the topic level keys of all topics; empty if topics have no settings.

    Raises:
        ConfigurationError: They may not be read.
        CompactedTopicError: The cluster does not answer.
    """
    from penstock.configuration.topic_keys import put_in_force  # noqa: PLC0415
    from penstock.engine.plans.plan import allows_topic_settings  # noqa: PLC0415
    from penstock.engine.topic_configs.index import index_of  # noqa: PLC0415
    from penstock.engine.topic_configs.storage import topic_configs_topic  # noqa: PLC0415

    if not allows_topic_settings(configuration):
        return index_of(())
    put_in_force(configuration.policies.topic_keys)
    return index_of(topic_configs_topic(configuration, properties).read(_SETTINGS_TIMEOUT_S))


def own_settings(
    configuration: Configuration, properties: Mapping[str, str], topics: Sequence[Topic]
) -> dict[str, Mapping[str, str]]:
    """Read the topic level keys that were set on topics, as the gateway does.

    Args:
        configuration: Names the topic where they are kept.
        properties: The client properties for the cluster.

    Returns:
        The keys by topic; of every topic, also where it has none.

    Raises:
        ConfigurationError: They may not be read.
        CompactedTopicError: The cluster does not answer.
        UnreadableTopicConfigsError: They cannot be understood.
    """
    settings = kept_settings(configuration, properties)
    return {topic.name: settings.of(topic.name, topic.topic_id) for topic in topics}
