"""The interceptors of this gateway, and their changes.

A change is recorded, and announced to the other gateways, before it takes effect: see `doubts` and
`presence`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

import structlog

from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.last_interceptors import Interceptors
from penstock.gateway.produce.producer_state.leaders import PARTITIONS_MAX, leaders_of
from penstock.gateway.produce.producer_state.opening import (
    TIMEOUT_S,
    OpenedProducers,
    open_producers,
)
from penstock.gateway.produce.producer_state.topic_losses import (
    losing_topics,
    losses,
    may_lose_records,
)
from penstock.kafka.cluster import brokers

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from penstock.configuration import Configuration
    from penstock.engine.plans.plan import Plan
    from penstock.engine.topic_configs.index import Before, TopicConfigIndex
    from penstock.gateway.produce.producer_state.cluster import ClusterStore
    from penstock.kafka.cluster.metadata import ClusterMetadata

log = structlog.get_logger()


class InForce(NamedTuple):
    """What decides which records are stored.

    Attributes:
        plan: The policies of topics.
        digest: Their digest; empty if it is unknown, or if no record is lost.
        why_no_digest: The reason if it is unknown.
    """

    plan: Plan
    digest: str = ""
    why_no_digest: str = ""


class TopicKeys(Protocol):
    """The topic level keys that are set on topics."""

    @property
    def position(self) -> int:
        """Up to where they have been read."""

    @property
    def index(self) -> TopicConfigIndex | None:
        """The keys by topic; None if there are none."""


class Rollout:
    """The interceptors in force, and the state of the producers whose records they drop.

    Attributes:
        in_force: What decides which records are stored; to be set before `open`.
        producers: The state of producers.
        shared: The topic that keeps it for all gateways; None where no state is needed.
    """

    def __init__(
        self,
        cluster: ClusterMetadata,
        topic_keys: Callable[[], TopicKeys],
        run: Callable[[Coroutine[object, object, Any]], asyncio.Task[Any]],
        on_opened: Callable[[OpenedProducers], None],
    ) -> None:
        """Begin without state.

        Args:
            cluster: Has the names of topics, and the leaders of partitions.
            topic_keys: Returns the topic level keys.
            run: Runs a coroutine until it ends or the gateway stops.
            on_opened: Called with other producers before they are used.
        """
        self.in_force: InForce
        self.producers = Producers(now=time.time)
        self.shared: ClusterStore | None = None
        self._cluster = cluster
        self._topic_keys = topic_keys
        self._run = run
        self._on_opened = on_opened

    async def open(
        self,
        configuration: Configuration,
        cluster_id: str,
        gateway: str,
        *,
        loses_records: bool,
        is_start: bool = False,
    ) -> None:
        """Restore the state of producers; see `open_producers`.

        Args:
            gateway: The name of this gateway, which others read.
            loses_records: Whether interceptors may drop records of idempotent producers.
            is_start: Whether this process has decided about no batch yet.

        Raises:
            ConfigurationError: The topic that keeps it cannot be used.
            brokers.UnreachableError: The topic cannot be read now.
        """
        opened = await open_producers(
            configuration, cluster_id, gateway, loses_records=loses_records
        )
        plans = [self.in_force.plan]
        own = await losing_topics(plans, self._index)
        self.producers, self.shared = opened
        self._on_opened(opened)
        if await opened.begin(self.interceptors, compares=is_start):
            log.info("interceptors are as before: no batch can have been decided by others")
            index = self._index  # once those of another gateway change, who leads has to be known
            self._run(
                self._see_leaders(
                    opened.producers, lambda topic: may_lose_records(topic, plans, index)
                )
            )
        else:
            if is_start and self.shared is not None and self.in_force.why_no_digest:
                log.info("interceptors cannot be compared", reason=self.in_force.why_no_digest)
            await self.announce(plans, own, is_start=is_start)
        if opened.shared is not None:
            self._run(opened.shared.run())

    def interceptors(self) -> Interceptors:
        """Return the digest of everything that decides which records are stored."""
        digest = self.in_force.digest
        if digest:
            digest = f"{digest}/{self._topic_keys().position}"
        return Interceptors(digest, self.producers.doubts.are_present)

    async def change(self, new_interceptors: InForce, *, were_open: bool) -> None:
        """Record a change of interceptors before it takes effect, unless they stay the same.

        Args:
            were_open: Whether the state of producers was open before.
        """
        old_interceptors = self.in_force
        if (
            were_open
            and new_interceptors.digest
            and new_interceptors.digest == old_interceptors.digest
        ):
            return
        plans = [old_interceptors.plan, new_interceptors.plan]
        own = await losing_topics(plans, self._index)
        # Later announcements of these are in doubt: nothing waits between.
        self.in_force = new_interceptors._replace(plan=old_interceptors.plan)
        await self.announce(plans, own)

    async def announce(
        self, plans: Sequence[Plan], own: Sequence[str], *, is_start: bool = False
    ) -> None:
        """Record that interceptors change, and say it to other gateways, before they do.

        Args:
            plans: The plans before and after it.
            own: What `losing_topics` returns for them.
            is_start: Whether those before are of an earlier process.

        Raises:
            brokers.UnreachableError: It is a start, and others still have the old state of the
                gateway.
        """
        last = self.shared.before if self.shared is not None and is_start else None
        last_change = last.change if last is not None else None
        if not (
            own
            or any(plan.intercepted_topics for plan in plans)
            or (last_change and last_change.is_about_topics)
        ):
            return
        self.producers.interceptors_changed(
            lambda topic: (
                may_lose_records(topic, plans, self._index)
                or (last_change is not None and last_change.affects(topic))
            )
        )
        if self.shared is not None:
            is_needed = last is not None and last.interceptors is not None
            failure = await self.shared.announce_change(
                [*plans[-1].intercepted_topics, *own],
                timeout_s=TIMEOUT_S if is_needed else 0.0,
            )
            if failure is not None and is_needed:
                unknown = "other gateways do not know that interceptors change"
                raise brokers.UnreachableError(f"{unknown}: {self.shared.topic}: {failure}")
        self._run(self._see_leaders(self.producers, self.producers.doubts.affect))

    async def _see_leaders(self, producers: Producers, wants: Callable[[str], bool]) -> None:
        """Learn who leads; nothing waits for it."""
        try:
            producers.queries.see_leaders(await leaders_of(self._cluster, wants, PARTITIONS_MAX))
        except Exception:
            log.exception("leaders not known")

    @property
    def _index(self) -> TopicConfigIndex | None:
        return self._topic_keys().index

    def topic_keys_changed(self, topic: str, old_keys: Before) -> None:
        """Record that a topic may lose other records than by its keys before, if it may."""
        if not self.loses_otherwise(topic, old_keys):
            return
        self.producers.settings_changed(topic)
        if self.shared is not None:
            loses = may_lose_records(topic, [self.in_force.plan], self._index)
            self.shared.announce_topic(topic, loses_records=loses)

    def loses_otherwise(self, topic: str, old_keys: Before) -> bool:
        """Whether a topic may lose other records than by its keys before.

        After a change of interceptors it is not known which records the old keys dropped with the
        old interceptors: that change may have counted for the topic only with these keys.
        """
        if old_keys is None or self.producers.doubts.are_of_interceptors:
            return True
        plan, index = self.in_force.plan, self._index
        stored_keys = index.all_of(topic) if index is not None else []
        return losses(topic, plan, stored_keys) != losses(topic, plan, old_keys)

    async def close(self) -> None:
        """Close the topic."""
        if self.shared is not None:
            await self.shared.close()
