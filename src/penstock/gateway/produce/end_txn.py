"""EndTxn (API key 26), version 5: commits transactions whose records were all dropped.

Behaviour: the partitions are first added to the transaction, by AddPartitionsToTxn over the
client's connection. If that fails, the response to EndTxn has the same error code. All other
requests and versions are forwarded unchanged.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from penstock.wire import transactions
from penstock.wire.client_requests import NO_TIME
from penstock.wire.transactions import Transaction

if TYPE_CHECKING:
    from penstock.gateway.request_context import RequestContext


async def end_txn(context: RequestContext) -> bytes:
    """Return the response to a request."""
    body, empty = context.request.body, context.gateway.transactions
    transaction = Transaction(body.transactional_id, body.producer_id, body.producer_epoch)
    partitions = empty.partitions(transaction) if body.committed else {}
    if partitions:
        add = partial(transactions.add_partitions, to=transaction, partitions=partitions)
        error_code = transactions.added(await context.send(add))
        if error_code:
            return context.request.response(
                context.request.response_type(
                    throttle_time=NO_TIME, error_code=ErrorCode(error_code)
                )
            )
        empty.added(transaction)
    return await context.forward()
