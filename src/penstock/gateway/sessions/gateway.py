"""The parts of a gateway that any request uses, and the connection of any request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.gateway.admin.gateway import AdminGateway
from penstock.gateway.produce.gateway import ProduceConnection, ProduceGateway

if TYPE_CHECKING:
    from penstock.gateway.sessions.authentication import ConnectionAuthentication
    from penstock.kafka.wire.requests.produce import RequestReader


class RequestGateway(ProduceGateway, AdminGateway, Protocol):
    """A gateway, as the requests of one connection see it."""

    @property
    def cluster_id(self) -> str:
        """The id of the cluster; empty if it is not known."""

    @property
    def requires_sasl(self) -> bool:
        """Whether the cluster requires clients to authenticate by SASL."""

    @property
    def sasl_max_bytes(self) -> int:
        """The largest request before authentication (`sasl.server.max.receive.size`)."""

    def clock(self) -> float:
        """Return the monotonic time in seconds."""


class RequestConnection(ProduceConnection, Protocol):
    """The connection of a request of any API."""

    @property
    def gateway(self) -> RequestGateway:
        """The gateway."""

    @property
    def node(self) -> int | None:
        """The node id of the broker that the client connected to; None for any broker."""

    @property
    def authentication(self) -> ConnectionAuthentication:
        """The client's authentication state and principal."""

    @property
    def produce_requests(self) -> RequestReader:
        """Reads Produce requests of this connection."""
