"""The topic configs of the cluster: opened when they are needed, and checked now and then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog

from penstock.engine.topic_configs.storage import topic_configs_topic
from penstock.gateway.admin.topic_configs import SWEEP_EVERY_S, StoredTopicConfigs, TopicConfigs
from penstock.kafka.cluster import brokers
from penstock.kafka.cluster.compacted_topic import CompactedTopicError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from penstock.configuration import Configuration
    from penstock.engine.topic_configs.index import Before
    from penstock.kafka.cluster.metadata import ClusterMetadata

log = structlog.get_logger()

TIMEOUT_S: Final = 30.0
"""How long the first read of the topic that stores them may take."""


class OpenedTopicConfigs:
    """Reads the topic configs that were set through admin tools, and follows their changes.

    Attributes:
        current: The topic configs; none of them are stored until `open` has read them.
    """

    def __init__(
        self,
        name: str,
        upstream: Mapping[str, Any],
        cluster: ClusterMetadata,
        on_change: Callable[[str, Before], None],
        run: Callable[[Coroutine[object, object, Any]], asyncio.Task[Any]],
    ) -> None:
        """Read nothing yet.

        Args:
            name: The name of this gateway.
            upstream: The settings of clients.
            cluster: Knows which topics exist.
            on_change: Called for each change, with the topic's name (empty if it is unknown) and
                its previous configs.
            run: Runs a coroutine until it ends or the gateway stops.
        """
        self.current: TopicConfigs = TopicConfigs()
        self._name = name
        self._upstream = upstream
        self._cluster = cluster
        self._on_change = on_change
        self._run = run

    async def open(self, configuration: Configuration) -> None:
        """Read them, and follow their changes from now on.

        Args:
            configuration: Names the topic that stores them.

        Raises:
            ConfigurationError: The topic that stores them cannot be used.
            brokers.UnreachableError: The cluster does not respond.
        """
        settings = StoredTopicConfigs(
            topic_configs_topic(configuration, self._upstream), self._name, self._on_change
        )
        try:
            await settings.start(TIMEOUT_S)
            await settings.sweep(self._cluster.ids, starting=True)
        except CompactedTopicError as error:
            await settings.close()
            raise brokers.UnreachableError(str(error)) from None
        except BaseException:
            await settings.close()
            raise
        self.current = settings
        self._run(self._sweep(settings))

    async def _sweep(self, settings: StoredTopicConfigs) -> None:
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            try:
                await settings.sweep(self._cluster.ids)
            except CompactedTopicError as error:
                log.warning("settings of topics could not be checked", reason=str(error))
            except Exception:
                log.exception("settings of topics could not be checked")
