"""Counts the good records that a broker has stored, for the share of bad records (`bad_shares`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.produce.request import SLICE
from penstock.kafka.records.header import record_count

if TYPE_CHECKING:
    from penstock.gateway.produce.partition import ProducePartition
    from penstock.gateway.produce.request import ReceivedRequest
    from penstock.kafka.wire.requests.produce_response import ProduceResponse
    from penstock.kafka.wire.slices import Slices


def count_stored(request: ReceivedRequest, response: ProduceResponse) -> Slices[None]:
    """Count the good records of a request that the broker has stored by its response.

    Yields:
        After each slice.
    """
    for number, partition in enumerate(request.partitions, 1):
        if number % SLICE == 0:
            yield
        plan = partition.topic.plan
        if plan is None or not plan.limits_bad_share:
            continue
        answer = response.partition_response(partition.topic.data.key, partition.number)
        if answer is not None and not answer.code:
            request.gateway.bad_shares.add_stored(plan.topic, good_records(partition))


def good_records(partition: ProducePartition) -> int:
    """Return how many records of a batch the broker gets."""
    return max(0, record_count(partition.data) - partition.removed_count)
