"""DescribeTransactionsResponse in version 0, as coordinators send it.

Without an open transaction there is no start time. The protocol library does not read that.
"""

from dataclasses import dataclass, field

from kio.schema.describe_transactions.v0 import response
from kio.static.primitive import TZAware


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState(response.TransactionState):
    """The state of a transactional id."""

    transaction_start_time: TZAware | None = field(  # type: ignore[assignment]
        metadata={"kafka_type": "datetime_i64"}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse(response.DescribeTransactionsResponse):
    """The response."""

    transaction_states: tuple[TransactionState, ...]
