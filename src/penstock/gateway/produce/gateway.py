"""The parts of a gateway, and of a client's connection, that Produce requests use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.gateway.context.exchange import ConnectionContext

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.workers.batch_to_judge import EarlyOutcomes
    from penstock.gateway.admin.topic_configs import TopicConfigs
    from penstock.gateway.context.topic_names import TopicNames
    from penstock.gateway.context.turns import Turns
    from penstock.gateway.observing.metrics.counts import GatewayCounts
    from penstock.gateway.produce.bad_shares import BadShares
    from penstock.gateway.produce.dead_letters.writer import DeadLetterWriter
    from penstock.gateway.produce.framework_losses import FrameworkLosses
    from penstock.gateway.produce.lookups.max_message_bytes import MaxMessageBytes
    from penstock.gateway.produce.lookups.write_rights import WriteRights
    from penstock.gateway.produce.missing_batches import MissingBatches
    from penstock.gateway.produce.policy_set import PolicySet
    from penstock.gateway.produce.producer_state.all_producers import Producers
    from penstock.gateway.produce.producer_state.cluster import ClusterStore
    from penstock.gateway.refusal_log import Refused
    from penstock.kafka.wire.requests.produce import TopicData


class KnownTopics(Protocol):
    """Remembers topics whose judges are known, to forward their batches without Python."""

    def passed(
        self,
        topics: Iterable[TopicData],
        judged_topics: Iterable[tuple[TopicPlan, TopicData]],
        names: TopicNames,
    ) -> None:
        """Remember the topics of a request whose batches are all accepted, or not judged.

        Args:
            judged_topics: Those that have policies. Nobody judges the others now.
            names: The names of the topics' ids that the connection knows, and until when.
        """

    def accepts(self, plan: TopicPlan, version: int, data: memoryview) -> bool:
        """Return whether a large batch is accepted that native threads could judge.

        Args:
            plan: The topic's policies.
            version: The version of the Produce request.
        """

    def forget(self, name: str | None) -> None:
        """Forget a topic, or all of them: Python has to process the next batches.

        After that no batch passes natively by earlier knowledge. Any thread may call it.
        """

    def forget_numbered(self, name: str | None) -> None:
        """Forget a topic, or all of them, because sequence numbers may have to change.

        Batches without sequence numbers pass as before.
        """


class RoutingGateway(Protocol):
    """A gateway, as far as it decides which requests are held."""

    @property
    def policies(self) -> PolicySet:
        """The current policies."""

    @property
    def topic_configs(self) -> TopicConfigs:
        """The topic configs that were set through admin tools."""

    @property
    def producers(self) -> Producers:
        """The state of producers whose records were dropped."""

    @property
    def shared_producers(self) -> ClusterStore | None:
        """The producer state shared by all gateways; None where none is needed."""

    @property
    def keeps_decisions(self) -> bool:
        """Whether it is kept which records of a producer are not stored."""

    @property
    def audit_topic(self) -> str:
        """The topic to which refusals are written, or nothing."""


class ProduceGateway(RoutingGateway, Protocol):
    """A gateway, as its Produce requests see it."""

    @property
    def dead_letters(self) -> DeadLetterWriter:
        """Stores dead letters (`penstock.mode=quarantine`)."""

    @property
    def bad_shares(self) -> BadShares:
        """How many of a topic's records were bad of late."""

    @property
    def write_rights(self) -> WriteRights:
        """To which topics clients may write, where that has to be known."""

    def open_decisions(self) -> None:
        """Begin to keep that; it takes a moment."""

    @property
    def missing_batches(self) -> MissingBatches:
        """The batches whose retry has to arrive before later batches."""

    @property
    def request_max_bytes(self) -> int:
        """The largest request (`socket.request.max.bytes`)."""

    @property
    def max_message_bytes(self) -> MaxMessageBytes:
        """A cache of `max.message.bytes`."""

    @property
    def framework_losses(self) -> FrameworkLosses:
        """Refuses batches of which frameworks' own topics would lose records."""

    @property
    def turns(self) -> Turns:
        """Does long work in slices."""

    @property
    def counts(self) -> GatewayCounts | None:
        """The counts; None if nothing reads them."""

    @property
    def lane(self) -> KnownTopics | None:
        """Forwards connections natively; None without the native lane."""

    @property
    def decompressed_batch_max_records(self) -> int:
        """The most records of a batch: a header with more is refused."""

    def refused(self, refused: Refused) -> None:
        """Report that records were refused."""

    def run(self, coroutine: Coroutine[object, object, object]) -> asyncio.Task[object]:
        """Run a coroutine independently of the connections, for as long as the gateway runs."""


class ProduceConnection(ConnectionContext, Protocol):
    """The connection of a Produce request.

    Attributes:
        submitting: Done when the batches of its last long Produce request have been submitted.
    """

    submitting: asyncio.Future[None] | None

    @property
    def gateway(self) -> ProduceGateway:
        """The gateway."""

    @property
    def number(self) -> int:
        """A number that identifies the connection in this process."""

    @property
    def topics(self) -> TopicNames:
        """The topic names and ids that the broker returned over this connection."""

    def take_early_outcomes(self) -> EarlyOutcomes:
        """Return the early outcomes of the Produce request that is read, once."""

    @property
    def may_change_policies(self) -> bool:
        """Whether a request that has not been sent yet may change the policies of topics."""

    @property
    def has_undecided(self) -> bool:
        """Whether the decision about a Produce request is missing."""

    @property
    def has_waiting(self) -> bool:
        """Whether a request waits: for a decision, or for a request before it."""

    @property
    def follows_retried(self) -> bool:
        """Whether the broker had batches retried after the request that is read was received."""

    @property
    def may_support_describe_producers(self) -> bool:
        """Whether the broker may support DescribeProducers: True until it is known."""

    @property
    def supports_leader_epochs(self) -> bool:
        """Whether the broker, if it supports DescribeProducers, returns the ends of epochs."""

    def check_describe_producers_support(self, on_known: Callable[[bool], None]) -> None:
        """Call `on_known` with whether the broker supports DescribeProducers (KIP-664)."""
