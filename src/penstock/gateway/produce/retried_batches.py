"""Batches to which the broker has responded with a retriable error, while later batches are held.

With Kafka alone, a later batch of the producer reaches the same broker a moment later. If it is
held for a verdict, that broker may lead again by then. It refuses the batch because of the gap, or,
if it does not know the producer, stores it. So the batch gets a retriable error instead
(`send_order.keep_behind`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from penstock.gateway.produce.request import SLICE
from penstock.kafka.records.header import read_producer
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.requests.produce_response import read_response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.gateway.context.exchange import RetriedBatches
    from penstock.kafka.records.header import BatchProducer
    from penstock.kafka.wire.requests.produce import ProduceRequest
    from penstock.kafka.wire.slices import Slices

NONE_RETRIED: Final[RetriedBatches] = MappingProxyType({})


def read_retried(frame: bytes, version: int) -> Slices[Sequence[tuple[bytes, int]]]:
    """Return the topics, as in the request, and partitions whose batches a client retries.

    Args:
        frame: The broker's response; none are returned if it cannot be read.
        version: The version of the request.

    Yields:
        After each slice.
    """
    try:
        response = yield from read_response(frame, version)
    except WireError:
        return ()
    return response.retried


def batches_for(
    request: ProduceRequest, partitions: Sequence[tuple[bytes, int]]
) -> Slices[RetriedBatches]:
    """Return the batches of a request for some of its partitions.

    Yields:
        After each slice.
    """
    batches: dict[tuple[bytes, int], BatchProducer | None] = dict.fromkeys(partitions)
    steps = 0
    for topic in request.topics:
        for partition in topic.partitions:
            place = topic.key, partition.number
            if place in batches:
                batches[place] = read_producer(request.records(partition))
            steps += 1
            if steps % SLICE == 0:
                yield
    return batches


def merged(earlier: RetriedBatches, later: RetriedBatches) -> RetriedBatches:
    """Return the first batches that have to be retried; None for those of several producers."""
    if not earlier:
        return later
    batches = dict(earlier)
    for place, batch in later.items():
        first = batches.setdefault(place, batch)
        if first is not None and (batch is None or first[:2] != batch[:2]):
            batches[place] = None
    return batches
