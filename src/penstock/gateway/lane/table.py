"""Compiles the routing table to data for the lane: an action for each API and version.

The lane has the simple actions. For everything else the action is `PYTHON`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from penstock.gateway.produce.forwarded_at_once import is_decided_by_topics
from penstock.gateway.produce.gateway import RoutingGateway
from penstock.gateway.sessions.routes import ROUTES, pass_through
from penstock.kafka.wire.errors import WireError

if TYPE_CHECKING:
    from penstock.gateway.observing.metrics.counts import GatewayCounts
    from penstock.gateway.produce.missing_batches import MissingBatches
    from penstock.gateway.sessions.routes import Route

_LAST_VERSION: Final = 31
"""No API has more versions than this by far; later versions without a limit are left to Python."""


class Action(IntEnum):
    """The actions of the lane for a request and its response: `native/src/lane/table.rs`."""

    PYTHON = 0
    """The connection is given back."""
    FORWARD = 1
    """Both are forwarded as they are received."""
    MAY_HAVE_NO_RESPONSE = 2
    """The same for Produce: acks are read, and a response that names leaders is Python's."""
    KNOWN = 3
    """The same, if all topics of the request are known, and those that are judged natively accept
    their batches."""


Rows = tuple[tuple[int, int, bytes], ...]
"""API keys, their first version, and the actions for this version and those after it."""


class ForwardingGateway(RoutingGateway, Protocol):
    """A gateway whose connections are forwarded."""

    @property
    def missing_batches(self) -> MissingBatches:
        """The batches whose retry has to arrive before later batches."""

    @property
    def counts(self) -> GatewayCounts | None:
        """The counts; None if nothing reads them."""

    def clock(self) -> float:
        """Return the monotonic time in seconds."""


class _WithProducers:
    """A gateway that has the state of a producer, as one may have in the next moment."""

    producers = True

    def __init__(self, gateway: RoutingGateway) -> None:
        self._gateway = gateway

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway, name)


def compiled(gateway: RoutingGateway) -> Rows:
    """Return the actions that are in force. An API without a row is forwarded.

    They hold until policies, topic configs or stores of the gateway are replaced.
    """
    route_context = gateway
    has_policies = not gateway.policies.plan.is_empty or gateway.topic_configs.are_stored
    if has_policies or gateway.shared_producers is not None:
        route_context = cast("RoutingGateway", _WithProducers(gateway))
    produce = Action.KNOWN if is_decided_by_topics(gateway.policies) else Action.PYTHON
    return tuple(
        (row.api_key, row.versions[0], _actions(row, route_context, produce)) for row in ROUTES
    )


def _actions(row: Route, gateway: RoutingGateway, produce: Action) -> bytes:
    first, last = row.versions
    versions = range(first, min(last, _LAST_VERSION) + 1)
    return bytes(_action(row, gateway, version, produce) for version in versions)


def _action(row: Route, gateway: RoutingGateway, version: int, produce: Action) -> Action:
    try:
        is_held = row.hold(gateway, version) is not None
    except WireError:
        return Action.PYTHON
    if row.read_acks is not None:
        return produce if is_held else Action.MAY_HAVE_NO_RESPONSE
    is_forwarded = not is_held and row.respond is pass_through and row.rewrite is None
    return Action.FORWARD if is_forwarded else Action.PYTHON
