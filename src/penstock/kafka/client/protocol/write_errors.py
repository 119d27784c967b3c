"""The errors of a writer of batches, and Kafka's error codes that lead to it.

After `FencedError` another writer of the same task is at work: this writer ends, and must not begin
again. After `AbortedError`, `UnknownOutcomeError` and errors that are `retriable` the task may be
tried again: it continues at its committed position. After all others
a change is needed first; the message names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.errors import ErrorCode

from penstock.kafka.client.errors import ClientError, describe, response_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.kafka.client.protocol.produced_batches import BatchSource

FENCED: Final = frozenset({int(ErrorCode.invalid_producer_epoch), int(ErrorCode.producer_fenced)})
ABORTABLE: Final = frozenset(
    {
        int(ErrorCode.invalid_txn_state),
        int(ErrorCode.invalid_producer_id_mapping),
        int(ErrorCode.out_of_order_sequence_number),
        int(ErrorCode.transaction_abortable),
        int(ErrorCode.unknown_producer_id),
    }
)
"""The records of this transaction are lost, and a new transaction can write them again."""
_HAS_MEMBERS: Final = frozenset(
    {
        int(ErrorCode.illegal_generation),
        int(ErrorCode.unknown_member_id),
        int(ErrorCode.rebalance_in_progress),
    }
)
_HINTS: Final[Mapping[int, str]] = {
    ErrorCode.transactional_id_authorization_failed: "the principal needs Write on the "
    "transactional ids that begin with penstock-: kafka-acls --transactional-id penstock- "
    "--resource-pattern-type prefixed",
    ErrorCode.cluster_authorization_failed: "the principal needs IdempotentWrite on the cluster",
    ErrorCode.group_authorization_failed: "the principal needs Read on the groups that begin with "
    "penstock-: kafka-acls --group penstock- --resource-pattern-type prefixed",
    ErrorCode.topic_authorization_failed: "the principal needs Write on the targets, and Read on "
    "the source",
    ErrorCode.invalid_transaction_timeout: "the transaction timeout is larger than the brokers' "
    "transaction.max.timeout.ms",
    ErrorCode.offset_metadata_too_large: "the text that is committed with a position is larger "
    "than the brokers' offset.metadata.max.bytes",
}


class WriteError(ClientError):
    """Records cannot be written. The message is for users."""


class FencedError(WriteError):
    """Another writer of the same task has taken over."""


class AbortedError(WriteError):
    """The transaction is lost; nothing of it is visible. The task may be tried again."""


class UnknownOutcomeError(WriteError):
    """It is not known whether the transaction was committed.

    The task may be tried again: its committed position shows whether it was.
    """


class BatchRefusal(NamedTuple):
    """Which batch a broker refuses, and why.

    Attributes:
        topic: The topic that it was written to.
        source: Where its first record was read.
        code: Kafka's error code.
        records: The positions of the records that the broker names (KIP-467); empty for none.
    """

    topic: str
    source: BatchSource
    code: int
    records: tuple[int, ...] = ()


class RefusedBatchError(WriteError):
    """A broker refuses a batch because of its content. The message has its origin.

    Attributes:
        refusal: Which batch, and why; None where no broker refused it.
    """

    def __init__(self, text: str, refusal: BatchRefusal | None = None) -> None:
        super().__init__(text)
        self.refusal = refusal


def write_error(code: int, subject: str) -> ClientError:
    """Return the error for a code that a coordinator or a leader responds with.

    Args:
        code: Kafka's error code, other than 0.
        subject: The subject of the request.
    """
    text = f"{subject}: {describe(code)}"
    if code in FENCED:
        return FencedError(f"{text}: another writer of the same task has taken over")
    if code in ABORTABLE:
        return AbortedError(text)
    if code in _HAS_MEMBERS:
        return WriteError(f"{text}: consumers have joined the group; choose another job id")
    hint = _HINTS.get(code)
    return response_error(code, f"{subject} ({hint})" if hint else subject)
