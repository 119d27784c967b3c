"""The part of the gateway that requests use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from penstock.gateway.admin.topic_configs import TopicConfigs
    from penstock.gateway.context.policy_set import PolicySet
    from penstock.gateway.context.turns import Turns
    from penstock.gateway.lane.topics import KnownTopics
    from penstock.gateway.listening.addresses import Addresses
    from penstock.gateway.observing.metrics.counts import GatewayCounts
    from penstock.gateway.produce.bad_shares import BadShares
    from penstock.gateway.produce.dead_letters.writer import DeadLetterWriter
    from penstock.gateway.produce.framework_losses import FrameworkLosses
    from penstock.gateway.produce.lookups.max_message_bytes import MaxMessageBytes
    from penstock.gateway.produce.lookups.write_rights import WriteRights
    from penstock.gateway.produce.postponed_batches import PostponedBatches
    from penstock.gateway.produce.producer_state.all_producers import Producers
    from penstock.gateway.produce.producer_state.cluster import ClusterStore
    from penstock.gateway.refusal_log import Refused
    from penstock.kafka.cluster.metadata import ClusterMetadata


class GatewayContext(Protocol):
    """The gateway, as the requests of one connection see it."""

    @property
    def policies(self) -> PolicySet:
        """The current policies."""

    @property
    def addresses(self) -> Addresses:
        """The addresses of brokers."""

    @property
    def cluster_id(self) -> str:
        """The id of the cluster; empty if it is not known."""

    @property
    def producers(self) -> Producers:
        """The state of producers whose records were dropped."""

    @property
    def shared_producers(self) -> ClusterStore | None:
        """The producer state shared by all gateways; None where none is needed."""

    @property
    def dead_letters(self) -> DeadLetterWriter:
        """Stores dead letters (`penstock.mode=quarantine`)."""

    @property
    def bad_shares(self) -> BadShares:
        """How many of a topic's records were bad of late."""

    @property
    def write_rights(self) -> WriteRights:
        """To which topics clients may write, where that has to be known."""

    @property
    def keeps_decisions(self) -> bool:
        """Whether it is kept which records of a producer are not stored."""

    def open_decisions(self) -> None:
        """Begin to keep that; it takes a moment."""

    @property
    def postponed(self) -> PostponedBatches:
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
    def topic_configs(self) -> TopicConfigs:
        """The topic configs that were set through admin tools."""

    @property
    def cluster(self) -> ClusterMetadata:
        """The metadata of the cluster, as the gateway's own principal sees it."""

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
    def audit_topic(self) -> str:
        """The topic to which refusals are written, or nothing."""

    @property
    def decompressed_batch_max_records(self) -> int:
        """The most records of a batch: a header with more is refused."""

    @property
    def requires_sasl(self) -> bool:
        """Whether the cluster requires clients to authenticate by SASL."""

    @property
    def sasl_max_bytes(self) -> int:
        """The largest request before authentication (`sasl.server.max.receive.size`)."""

    def refused(self, refused: Refused) -> None:
        """Report that records or a topic were refused."""

    def topic_changed(self, name: str) -> None:
        """Report that a topic is created, or that its configs may have changed."""

    def topic_deleted(self, name: str) -> None:
        """Report that a topic has been deleted."""

    def clock(self) -> float:
        """Return the monotonic time in seconds."""

    def run(self, coroutine: Coroutine[object, object, object]) -> asyncio.Task[object]:
        """Run a coroutine independently of the connections, for as long as the gateway runs."""
