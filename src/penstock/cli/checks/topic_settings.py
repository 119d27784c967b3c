"""The topic level keys that were set on topics by admin tools, for commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.failures import CommandError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.configuration import Configuration
    from penstock.kafka.cluster.offsets import Topic


def settings_of(
    topics: Sequence[Topic], configuration: Configuration, properties: Mapping[str, str]
) -> dict[str, Mapping[str, str]]:
    """Read the topic level keys that were set on topics, as the gateway does.

    Args:
        configuration: Says where they are kept.
        properties: How the cluster is reached.

    Raises:
        ConfigurationError: They may not be read.
        CommandError: The cluster does not answer, or they cannot be understood.
    """
    from penstock.engine.topic_configs.index import UnreadableTopicConfigsError  # noqa: PLC0415
    from penstock.jobs.topics.topic_settings import own_settings  # noqa: PLC0415
    from penstock.kafka.cluster.compacted_topic import CompactedTopicError  # noqa: PLC0415

    try:
        return own_settings(configuration, properties, topics)
    except (CompactedTopicError, UnreadableTopicConfigsError) as error:
        raise CommandError(str(error)) from None
