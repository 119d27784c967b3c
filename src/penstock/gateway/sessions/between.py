"""The state of a connection between two bytes, as a session and the lane pass it to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.engine.workers.batch_to_judge import EarlyOutcome, EarlyOutcomes
from penstock.gateway.context.exchange import ExchangeState, Streamed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.gateway.context.exchange import Exchange
    from penstock.gateway.sessions.own_request import OwnRequest

Transferred = tuple[int, int, int, float, float, bool]
"""An exchange that was sent: API key, version, correlation id, `received_at`, `sent_at`, and
`was_held`."""


class Between(NamedTuple):
    """The state of a session between two bytes, with all earlier bytes forwarded.

    Attributes:
        request_left: The bytes of the current request that have not been received yet.
        is_last: Whether that is the last exchange of `expected`.
        receiving: Otherwise the request, or None.
        response_left: The bytes of the current response that have not been received yet.
        expected: The requests whose responses are expected, in order.
        unconfirmed: Whether the broker may not have read a request that has no response.
    """

    request_left: int
    is_last: bool
    receiving: Transferred | None
    response_left: int
    expected: list[Transferred]
    unconfirmed: bool


class Figures(NamedTuple):
    """The state of a connection that the lane has.

    Attributes:
        missing_bytes: The bytes of the current request that have not been received yet.
        unanswered: The number of requests without a response.
        is_blocked: Whether one side does not read.
        last_active: When bytes were received last, by the monotonic clock.
        received: How many bytes of the client were received.
        request_left: How many bytes of its request, or of its head, are missing; None between them.
        unread_s: For how long the client was not read.
    """

    held_bytes: int
    missing_bytes: int
    unanswered: int
    is_blocked: bool
    last_active: float
    received: int
    request_left: int | None
    unread_s: float


class GivenBack(NamedTuple):
    """A connection that Python has again.

    Attributes:
        between: The state between the bytes.
        to_broker: Bytes that are not yet sent to the broker.
        to_client: Bytes that are not yet sent to the client.
        from_client: Bytes that were received from the client, and are not yet processed.
        from_broker: Bytes that were received from the broker, and are not yet processed.
        client_failed: Whether the client's connection has failed.
        broker_failed: Whether the broker's connection has failed.
        forwarded: How many requests were forwarded.
        received: How many bytes of the client were received, those not processed included.
        unread_s: For how long the client was not read.
        early: The known outcomes of batches of the request with which `from_client` begins: the
            topic's name, its id if the request has it, the partition, and what an `EarlyOutcome`
            has.
    """

    between: Between
    to_broker: bytes
    to_client: bytes
    from_client: bytes
    from_broker: bytes
    client_failed: bool
    broker_failed: bool
    forwarded: int
    received: int
    unread_s: float
    early: Sequence[tuple[Any, ...]] = ()

    def early_outcomes(self) -> EarlyOutcomes:
        """Return `early` by the topic's name or id, and the partition."""
        outcomes: EarlyOutcomes = {}
        for name, topic_id, partition, fields in self.early:
            key = name.encode() if topic_id is None else bytes(topic_id)
            outcomes[key, partition] = EarlyOutcome(*fields)
        return outcomes


def is_forwarded(expected: Exchange | OwnRequest, unanswered: Exchange) -> bool:
    """Return whether a request was forwarded unchanged, and its response is the next."""
    return (
        expected is unanswered
        and isinstance(unanswered, Streamed)
        and unanswered.response is None
        and unanswered.rewriter is None
    )


def transferred(exchange: Exchange | OwnRequest) -> Transferred:
    """Return what the lane needs of an exchange that was sent to the broker unchanged."""
    assert isinstance(exchange, Streamed)
    return (
        exchange.api_key,
        exchange.version,
        exchange.correlation_id,
        exchange.received_at,
        exchange.sent_at,
        exchange.was_held,
    )


def sent_exchange(exchange_fields: Transferred) -> Streamed:
    """Make the exchange again; its response is forwarded unchanged."""
    exchange = Streamed(exchange_fields[0], exchange_fields[1], exchange_fields[2])
    exchange.received_at, exchange.sent_at, exchange.was_held = exchange_fields[3:]
    exchange.is_streamed = not exchange.was_held
    exchange.transition_to(ExchangeState.READY)
    exchange.transition_to(ExchangeState.SENT)
    return exchange
