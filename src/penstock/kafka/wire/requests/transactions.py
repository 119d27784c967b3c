"""A transaction's state at its coordinator: DescribeTransactions (API key 65, version 0, KIP-664)
and InitProducerId (API key 22, version 5) as requests of the gateway's own.

Both need what EndTxn needs: Write on the transactional id, which implies Describe.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final, NamedTuple

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.types import ProducerId, TransactionalId
from kio.static.primitive import i16, i32Timedelta

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.own_requests import read_response, write_request
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch
from penstock.kafka.wire.schemas.described_transactions import DescribeTransactionsResponse

END_TXN: Final = 26
EPOCH_PER_TRANSACTION_FROM: Final = 5
"""The first version of EndTxn that ends a transaction of version 2 (KIP-890)."""

EMPTY: Final = "Empty"
COMPLETE: Final = frozenset({"CompleteCommit", "CompleteAbort"})


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
    states = read_response(frame, DescribeTransactionsResponse).transaction_states
    if not states:
        raise WireError("a DescribeTransactionsResponse without a state")
    state = states[0]
    producer = ProducerIdAndEpoch(int(state.producer_id), int(state.producer_epoch))
    timeout_ms = state.transaction_timeout // timedelta(milliseconds=1)
    return TransactionState(int(state.error_code), state.transaction_state, producer, timeout_ms)


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
