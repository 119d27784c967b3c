"""EndTxn (API key 26), version 5: commits of transactions of which every record was dropped.

Behaviour: the partitions are added to the transaction first, by a request over the client's
connection; if that is refused, so is the commit, with the same error. All other requests and
versions pass as the bytes they came in.
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
    """Answer one request."""
    body, empty = context.request.body, context.gateway.transactions
    transaction = Transaction(body.transactional_id, body.producer_id, body.producer_epoch)
    partitions = empty.partitions(transaction) if body.committed else {}
    if partitions:
        add = partial(transactions.add_partitions, to=transaction, partitions=partitions)
        refusal = transactions.added(await context.send(add))
        if refusal:
            return context.request.response(
                context.request.response_type(throttle_time=NO_TIME, error_code=ErrorCode(refusal))
            )
        empty.added(transaction)
    return await context.forward()
