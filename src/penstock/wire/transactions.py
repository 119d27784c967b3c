"""EndTxn (API key 26), and AddPartitionsToTxn (24) as a request of the gateway's own.

EndTxn version 5 is what clients of transactions 2 (KIP-890) send. AddPartitionsToTxn version
3 is the last that clients may send; later ones are the brokers' own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kio.schema.add_partitions_to_txn.v3.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnResponse
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32

from penstock.wire.own_requests import read_response, write_request

if TYPE_CHECKING:
    from collections.abc import Mapping

API_KEY, VERSION = 26, 5


class Transaction(NamedTuple):
    """One transaction of one producer; its epoch changes with each (KIP-890)."""

    transactional_id: str
    producer_id: int
    epoch: int


def add_partitions(
    correlation_id: int, *, to: Transaction, partitions: Mapping[str, set[int]]
) -> bytes:
    """Write a request that adds partitions, by topic, to a transaction; length included."""
    return write_request(
        correlation_id,
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TransactionalId(to.transactional_id),
            v3_and_below_producer_id=ProducerId(to.producer_id),
            v3_and_below_producer_epoch=i16(to.epoch),
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(
                    name=TopicName(topic), partitions=tuple(i32(one) for one in sorted(numbers))
                )
                for topic, numbers in partitions.items()
            ),
        ),
    )


def added(frame: bytes) -> int:
    """Read the response to `add_partitions`: the first error code in it, or 0.

    Raises:
        WireError: It cannot be read.
    """
    for topic in read_response(frame, AddPartitionsToTxnResponse).results_by_topic_v3_and_below:
        for partition in topic.results_by_partition:
            if partition.partition_error_code:
                return int(partition.partition_error_code)
    return 0
