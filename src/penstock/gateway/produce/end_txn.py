"""EndTxn (API key 26), from version 5: commits transactions without stored records.

With transactions 2 (KIP-890) a partition is added to a transaction when its leader receives the
first batch. Where interceptors dropped every record, there was no batch, and the coordinator
answers the commit with 48 INVALID_TXN_STATE, which is fatal for Java's client. Up to version 4
clients add the partitions themselves, so these requests, and aborts, pass unchanged.

What a coordinator of Kafka 4 answers (TransactionCoordinator.endTransaction), by its state and the
epoch of the request: the state's own (e), or the epoch before it (e-1), as after a lost response or
when the coordinator, or another producer of that transactional id, has ended the transaction:

    state           commit, e   commit, e-1   abort, e   abort, e-1
    Empty           48          90            raises e   90
    Ongoing         commits     90            aborts     90
    PrepareCommit   51 or 90    51            51 or 90   51 or 48
    PrepareAbort    51 or 90    51 or 48      51 or 90   51
    CompleteCommit  48          done          raises e   48
    CompleteAbort   48          48            raises e   done

An older epoch gets 90 PRODUCER_FENCED, another producer id 49. So a commit with 48 is one of a
transaction without a partition only with the state's own epoch. With the epoch before it,
CompleteAbort may be a transaction with records that timed out, or that another producer has
aborted, and "done" is the answer to an abort of it: to forward the commit as an abort would confirm
lost records as committed. So DescribeTransactions comes first.

What then ends the empty transaction is InitProducerId with the producer's id and epoch (KIP-360).
It raises the epoch, as an abort does. But it does not succeed for a transaction that has begun
meanwhile (51), it does not replace a newer producer (90), and its retry has the same answer: a
client that lost the response sends its commit again; the coordinator, in Empty with the next epoch,
answers 90, and the client gets the response that it has missed. All other answers are those of the
coordinator. No gateway needs to know which records another gateway dropped.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from penstock.kafka.wire.client_requests import NO_TIME
from penstock.kafka.wire.errors import INVALID_TXN_STATE, NONE, PRODUCER_FENCED, RETRIABLE
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch
from penstock.kafka.wire.requests import transactions
from penstock.kafka.wire.requests.transactions import COMPLETE, EMPTY, TransactionState

if TYPE_CHECKING:
    from penstock.gateway.context.handler_context import HandlerContext, HandlerGateway

_NO_PRODUCER = ProducerIdAndEpoch(-1, -1)


async def end_txn(context: HandlerContext[HandlerGateway]) -> bytes:
    """Return the response to a request."""
    request = context.request
    response = await context.forward()
    body = await context.body()
    if not body.committed:
        return response
    code = int((await context.read_response(response)).error_code)
    if code not in {INVALID_TXN_STATE, PRODUCER_FENCED}:
        return response
    code, producer = await _end_empty(context, body, code)
    return await context.response(
        request.response_type(
            throttle_time=NO_TIME,
            error_code=ErrorCode(code),
            producer_id=ProducerId(producer.producer_id),
            producer_epoch=i16(producer.epoch),
        )
    )


async def _end_empty(
    context: HandlerContext[HandlerGateway], body: Any, code: int
) -> tuple[int, ProducerIdAndEpoch]:
    """End a transaction without partitions.

    Args:
        code: The coordinator's answer to it.

    Returns:
        The answer for the client: a success with the producer's next epoch, a retriable error, or
        `code` for every other transaction.
    """
    transactional_id, client_id = body.transactional_id, context.request.client_id
    describe = partial(
        transactions.describe_request, transactional_id=transactional_id, client_id=client_id
    )
    transaction = transactions.described(await context.send(describe))
    producer = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
    if transaction.code:
        return transaction.code if transaction.code in RETRIABLE else code, _NO_PRODUCER
    if not is_empty(transaction, producer):
        return code, _NO_PRODUCER
    begin = partial(
        transactions.next_epoch_request,
        transactional_id=transactional_id,
        producer=producer,
        timeout_ms=transaction.timeout_ms,
        client_id=client_id,
    )
    failure, following = transactions.next_epoch(await context.send(begin))
    if failure == NONE:
        return NONE, following
    return failure if failure in RETRIABLE else code, _NO_PRODUCER


def is_empty(transaction: TransactionState, producer: ProducerIdAndEpoch) -> bool:
    """Return whether nothing was added to a producer's transaction, or it was ended as empty here.

    Args:
        transaction: The state at the coordinator.
        producer: The producer that commits the transaction.
    """
    if transaction.producer == producer:
        return transaction.state == EMPTY or transaction.state in COMPLETE
    return transaction.state == EMPTY and transaction.producer == (
        producer.producer_id,
        producer.epoch + 1,
    )
