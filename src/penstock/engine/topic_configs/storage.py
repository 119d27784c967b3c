"""The compacted topic that stores topic configs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.kafka.cluster.compacted_topic import CompactedTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.configuration import Configuration

_KEY: Final = "topic.settings.topic"


def topic_configs_topic(
    configuration: Configuration, properties: Mapping[str, str]
) -> CompactedTopic:
    """Return the topic that a configuration names; nothing is contacted.

    Args:
        configuration: Names the topic.
        properties: The client properties for the cluster, as for a Java client.
    """
    return CompactedTopic(
        properties,
        configuration.topic_settings_topic,
        configuration.path,
        key=_KEY,
        otherwise="leave the value empty to do without settings of topics",
    )
