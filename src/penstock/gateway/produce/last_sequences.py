"""Asks the broker for the last sequence numbers of producers (DescribeProducers, KIP-664)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.wire.requests import producers
from penstock.wire.requests.producers import LastSequence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.gateway.produce.request import ReceivedRequest

    ProducerIds = dict[str, dict[int, int]]
    """Producer ids by topic and partition."""
    LastSequences = Mapping[tuple[str, int], LastSequence]
    """By topic and partition; empty if the broker is too old."""


def fetch_last_sequences(
    request: ReceivedRequest, unknown: ProducerIds, on_found: Callable[[LastSequences], None]
) -> None:
    """Request the last sequence numbers of producers over the client's connection.

    Args:
        request: The request; if it is cancelled, `on_found` is not called.
        unknown: The producers.
        on_found: Called with their last sequence numbers.
    """
    connection = request.connection
    errors: dict[tuple[str, int], int] = {}

    def on_producers(frame: bytes | None) -> None:
        if request.is_cancelled:
            return
        found = {} if frame is None else producers.response(frame, partitions=unknown)
        found |= {partition: LastSequence(code) for partition, code in errors.items()}
        on_found(found)

    def on_leaders(frame: bytes) -> None:
        errors.update(producers.leader_errors(frame))

    def on_support(is_supported: bool) -> None:
        if is_supported:
            connection.send_request(
                partial(producers.leader_request, partitions=unknown), on_leaders
            )
            connection.send_request(partial(producers.request, partitions=unknown), on_producers)
        else:
            on_producers(None)

    connection.check_describe_producers_support(on_support)
