"""What connections, and the requests on them, need of the gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from penstock.cluster.metadata import ClusterMetadata
    from penstock.gateway.addresses import Addresses
    from penstock.gateway.admin.topic_configs import TopicConfigs
    from penstock.gateway.policy_set import PolicySet
    from penstock.gateway.produce.max_message_bytes import MaxMessageBytes
    from penstock.gateway.produce.producer_state.cluster import ClusterStore
    from penstock.gateway.produce.producer_state.producers import Producers
    from penstock.gateway.produce.transactions import EmptyTransactions
    from penstock.gateway.refusal_log import Refused


class GatewayContext(Protocol):
    """The gateway, as one of its connections sees it."""

    @property
    def policies(self) -> PolicySet:
        """The policies in force now."""

    @property
    def addresses(self) -> Addresses:
        """Where brokers are."""

    @property
    def producers(self) -> Producers:
        """The state of producers whose records were dropped."""

    @property
    def shared_producers(self) -> ClusterStore | None:
        """What other gateways keep of producers; None where there is only this one."""

    @property
    def transactions(self) -> EmptyTransactions:
        """The transactions of which every record was dropped."""

    @property
    def max_message_bytes(self) -> MaxMessageBytes:
        """How large batches may be."""

    @property
    def topic_configs(self) -> TopicConfigs:
        """The topic level keys set through admin tools."""

    @property
    def cluster(self) -> ClusterMetadata:
        """The cluster as the gateway's own principal sees it."""

    @property
    def requires_sasl(self) -> bool:
        """Whether clients have to authenticate to the cluster before anything else."""

    @property
    def sasl_max_bytes(self) -> int:
        """The largest request of a client that has not (`sasl.server.max.receive.size`)."""

    def refused(self, refused: Refused) -> None:
        """Note that records were refused."""

    def topic_deleted(self, name: str) -> None:
        """Note that a topic is gone."""

    def clock(self) -> float:
        """Return the time in seconds; it never goes back."""

    def run(self, coroutine: Coroutine[object, object, object]) -> asyncio.Task[object]:
        """Run a coroutine beside the connections."""
