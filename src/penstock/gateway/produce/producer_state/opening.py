"""Opens where the state of producers is kept: a local file, a topic of the cluster, or nowhere."""

from __future__ import annotations

import sqlite3
import time
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from penstock.cluster import brokers
from penstock.cluster.compacted_topic import CompactedTopicError
from penstock.configuration import ConfigurationError
from penstock.gateway.produce.producer_state.cluster import ClusterStore
from penstock.gateway.produce.producer_state.local import LocalStore, LocalStoreError
from penstock.gateway.produce.producer_state.producers import EXPIRATION_S, Producers

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.configuration import Configuration
    from penstock.gateway.produce.producer_state.encoding import ProducerKey

log = structlog.get_logger()

TIMEOUT_S: Final = 30.0


class OpenedProducers(NamedTuple):
    """The producers, and where their state is kept.

    Attributes:
        producers: The producers.
        local: The local file; None if there is none.
        shared: The topic that all gateways share; None with `state=local`.
    """

    producers: Producers
    local: LocalStore | None = None
    shared: ClusterStore | None = None

    def expire(self) -> None:
        """Forget the producers that have not been heard of for long."""
        self.producers.expire()
        if self.local is not None:
            try:
                self.local.expire(EXPIRATION_S)
            except sqlite3.Error as error:
                log.error("sequence numbers are not kept over a restart", reason=str(error))

    async def close(self) -> None:
        """Close the file or the topic."""
        if self.shared is not None:
            await self.shared.close()
        if self.local is not None:
            self.local.close()


async def open_producers(configuration: Configuration, cluster_id: str) -> OpenedProducers:
    """Restore the state of producers that this gateway or others have stored.

    Args:
        configuration: The configuration.
        cluster_id: The id of the cluster, which names the local file.

    Raises:
        ConfigurationError: The folder or the topic cannot be used.
        brokers.UnreachableError: The topic cannot be read now.
    """
    if configuration.produce_request_interceptors_state == "cluster":
        return await _follow(configuration)
    store = open_store(configuration, cluster_id)
    if store is None:
        return OpenedProducers(Producers(now=time.time))
    producers = Producers(
        now=time.time, keep=partial(_keep, store), look_up=partial(_look_up, store)
    )
    opened = OpenedProducers(producers, local=store)
    try:
        for key, record, used in store.records():
            producers.restore(key, record, used)
        opened.expire()
    except BaseException:
        store.close()
        raise
    return opened


async def _follow(configuration: Configuration) -> OpenedProducers:
    store = ClusterStore(configuration, configuration.upstream_properties)
    producers = Producers(now=time.time, keep=store.keep, is_shared=True)
    try:
        await store.start(TIMEOUT_S, producers.restore)
    except CompactedTopicError as error:
        await store.close()
        raise brokers.UnreachableError(str(error)) from None
    except BaseException:
        await store.close()
        raise
    return OpenedProducers(producers, shared=store)


def _keep(
    store: LocalStore, key: ProducerKey, record: bytes, done: Callable[[str | None], None]
) -> None:
    """Write a record to the local store; an error is logged, and does not stop the batch."""
    try:
        store.put(key, record)
    except sqlite3.Error as error:
        log.error("sequence numbers are not kept over a restart", reason=str(error))
    done(None)


def _look_up(store: LocalStore, key: ProducerKey) -> tuple[bytes, float] | None:
    """Read a record from the local store; return None if there is none, or on an error."""
    try:
        return store.get(key)
    except sqlite3.Error as error:
        log.error("the state of a producer cannot be read", reason=str(error))
        return None


def open_store(configuration: Configuration, cluster_id: str) -> LocalStore | None:
    """Open the file that stores the state of a cluster's producers across restarts.

    Returns:
        None if no interceptor is configured, and none ever was.

    Raises:
        ConfigurationError: The file cannot be used.
    """
    key = "produce.request.interceptors.state.dir"
    folder = configuration.produce_request_interceptors_state_dir
    if not folder:
        return None
    file = configuration.folder / folder / f"producer-state-{cluster_id}.sqlite"
    if not configuration.produce_request_interceptors and not file.exists():
        return None
    try:
        return LocalStore(file, time.time)
    except LocalStoreError as error:
        raise ConfigurationError(
            f"{configuration.path}: {key}: {error}; name a folder that only this gateway writes, "
            "or leave the value empty to keep nothing over a restart"
        ) from None
