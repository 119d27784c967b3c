"""Reloads the policies of a running gateway, and opens state that they need only now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from penstock.configuration import ConfigurationError
from penstock.configuration.topic_keys import put_in_force
from penstock.engine.plans.plan import allows_topic_settings
from penstock.gateway.listening.tls import server_context
from penstock.kafka.cluster import brokers

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.configuration import Configuration
    from penstock.gateway.listening.endpoints import Endpoints
    from penstock.gateway.policy_loader import LoadedPolicies
    from penstock.gateway.policy_state import PolicyState
    from penstock.gateway.tasks import Tasks
    from penstock.gateway.upstream import Upstream

log = structlog.get_logger()


class Reloading:
    """Replaces the policies in force, one replacement at a time."""

    def __init__(
        self,
        configuration: Configuration,
        endpoints: Endpoints,
        upstream: Upstream,
        state: PolicyState,
        tasks: Tasks,
        renew: Callable[[], None],
    ) -> None:
        """Prepare; nothing is reloaded.

        Args:
            configuration: The configuration of the start, which has the keys of the listener.
            renew: Has the listeners read their certificate again.
        """
        self._configuration = configuration
        self._endpoints = endpoints
        self._upstream = upstream
        self._state = state
        self._tasks = tasks
        self._renew = renew
        self._one_by_one = asyncio.Lock()
        self._is_opening_decisions = False

    async def reload(self, configuration: Configuration) -> None:
        """Replace the policies by those of another configuration; on an error, keep the policies.

        Each batch and each topic is judged by one of the two sets only. Listeners, the connection
        to the cluster and the topic of the topic configs do not change.

        Raises:
            ConfigurationError: The new policies cannot be loaded; the active policies stay.
            brokers.UnreachableError: Topic configs or the state of producers are needed now, and
                cannot be read; the old policies stay active.
        """
        state = self._state
        async with self._one_by_one:
            if self._endpoints.listener_tls is not None:  # first: an error changes nothing
                server_context(self._configuration.properties, self._configuration.path)
            loaded = await state.load(configuration)
            were_open = await self._open_state(configuration, loaded)
            await state.record_change(loaded, were_open=were_open)
            state.activate(loaded)
            self._tasks.run(state.load_topics())
            self._renew()

    async def _open_state(self, configuration: Configuration, loaded: LoadedPolicies) -> bool:
        """Open the state that loaded policies need; return whether that of producers was open.

        On an error, the loaded policies are closed.
        """
        state = self._state
        try:
            put_in_force(loaded.topic_keys)
            if not state.topic_configs.are_stored and allows_topic_settings(configuration):
                await state.open_topic_configs(configuration)
            were_open = state.keeps_decisions or not loaded.loses_records
            if not were_open:
                await state.open_producers(self._upstream.cluster_id, loses_records=True)
        except BaseException:
            previous = state.active.loaded
            put_in_force(previous.topic_keys if previous else {})
            await loaded.close()
            raise
        return were_open

    def open_decisions(self) -> None:
        """Begin to keep which records of producers are not stored; it takes a moment.

        A topic's own setting has its bad records put in quarantine.
        """
        if not self._is_opening_decisions:
            self._is_opening_decisions = True
            self._tasks.run(self._open_decisions())

    async def _open_decisions(self) -> None:
        try:
            async with self._one_by_one:
                if not self._state.keeps_decisions:
                    await self._state.open_producers(self._upstream.cluster_id, loses_records=True)
        except (ConfigurationError, brokers.UnreachableError) as error:
            log.error("quarantine is not possible", reason=str(error))
        except Exception:
            log.exception("quarantine is not possible")
        finally:
            self._is_opening_decisions = False
