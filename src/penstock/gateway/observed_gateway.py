"""The parts of a gateway that metrics, readiness and the console read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.plans.plan import allows_topic_settings
from penstock.gateway.observing.metrics.measured_gateway import ProducerFigures
from penstock.gateway.observing.plan_watch import PlanWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from penstock.configuration import Configuration
    from penstock.engine.workers.schedule import Schedule
    from penstock.gateway.admin.topic_configs import TopicConfigs
    from penstock.gateway.listening.client_listeners import Listening
    from penstock.gateway.observing.audit_trail.trail import AuditTrail
    from penstock.gateway.observing.plan_watch import PlanChange
    from penstock.gateway.policy_state import PolicyState
    from penstock.gateway.produce.policy_set import PolicySet
    from penstock.gateway.refusal_reports import RefusalReports
    from penstock.gateway.sessions.memory import Budget
    from penstock.gateway.upstream import Upstream
    from penstock.kafka.cluster.state_writes import StateWrites


class ObservedGateway:
    """A gateway, as it is observed (`metrics_listener.Observed`).

    Attributes:
        configuration: The configuration with which it was started.
        connections: The open connections of clients.
        budget: The memory budget of all clients.
        cluster: The metadata of the cluster.
        listening: The listeners; None until clients are accepted.
        is_ending: Whether the gateway is about to end.
        plan_watch: Looks up the digests of topics' plans.
    """

    def __init__(
        self,
        configuration: Configuration,
        upstream: Upstream,
        state: PolicyState,
        budget: Budget,
        reports: RefusalReports,
        on_change: Callable[[PlanChange], None],
    ) -> None:
        """Observe; nothing is read yet.

        Args:
            on_change: Called when a topic has another plan.
        """
        self.configuration = configuration
        self.connections = state.connections
        self.budget = budget
        self.cluster = state.cluster
        self.listening: Listening | None = None
        self.is_ending = False
        self.plan_watch = PlanWatch(self, on_change)
        self._upstream = upstream
        self._state = state
        self._reports = reports

    @property
    def policies(self) -> PolicySet:
        """The current policies."""
        return self._state.active.policies

    @property
    def plan_digests(self) -> Mapping[str, str]:
        """The digests of topics' plans, by topic."""
        return self.plan_watch.digests

    @property
    def topic_configs(self) -> TopicConfigs:
        """The topic configs that were set through admin tools."""
        return self._state.topic_configs

    @property
    def producers(self) -> ProducerFigures:
        """The state of producers whose records were dropped."""
        producers = self._state.rollout.producers
        return ProducerFigures(
            count=producers.count,
            topics=len(producers.topics.names),
            kept_bytes=producers.kept.bytes,
            evicted=producers.kept.evicted,
            translated=producers.translated,
        )

    @property
    def audit_trail(self) -> AuditTrail | None:
        """Where refusals are written; None if they are not."""
        return self._reports.audit_trail

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of all policy workers."""
        return self._state.active.worker_pids

    @property
    def schedules(self) -> list[Schedule]:
        """The schedules of the policies in force: of records, of topics."""
        return self._state.active.schedules

    @property
    def all_schedules(self) -> list[Schedule]:
        """The schedules of the policies in force, and of those that finish their work."""
        return self._state.active.all_schedules

    @property
    def is_loaded(self) -> bool:
        """Whether policies are in force."""
        return self._state.active.loaded is not None

    @property
    def settings_are_missing(self) -> bool:
        """Whether topics have settings that are not read yet."""
        return allows_topic_settings(self.configuration) and not self.topic_configs.are_stored

    @property
    def state_writes(self) -> Mapping[str, StateWrites]:
        """The results of writes of state, by kind of state: producers, settings."""
        shared = self._state.rollout.shared
        writes = {
            "producers": shared.writes if shared is not None else None,
            "settings": self.topic_configs.writes,
        }
        return {state: results for state, results in writes.items() if results is not None}

    @property
    def settings_position(self) -> int:
        """The offset up to which the settings of topics have been read; 0 if there are none."""
        return self.topic_configs.position

    @property
    def is_listening(self) -> bool:
        """Whether clients are accepted."""
        return self.listening is not None

    @property
    def brokers_out_of_reach(self) -> Collection[int]:
        """The node ids of brokers that clients cannot reach."""
        return self._upstream.out_of_reach

    @property
    def connections_max(self) -> int:
        """The most connections of clients."""
        return self.configuration.max_connections

    @property
    def certificate_expires_at(self) -> float | None:
        """When the listener's certificate expires; see `Listening.certificate_expires_at`."""
        return self.listening.certificate_expires_at if self.listening is not None else None
