"""The policies in force, and the previous policies until they have finished their work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog

from penstock.engine.plans.plan import Plan
from penstock.engine.workers.supervisor import Supervisor
from penstock.gateway.admin.known_topics import validated_topics

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from penstock.configuration import Configuration
    from penstock.engine.workers.schedule import Schedule
    from penstock.gateway.admin.topic_configs import TopicConfigs
    from penstock.gateway.admin.topic_policies import TopicPolicies
    from penstock.gateway.policy_loader import LoadedPolicies, PolicyLoader
    from penstock.gateway.produce.observed_batches import ObservedBatches
    from penstock.gateway.produce.policy_set import PolicySet
    from penstock.kafka.cluster.metadata import ClusterMetadata

log = structlog.get_logger()

_DRAIN_S: Final = 60.0
"""How long replaced policies may take to finish their work."""


class ActivePolicies:
    """Loads policies, and replaces those in force by them.

    Attributes:
        loaded: The policies in force; None until the first are loaded.
        policies: The part of them that requests use, and read for each batch; only when there are
            policies in force.
    """

    policies: PolicySet

    def __init__(
        self,
        loader: PolicyLoader,
        run: Callable[[Coroutine[object, object, Any]], asyncio.Task[Any]],
    ) -> None:
        """Load nothing yet.

        Args:
            loader: Starts the workers.
            run: Runs a coroutine until it ends or the gateway stops.
        """
        self.loaded: LoadedPolicies | None = None
        self._loader = loader
        self._run = run
        self._draining: set[Supervisor | TopicPolicies | ObservedBatches] = set()

    async def load(
        self, configuration: Configuration, *, topics_have_settings: bool
    ) -> LoadedPolicies:
        """Start the workers for the policies of a configuration; see `PolicyLoader.load`."""
        plan = Plan(configuration.policies)
        return await self._loader.load(
            configuration, plan, topics_have_settings=topics_have_settings
        )

    def activate(self, loaded: LoadedPolicies) -> None:
        """Use loaded policies from now on; the previous policies finish their work."""
        previous_parts = self._parts
        self.loaded, self.policies = loaded, loaded.policies
        for part in previous_parts:
            self._draining.add(part)
            self._run(self._drain(part))

    @property
    def loses_records(self) -> bool:
        """Whether records of idempotent producers may be dropped; see `LoadedPolicies`."""
        return self.loaded is not None and self.loaded.loses_records

    @property
    def schedules(self) -> list[Schedule]:
        """The schedules of the policies in force: of records, of topics."""
        if self.loaded is None:
            return []
        pools = (self.loaded.pool, self.loaded.policies.topics.pool)
        return [pool.schedule for pool in pools if pool is not None]

    @property
    def all_schedules(self) -> list[Schedule]:
        """The schedules of the policies in force, and of those that finish their work."""
        observed = self.loaded.policies.observed if self.loaded else None
        parts = [*self._draining, *([observed] if observed else [])]
        pools = (part if isinstance(part, Supervisor) else part.pool for part in parts)
        return [*self.schedules, *(pool.schedule for pool in pools if pool is not None)]

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of the workers of the policies in force."""
        return [pid for part in self._parts for pid in part.pids]

    async def load_topics(self, topic_configs: TopicConfigs, cluster: ClusterMetadata) -> None:
        """Let the workers load the known topics; nothing waits for it."""
        pool = self.loaded.pool if self.loaded else None
        if pool is None or not pool.loads_topics:
            return
        try:
            pool.load_topics(await validated_topics(self.policies.plan, topic_configs, cluster))
        except Exception:
            log.exception("topics not loaded")

    async def close(self) -> None:
        """Stop all workers."""
        for part in (*self._draining, *self._parts):
            await part.close()

    @property
    def _parts(self) -> list[Supervisor | TopicPolicies | ObservedBatches]:
        return self.loaded.parts if self.loaded is not None else []

    async def _drain(self, part: Supervisor | TopicPolicies | ObservedBatches) -> None:
        await part.close(drain_s=_DRAIN_S)
        self._draining.discard(part)
