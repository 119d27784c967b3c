"""Stores the state of producers in a compacted topic of the cluster, for several gateways.

A record is written before the batch is sent to the broker. A gateway that receives a batch of an
unknown producer reads the topic to its end first. So a producer may change gateways at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from penstock.cluster.compacted_topic import RECORD_MAX_BYTES, CompactedTopic
from penstock.cluster.compacted_topic_follower import LogFollower
from penstock.gateway.produce.producer_state.encoding import ProducerKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.cluster.compacted_topic import LogRecord
    from penstock.configuration import Configuration

    Take = Callable[[ProducerKey, bytes, float], None]

log = structlog.get_logger()

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
READ_TIMEOUT_S: Final = 5.0
"""How long a producer that is new here waits until the topic has been read."""


class ClusterStore:
    """The producer records of all gateways."""

    def __init__(self, configuration: Configuration, properties: Mapping[str, str]) -> None:
        """Make the store; `start` connects it.

        Args:
            configuration: Names the topic.
            properties: The client properties for the cluster, as for a Java client.
        """
        topic = CompactedTopic(
            properties,
            configuration.folder,
            configuration.produce_request_interceptors_state_topic,
            configuration.path,
            key=_KEY,
            otherwise="set produce.request.interceptors.state=local",
            configs=_CONFIGS,
        )
        self.topic = topic.topic
        self._follower = LogFollower(topic, self._read)

    async def start(self, timeout_s: float, take: Take) -> None:
        """Read all records, and follow the topic from here on.

        Args:
            timeout_s: The timeout for the first read.
            take: Called with each record and its time, in seconds since the epoch. Raises
                ValueError for a record that cannot be decoded.

        Raises:
            ConfigurationError: The topic cannot be used.
            CompactedTopicError: The cluster does not respond.
        """
        self._take = take
        await self._follower.start(timeout_s)

    async def read_to_end(self) -> None:
        """Read the topic up to its present end.

        Raises:
            CompactedTopicError: It cannot be read now.
        """
        await self._follower.read_to_end(READ_TIMEOUT_S)

    def keep(self, key: ProducerKey, record: bytes, done: Callable[[str | None], None]) -> None:
        """Write a record; `done` is called with None when it is replicated, or with an error."""
        self._follower.write([(key.encode(), record)], lambda _, failure: done(failure))

    async def close(self) -> None:
        """Stop following."""
        await self._follower.close()

    def _read(self, record: LogRecord) -> None:
        if record.value is None:
            return
        try:
            self._take(ProducerKey.decode(record.key), record.value, record.timestamp_ms / 1000)
        except (ValueError, TypeError, KeyError) as error:
            log.error(
                "the state of a producer cannot be understood",
                topic=self.topic,
                offset=record.position - 1,
                reason=str(error),
            )
