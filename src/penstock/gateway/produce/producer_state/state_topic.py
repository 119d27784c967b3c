"""The compacted topic that keeps the state of producers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.kafka.cluster.compacted_topic import CompactedTopic
from penstock.kafka.cluster.compacted_topic_writer import RECORD_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.configuration import Configuration

_KEY: Final = "produce.request.interceptors.state.topic"
_CONFIGS: Final = {
    "cleanup.policy": "compact,delete",
    # Rewritten while a producer is in use; brokers forget producers after a day.
    "retention.ms": str(7 * 24 * 3600 * 1000),
    # A record names the positions of the records that were dropped of batches in flight.
    "max.message.bytes": str(RECORD_MAX_BYTES),
    # Two gateways may write about one producer at the same time: readers compare both.
    "min.compaction.lag.ms": "60000",
}


def state_topic(configuration: Configuration, properties: Mapping[str, str]) -> CompactedTopic:
    """Return the topic that a configuration names; nothing is contacted.

    Args:
        configuration: Names the topic.
        properties: The client properties for the cluster, as for a Java client.
    """
    return CompactedTopic(
        properties,
        configuration.produce_request_interceptors_state_topic,
        configuration.path,
        key=_KEY,
        otherwise="name another topic there",
        configs=_CONFIGS,
    )
