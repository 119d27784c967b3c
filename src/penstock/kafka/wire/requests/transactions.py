"""A transaction's state at its coordinator: DescribeTransactions (API key 65, version 0, KIP-664)
and InitProducerId (API key 22, version 5) as requests of the gateway's own.

Both need what EndTxn needs: Write on the transactional id, which implies Describe.
"""

from __future__ import annotations

from datetime import timedelta
from struct import Struct, error
from typing import Final, NamedTuple

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.types import ProducerId, TransactionalId
from kio.static.primitive import i16, i32Timedelta

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.frames import THROTTLE_TIME_BYTES, body_of_response
from penstock.kafka.wire.own_requests import read_response, write_request
from penstock.kafka.wire.primitives import INT16, read_length, read_long_length
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch

END_TXN: Final = 26
EPOCH_PER_TRANSACTION_FROM: Final = 5
"""The first version of EndTxn that ends a transaction of version 2 (KIP-890)."""

EMPTY: Final = "Empty"
COMPLETE: Final = frozenset({"CompleteCommit", "CompleteAbort"})

_STATE: Final = Struct(">iqqh")
"""Timeout, start time, producer id, epoch. Without a start time it is -1, which the protocol
library does not read."""


class TransactionState(NamedTuple):
    """The state of a transactional id at its coordinator.

    Attributes:
        code: Kafka's error code; the rest counts only without an error.
        state: The name of the state (TransactionState.java).
        timeout_ms: Its transaction timeout.
    """

    code: int
    state: str
    producer: ProducerIdAndEpoch
    timeout_ms: int


def describe_request(correlation_id: int, *, transactional_id: str, client_id: str | None) -> bytes:
    """Return a DescribeTransactions request, length included."""
    request = DescribeTransactionsRequest(transactional_ids=(TransactionalId(transactional_id),))
    return write_request(correlation_id, request, client_id)


def described(frame: bytes) -> TransactionState:
    """Return the first state in a DescribeTransactions response, length included.

    Raises:
        WireError: It cannot be read, or there is none.
    """
    try:
        position = body_of_response(frame, flexible=True) + THROTTLE_TIME_BYTES
        count, position = read_long_length(frame, position, flexible=True)
        if count < 1:
            raise IndexError
        code = INT16.unpack_from(frame, position)[0]
        _, position = _read_string(frame, position + INT16.size)
        state, position = _read_string(frame, position)
        timeout_ms, _, producer_id, epoch = _STATE.unpack_from(frame, position)
    except (IndexError, error, UnicodeDecodeError):
        raise WireError("a DescribeTransactions response that cannot be read") from None
    return TransactionState(code, state, ProducerIdAndEpoch(producer_id, epoch), timeout_ms)


def _read_string(frame: bytes, position: int) -> tuple[str, int]:
    length, position = read_length(frame, position, flexible=True)
    end = position + max(0, length)
    if end > len(frame):
        raise IndexError
    return frame[position:end].decode(), end


def next_epoch_request(
    correlation_id: int,
    *,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    timeout_ms: int,
    client_id: str | None,
) -> bytes:
    """Return an InitProducerId request that raises the epoch of a producer, length included."""
    request = InitProducerIdRequest(
        transactional_id=TransactionalId(transactional_id),
        transaction_timeout=i32Timedelta.parse(timedelta(milliseconds=timeout_ms)),
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.epoch),
    )
    return write_request(correlation_id, request, client_id)


def next_epoch(frame: bytes) -> tuple[int, ProducerIdAndEpoch]:
    """Return the error code in the response to `next_epoch_request`, and the producer.

    Raises:
        WireError: It cannot be read.
    """
    answer = read_response(frame, InitProducerIdResponse)
    return int(answer.error_code), ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
