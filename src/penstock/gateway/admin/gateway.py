"""The parts of a gateway that requests about topics and configs use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.gateway.context.handler_context import HandlerGateway

if TYPE_CHECKING:
    from penstock.engine.plans.plan import Plan
    from penstock.gateway.admin.topic_configs import TopicConfigs
    from penstock.gateway.admin.topic_policies import TopicPolicies
    from penstock.gateway.listening.addresses import Addresses
    from penstock.gateway.refusal_log import Refused


class AdminPolicies(Protocol):
    """The policies of a configuration, as far as they concern topics and configs."""

    @property
    def plan(self) -> Plan:
        """The policies of each topic."""

    @property
    def topics(self) -> TopicPolicies:
        """The policies for topics and configs (KIP-108, KIP-133)."""


class AdminGateway(HandlerGateway, Protocol):
    """A gateway, as requests about topics and configs see it."""

    @property
    def policies(self) -> AdminPolicies:
        """The current policies."""

    @property
    def topic_configs(self) -> TopicConfigs:
        """The topic configs that were set through admin tools."""

    @property
    def addresses(self) -> Addresses:
        """The addresses of brokers."""

    def refused(self, refused: Refused) -> None:
        """Report that a topic or its configs were refused."""

    def topic_changed(self, name: str, principal: str | None = None) -> None:
        """Report that a topic is created, or that its configs may have changed.

        Args:
            principal: Of the client, if it is known.
        """

    def topic_deleted(self, name: str) -> None:
        """Report that a topic has been deleted."""
