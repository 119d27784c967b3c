"""The policies in force, with the state that they need: topic configs, and that of producers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.configuration.topic_keys import put_in_force
from penstock.engine.plans.plan import allows_topic_settings
from penstock.gateway.admin.opened_topic_configs import OpenedTopicConfigs
from penstock.gateway.produce.producer_state.opening import OpenedProducers
from penstock.gateway.produce.producer_state.rollout import InForce, Rollout
from penstock.gateway.produce.producer_state.topic_losses import plans_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from penstock.configuration import Configuration
    from penstock.engine.topic_configs.index import Before
    from penstock.gateway.active_policies import ActivePolicies
    from penstock.gateway.admin.topic_configs import TopicConfigs
    from penstock.gateway.lane.lane import Lane
    from penstock.gateway.policy_loader import LoadedPolicies
    from penstock.gateway.sessions.connection import ClientConnection
    from penstock.kafka.cluster.metadata import ClusterMetadata


class PolicyState:
    """Loads policies and their state, and has connections follow when these change.

    Attributes:
        active: The policies in force.
        cluster: Has the names and ids of topics.
        opened_configs: The topic configs that were set through admin tools.
        rollout: The interceptors in force, and the state of producers.
        connections: The open connections of clients.
        lane: Forwards connections natively; None without native threads, and until they run.
        plans_changed: Called when topics may have other plans.
    """

    def __init__(
        self,
        configuration: Configuration,
        name: str,
        active: ActivePolicies,
        cluster: ClusterMetadata,
        run: Callable[[Coroutine[object, object, Any]], asyncio.Task[Any]],
    ) -> None:
        """Load nothing yet.

        Args:
            configuration: The configuration of the start.
            name: The name of this gateway.
            active: Without policies.
            run: Runs a coroutine until it ends or the gateway stops.
        """
        self.active = active
        self.cluster = cluster
        self.connections: set[ClientConnection] = set()
        self.lane: Lane | None = None
        self.plans_changed: Callable[[], None] = lambda: None
        self._configuration = configuration
        self._name = name
        self.opened_configs = OpenedTopicConfigs(
            name, configuration.upstream_properties, cluster, self._topic_configs_changed, run
        )
        self.rollout = Rollout(cluster, lambda: self.topic_configs, run, self._producers_opened)
        self._producers_opened(OpenedProducers(self.rollout.producers))

    @property
    def topic_configs(self) -> TopicConfigs:
        """The topic configs that were set through admin tools."""
        return self.opened_configs.current

    @property
    def keeps_decisions(self) -> bool:
        """Whether it is kept which records of a producer are not stored."""
        return self.rollout.shared is not None

    # Policies

    async def load(self, configuration: Configuration) -> LoadedPolicies:
        """Start the workers for the policies of a configuration; see `PolicyLoader.load`."""
        have_settings = self.topic_configs.are_stored or allows_topic_settings(configuration)
        return await self.active.load(configuration, topics_have_settings=have_settings)

    async def record_change(self, loaded: LoadedPolicies, *, were_open: bool) -> None:
        """Record a change to loaded policies before it takes effect; see `Rollout.change`."""
        await self.rollout.change(_in_force(loaded), were_open=were_open)

    def activate(self, loaded: LoadedPolicies) -> None:
        """Use the loaded policies from now on; the previous policies finish their work."""
        self.active.activate(loaded)
        self.rollout.in_force = _in_force(loaded)
        put_in_force(loaded.topic_keys)
        self.topic_configs.read_again()
        self._follow_natively()
        for client in list(self.connections):
            client.policies_changed()
        self.plans_changed()

    async def load_topics(self) -> None:
        """Let the workers load the known topics; nothing waits for it."""
        await self.active.load_topics(self.topic_configs, self.cluster)

    # Topic configs

    async def open_topic_configs(self, configuration: Configuration) -> None:
        """Read the topic configs; see `OpenedTopicConfigs.open`."""
        await self.opened_configs.open(configuration)
        self._follow_natively()

    def _topic_configs_changed(self, topic: str, previous_configs: Before) -> None:
        """Close policy instances that the topic's configs no longer name."""
        self._forget_natively(topic or None)
        self.plans_changed()
        if not (topic and self.topic_configs.are_stored):
            return  # no name is known, or the first read has not finished
        self.rollout.topic_keys_changed(topic, previous_configs)
        possible_configs = self.topic_configs.store.index.all_of(topic)
        policies = self.active.policies
        plans = plans_of(topic, policies.plan, possible_configs)
        policies.retain(topic, {plan.records_policy for plan in plans if plan.records_policy})

    # The state of producers

    async def open_producers(
        self, cluster_id: str, *, loses_records: bool, is_start: bool = False
    ) -> None:
        """Restore the state of producers; see `Rollout.open`."""
        await self.rollout.open(
            self._configuration,
            cluster_id,
            self._name,
            loses_records=loses_records,
            is_start=is_start,
        )

    def _producers_opened(self, opened: OpenedProducers) -> None:
        """Have native threads forget the topics that have state of producers, or get it."""
        opened.producers.topics.on_topic = self._forget_numbered
        opened.producers.topics.on_change = self._forget_affected_natively
        if opened.shared is not None:
            opened.shared.ahead = self._forget_numbered
        if self.lane is not None:
            self.lane.follow_routes()
        opened.producers.topics.tell_all()

    # Native threads

    def _follow_natively(self) -> None:
        if self.lane is not None:
            self.lane.follow()

    def _forget_natively(self, topic: str | None) -> None:
        if self.lane is not None:
            self.lane.forget(topic)

    def _forget_numbered(self, topic: str | None) -> None:
        if self.lane is not None:
            self.lane.forget_numbered(topic)

    def _forget_affected_natively(self, affects: Callable[[str], bool]) -> None:
        if self.lane is not None:
            self.lane.forget_affected(affects)

    async def close(self) -> None:
        """Close the topics that keep the state."""
        await self.topic_configs.close()
        await self.rollout.close()


def _in_force(loaded: LoadedPolicies) -> InForce:
    return InForce(loaded.policies.plan, loaded.digest, loaded.why_no_digest)
