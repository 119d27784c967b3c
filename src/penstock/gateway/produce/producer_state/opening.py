"""Opens where the state of producers is kept: a local file, a topic of the cluster, or nowhere."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from penstock.cluster import brokers
from penstock.cluster.compacted_topic import CompactedTopicError
from penstock.cluster.state_writes import StateWrites
from penstock.configuration import ConfigurationError
from penstock.gateway.produce.producer_state.cluster import ClusterStore
from penstock.gateway.produce.producer_state.known_producers import EXPIRATION_S
from penstock.gateway.produce.producer_state.local import LocalStore, LocalStoreError
from penstock.gateway.produce.producer_state.presence import LocalPresence, Presence
from penstock.gateway.produce.producer_state.producers import Producers
from penstock.gateway.produce.producer_state.state_topic import state_topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.configuration import Configuration
    from penstock.gateway.produce.producer_state.last_interceptors import Interceptors
    from penstock.gateway.produce.producer_state.records.encoding import ProducerKey

log = structlog.get_logger()

TIMEOUT_S: Final = 30.0
_DIR: Final = "produce.request.interceptors.state.dir"


class OpenedProducers(NamedTuple):
    """The producers, and where their state is kept.

    Attributes:
        producers: The producers.
        local: The local file; None if there is none.
        shared: The topic that all gateways share; None with `state=local`.
        writes: The results of writes; None if no state is kept.
        presence: Announces this gateway to others; None if that makes no difference.
    """

    producers: Producers
    local: LocalStore | None = None
    shared: ClusterStore | None = None
    writes: StateWrites | None = None
    presence: LocalPresence | ClusterStore | None = None

    def expire(self) -> None:
        """Forget the producers that have not been heard of for long.

        While the local file cannot be written, try whether it can be.
        """
        self.producers.expire()
        if self.local is None or self.writes is None:
            return
        try:
            if self.writes.why_not:
                self.local.probe()
                self.writes.ended(None)
            self.local.keep_interceptors()
            self.local.expire(EXPIRATION_S)
        except sqlite3.Error as error:
            self.writes.ended(str(error))
            log.error("the state of producers cannot be written", reason=str(error))

    async def begin(self, interceptors: Callable[[], Interceptors], *, compares: bool) -> bool:
        """Begin to keep which interceptors this gateway has; see `keep_interceptors`.

        Args:
            interceptors: Returns them.
            compares: Whether they may be as before: this process begins with them.

        Returns:
            Whether it is known that they are, and were for a while (see `last_interceptors`).
        """
        if self.shared is not None:
            return await self.shared.begin(interceptors, compares=compares)
        if self.local is None:
            return False
        self.local.interceptors = interceptors
        try:
            return compares and self.local.are_interceptors_as_before(interceptors().digest)
        except sqlite3.Error as error:
            log.warning("the interceptors before are not known", reason=str(error))
            return False

    def keep_interceptors(self) -> None:
        """Keep in the local file which interceptors there are, before they decide about a batch.

        Raises:
            ConfigurationError: The file cannot be written.
        """
        if self.local is not None:
            try:
                self.local.keep_interceptors()
            except sqlite3.Error as error:
                raise ConfigurationError(f"{self.local.file}: {error}") from None

    async def close(self) -> None:
        """Close the file or the topic."""
        if self.presence is not None:
            await self.presence.close()
        if self.local is not None:
            self.local.close()


async def open_producers(
    configuration: Configuration, cluster_id: str, gateway: str, *, loses_records: bool
) -> OpenedProducers:
    """Restore the state of producers that this gateway or others have stored.

    Args:
        configuration: The configuration.
        cluster_id: The id of the cluster, which names the local file.
        gateway: The name of this gateway, which others read.
        loses_records: Whether interceptors may drop records of idempotent producers.

    Raises:
        ConfigurationError: The folder or the topic cannot be used.
        brokers.UnreachableError: The topic cannot be read now.
    """
    file = _file(configuration, cluster_id)
    if await _is_shared(configuration, loses_records=loses_records):
        return await _follow(configuration, file, gateway)
    opened = _open_local(configuration, file, loses_records=loses_records)
    if not loses_records:
        return opened
    return opened._replace(presence=LocalPresence(configuration, gateway))


async def _is_shared(configuration: Configuration, *, loses_records: bool) -> bool:
    """Whether the state of producers is kept in a topic that all gateways share.

    Where the configuration does not say it: if there may be state, or the topic has some of
    interceptors that were there before; unless the configuration names a folder for it.

    Raises:
        brokers.UnreachableError: It is not known now whether there is a topic.
    """
    chosen = configuration.produce_request_interceptors_state
    if chosen or _DIR in configuration.properties:
        return chosen == "cluster"
    if loses_records:
        return True
    topic = state_topic(configuration, configuration.upstream_properties)
    try:
        return await asyncio.to_thread(topic.is_there, TIMEOUT_S)
    except CompactedTopicError as error:
        raise brokers.UnreachableError(str(error)) from None


def _file(configuration: Configuration, cluster_id: str) -> Path | None:
    folder = configuration.produce_request_interceptors_state_dir
    if not folder:
        return None
    return configuration.folder / folder / f"producer-state-{cluster_id}.sqlite"


def _open_local(
    configuration: Configuration, file: Path | None, *, loses_records: bool
) -> OpenedProducers:
    """Restore the state from a file, if there is one or will be."""
    if file is None or not (loses_records or file.exists()):
        return OpenedProducers(Producers(now=time.time))
    try:
        store = LocalStore(file, time.time)
    except LocalStoreError as error:
        raise ConfigurationError(
            f"{configuration.path}: {_DIR}: {error}; name a folder that only this gateway writes, "
            "or leave the value empty to keep nothing over a restart"
        ) from None
    writes = StateWrites(str(store.file))
    producers = Producers(
        now=time.time, keep=partial(_keep, store, writes), look_up=partial(_look_up, store)
    )
    opened = OpenedProducers(producers, local=store, writes=writes)
    try:
        for key, record, used in store.records():
            producers.restore(key, record, used)
        opened.expire()
    except BaseException:
        store.close()
        raise
    return opened


async def _follow(configuration: Configuration, file: Path | None, gateway: str) -> OpenedProducers:
    presence = Presence(gateway, shares=True)
    store = ClusterStore(configuration, configuration.upstream_properties, presence)
    producers = Producers(now=time.time, keep=store.keep, is_shared=True)
    store.on_change(producers.interceptors_changed, producers.settings_changed)
    _take_over(file, producers)
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
    return OpenedProducers(producers, shared=store, writes=store.writes, presence=store)


def _take_over(file: Path | None, producers: Producers) -> None:
    """Restore the state that this gateway kept in a file, before it began to share its state."""
    if file is None or not file.exists():
        return
    try:
        store = LocalStore(file, time.time)
    except LocalStoreError as error:
        log.warning("the state of producers in a file is ignored", reason=str(error))
        return
    try:
        for key, record, used in store.records():
            # Each record of the topic is newer; if it has none, this record is written there.
            producers.restore(key, record, used, 0)
        store.forget_interceptors()
    except (sqlite3.Error, ValueError) as error:
        log.warning("the state of producers in a file is ignored", reason=str(error))
    finally:
        store.close()


def _keep(
    store: LocalStore,
    writes: StateWrites,
    key: ProducerKey,
    record: bytes,
    done: Callable[[str | None], None],
) -> None:
    """Write a record to the local store."""
    failure = None
    try:
        store.put(key, record)
    except sqlite3.Error as error:
        failure = str(error)
        log.error("the state of a producer cannot be written", reason=failure)
    writes.ended(failure)
    done(failure)


def _look_up(store: LocalStore, key: ProducerKey) -> tuple[bytes, float] | None:
    """Read a record from the local store; return None if there is none, or on an error."""
    try:
        return store.get(key)
    except sqlite3.Error as error:
        log.error("the state of a producer cannot be read", reason=str(error))
        return None
