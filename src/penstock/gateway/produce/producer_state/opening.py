"""Opens the state of producers: a topic of the cluster, where it is needed."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.cluster import ClusterStore
from penstock.gateway.produce.producer_state.former_numbers import former_file, former_records
from penstock.gateway.produce.producer_state.known_producers import EXPIRATION_S
from penstock.gateway.produce.producer_state.presence import Presence
from penstock.gateway.produce.producer_state.state_topic import state_topic
from penstock.kafka.cluster import brokers
from penstock.kafka.cluster.compacted_topic import CompactedTopicError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.configuration import Configuration
    from penstock.gateway.produce.producer_state.former_numbers import FormerRecord
    from penstock.gateway.produce.producer_state.last_interceptors import Interceptors

log = structlog.get_logger()

TIMEOUT_S: Final = 30.0


class OpenedProducers(NamedTuple):
    """The producers, and where their state is kept.

    Attributes:
        shared: The topic that all gateways share; None where no state is needed.
    """

    producers: Producers
    shared: ClusterStore | None = None

    async def begin(self, interceptors: Callable[[], Interceptors], *, compares: bool) -> bool:
        """Begin to say which interceptors this gateway has; see `ClusterStore.begin`.

        Args:
            interceptors: Returns them.
            compares: Whether they may be as before: this process begins with them.
        """
        if self.shared is None:
            return False
        return await self.shared.begin(interceptors, compares=compares)

    async def close(self) -> None:
        """Close the topic."""
        if self.shared is not None:
            await self.shared.close()


async def open_producers(
    configuration: Configuration, cluster_id: str, gateway: str, *, loses_records: bool
) -> OpenedProducers:
    """Restore the state of producers that gateways of the cluster have stored.

    It is not needed as long as no record is lost, and none was.

    Args:
        cluster_id: The id of the cluster, whose state an earlier version kept in a file.
        gateway: The name of this gateway, which others read.
        loses_records: Whether interceptors may drop records of idempotent producers.

    Raises:
        ConfigurationError: The topic cannot be used.
        brokers.UnreachableError: The topic cannot be read now.
    """
    former = await asyncio.to_thread(former_records, former_file(configuration, cluster_id))
    if loses_records or _are_in_use(former) or await _is_there(configuration):
        return await _follow(configuration, former, gateway)
    return OpenedProducers(Producers(now=time.time))


def _are_in_use(former: Sequence[FormerRecord]) -> bool:
    """Whether brokers may not have forgotten a producer."""
    return bool(former) and former[-1].used > time.time() - EXPIRATION_S


async def _is_there(configuration: Configuration) -> bool:
    """Whether the topic exists: there may be state of interceptors that were there before.

    Raises:
        brokers.UnreachableError: It is not known now.
    """
    topic = state_topic(configuration, configuration.upstream_properties)
    try:
        return await asyncio.to_thread(topic.is_there, TIMEOUT_S)
    except CompactedTopicError as error:
        raise brokers.UnreachableError(str(error)) from None


async def _follow(
    configuration: Configuration, former: Sequence[FormerRecord], gateway: str
) -> OpenedProducers:
    store = ClusterStore(configuration, configuration.upstream_properties, Presence(gateway))
    producers = Producers(now=time.time, keep=store.keep, is_shared=True)
    store.on_change(producers.interceptors_changed, producers.settings_changed)
    _take_over(former, producers)
    log.info("reading the state of producers", topic=store.topic, gives_up_after_s=TIMEOUT_S)
    try:
        await store.start(TIMEOUT_S, producers.restore)
        producers.expire()  # writes the records that were taken over, or begins to
    except CompactedTopicError as error:
        await store.close()
        raise brokers.UnreachableError(str(error)) from None
    except BaseException:
        await store.close()
        raise
    return OpenedProducers(producers, store)


def _take_over(former: Sequence[FormerRecord], producers: Producers) -> None:
    """Restore the state that an earlier version kept in a file."""
    for key, record, write_time in former:
        try:
            # Each record of the topic is newer; if it has none, this record is written there.
            producers.restore(key, record, write_time, 0)
        except ValueError as error:
            log.warning("the state of a producer in a file is ignored", reason=str(error))
