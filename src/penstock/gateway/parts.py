"""The parts of a gateway that connections and requests use."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from penstock.gateway.admin.policy_checks import PolicyChecks
from penstock.gateway.context.turns import Turns
from penstock.gateway.produce.bad_shares import BadShares
from penstock.gateway.produce.dead_letters.names import LetterNames
from penstock.gateway.produce.dead_letters.writer import DeadLetterWriter
from penstock.gateway.produce.framework_losses import FrameworkLosses
from penstock.gateway.produce.lookups.cleanup_policies import CleanupPolicies
from penstock.gateway.produce.lookups.max_message_bytes import MaxMessageBytes
from penstock.gateway.produce.lookups.write_rights import WriteRights
from penstock.gateway.produce.missing_batches import MissingBatches
from penstock.gateway.sessions.memory import READ_BYTES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from penstock.configuration import Configuration
    from penstock.engine.workers.gathered_writes import GatheredWrites
    from penstock.gateway.admin.topic_configs import TopicConfigs
    from penstock.gateway.lane.lane import Lane
    from penstock.gateway.listening.addresses import Addresses
    from penstock.gateway.observing.metrics.counts import GatewayCounts
    from penstock.gateway.policy_state import PolicyState
    from penstock.gateway.produce.policy_set import PolicySet
    from penstock.gateway.produce.producer_state.all_producers import Producers
    from penstock.gateway.produce.producer_state.cluster import ClusterStore
    from penstock.gateway.refusal_reports import RefusalReports
    from penstock.gateway.sessions.memory import Budget
    from penstock.gateway.tasks import Tasks
    from penstock.gateway.upstream import Upstream


class GatewayParts:
    """The parts of a gateway that connections use (`sessions.connection.ServerContext`).

    Only the modules that start and stop a gateway know this class. Each package below has a
    protocol of the parts that it uses.

    Attributes:
        loop: The event loop; set by `begin`.
        turns: Does long work in slices; set by `begin`.
        lane: Forwards connections natively; None without native threads, and until they run.
        connections: The open connections of clients.
        budget: The memory budget of all clients.
        counts: The counts; None if nothing reads them.
        read_buffer: The memory into which each connection is read.
        connect_upstream: Connects to a broker; see `Upstream.connect`.
        refused: Reports that records or a topic were refused.
        open_decisions: Begins to keep which records of producers are not stored.
        topic_altered: Called with a topic whose configs a client may have altered, and its
            principal.
        run: Runs a coroutine for as long as the gateway runs.
    """

    loop: asyncio.AbstractEventLoop
    turns: Turns

    def __init__(
        self,
        configuration: Configuration,
        upstream: Upstream,
        state: PolicyState,
        budget: Budget,
        writes: GatheredWrites,
        counts: GatewayCounts | None,
        reports: RefusalReports,
        tasks: Tasks,
        open_decisions: Callable[[], None],
    ) -> None:
        """Put the parts together.

        Args:
            writes: Gathers writes of the event loop.
        """
        self._upstream = upstream
        # Each of them is read for each request, so without `state` in between.
        self._active = state.active
        self._opened_configs = state.opened_configs
        self._rollout = state.rollout
        self._tasks = tasks
        self.topic_altered: Callable[[str, str | None], None] = lambda *_: None
        self.connect_upstream = upstream.connect
        self.refused = reports.report
        self.run = tasks.run
        self.open_decisions = open_decisions
        self.connections = state.connections
        self.cluster = state.cluster
        self.lane: Lane | None = None
        self.budget = budget
        self.writes = writes
        self.counts = counts
        self.clock = time.monotonic
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self.request_max_bytes = configuration.socket_request_max_bytes
        self.connection_max_age_s = configuration.connections_max_age_ms / 1000 or math.inf
        self.request_min_bytes_per_second = configuration.socket_request_min_bytes_per_second
        self.requires_sasl = configuration.upstream_security_protocol.startswith("SASL_")
        self.sasl_max_bytes = configuration.sasl_server_max_receive_size
        self.audit_topic = configuration.audit_topic
        self.decompressed_batch_max_records = configuration.decompressed_batch_max_records
        self.max_message_bytes = MaxMessageBytes()
        self.framework_losses = FrameworkLosses(
            CleanupPolicies(self.cluster.cleanup_policies, tasks.run, self.clock)
        )
        self.missing_batches = MissingBatches(self.clock)
        self.bad_shares = BadShares(self.clock)
        self.write_rights = WriteRights(self.clock)
        names = LetterNames(self, configuration.own_topics, PolicyChecks(self).creation)
        self.dead_letters = DeadLetterWriter(
            configuration.upstream_properties, configuration.path, tasks.run, names
        )

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use an event loop from now on: the gateway starts."""
        self.loop = self._tasks.loop = loop
        self.turns = Turns(loop.call_soon)

    @property
    def policies(self) -> PolicySet:
        """The current policies."""
        return self._active.policies

    @property
    def topic_configs(self) -> TopicConfigs:
        """The topic configs that were set through admin tools."""
        return self._opened_configs.current

    @property
    def producers(self) -> Producers:
        """The state of producers whose records were dropped."""
        return self._rollout.producers

    @property
    def shared_producers(self) -> ClusterStore | None:
        """The producer state shared by all gateways; None where none is needed."""
        return self._rollout.shared

    @property
    def keeps_decisions(self) -> bool:
        """Whether it is kept which records of a producer are not stored."""
        return self._rollout.shared is not None

    @property
    def addresses(self) -> Addresses:
        """The addresses of brokers. Clients, and so requests, come only when they are known."""
        assert self._upstream.addresses is not None
        return self._upstream.addresses

    @property
    def cluster_id(self) -> str:
        """The id of the cluster; empty if it is not known."""
        return self._upstream.cluster_id

    def topic_changed(self, name: str, principal: str | None = None) -> None:
        """Forget the configs of a topic.

        Args:
            principal: That of the client that altered them, if it is known.
        """
        self.framework_losses.forget(name)
        self.topic_altered(name, principal)

    def topic_deleted(self, name: str) -> None:
        """Close the policy instances of a deleted topic, when native threads use none of them."""
        if self.lane is not None:
            self.lane.forget(name)
        self.cluster.disallow(name)
        self.framework_losses.forget(name)
        self.policies.retain(name, ())
