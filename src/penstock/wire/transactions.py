"""Ends of transactions (EndTxn, API key 26), and partitions added to one (AddPartitionsToTxn).

EndTxn version 5 is what clients of transactions 2 (KIP-890) send. AddPartitionsToTxn version
3 is the last that clients may send; later ones are the brokers' own.
"""

from __future__ import annotations

import datetime as dt
import io
from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.add_partitions_to_txn.v3.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnResponse
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i32Timedelta

from penstock.wire.errors import WireError
from penstock.wire.primitives import INT16, INT32, skip_tags
from penstock.wire.requests import read_response, write_request

if TYPE_CHECKING:
    from collections.abc import Mapping

API_KEY, VERSION = 26, 5
_CLIENT_ID_AT: Final = 12


class Transaction(NamedTuple):
    """One transaction of one producer; its epoch changes with each (KIP-890)."""

    transactional_id: str
    producer_id: int
    epoch: int


def read_end(frame: bytes) -> tuple[Transaction, bool]:
    """Read an EndTxn request, length included.

    Returns:
        The transaction, and whether it is to be committed.

    Raises:
        WireError: It cannot be read.
    """
    try:
        size = INT16.unpack_from(frame, _CLIENT_ID_AT)[0]
        position = skip_tags(frame, _CLIENT_ID_AT + INT16.size + max(0, size))
        request, _ = entity_reader(EndTxnRequest)(frame, position)
    except Exception as error:
        raise WireError("an EndTxn request that cannot be read") from error
    of = Transaction(request.transactional_id, request.producer_id, request.producer_epoch)
    return of, request.committed


def end_refused(correlation_id: int, code: int) -> bytes:
    """Write an EndTxn response with an error, length included."""
    buffer = io.BytesIO()
    buffer.write(INT32.pack(correlation_id) + b"\x00")
    answer = EndTxnResponse(
        throttle_time=i32Timedelta.parse(dt.timedelta()), error_code=ErrorCode(code)
    )
    entity_writer(EndTxnResponse)(buffer, answer)
    body = buffer.getvalue()
    return INT32.pack(len(body)) + body


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
