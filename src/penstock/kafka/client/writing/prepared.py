"""Transactions in two phases: many writers prepare, one decides, and all are committed or none.

A writer leaves its transaction open when all its batches are stored, and returns its identity:
the transactional id, and the producer that began it. With these, any process can end the
transaction: brokers need only the id, the producer and its epoch (KIP-98).
Brokers abort a transaction that no writer ends when its time is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v0.request import ListTransactionsRequest
from kio.schema.list_transactions.v0.response import ListTransactionsResponse
from kio.schema.types import TransactionalId

from penstock.kafka.client.connections.coordinators import CoordinatorKey, send_with_retries
from penstock.kafka.client.connections.pipeline import Pipeline
from penstock.kafka.client.connections.transaction_coordinator import TransactionCoordinator
from penstock.kafka.client.protocol.write_errors import AbortedError, FencedError
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch
from penstock.kafka.wire.schemas.described_transactions import DescribeTransactionsResponse

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable

    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.client.protocol.produced_batches import BatchSource
    from penstock.kafka.client.writing.limits import WriterLimits
    from penstock.kafka.wire.schemas.described_transactions import TransactionState

_ONGOING: Final = "Ongoing"
_TIMEOUT_S: Final = 60.0


class Prepared(NamedTuple):
    """A transaction that is open, and whose records are all stored.

    Attributes:
        producer_id: Of the producer that began it.
        epoch: Of that producer.
    """

    transactional_id: str
    producer_id: int
    epoch: int

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The producer that began it."""
        return ProducerIdAndEpoch(self.producer_id, self.epoch)


class PreparingWriter:
    """Writes batches in one transaction, and leaves it open. Older writers of the id are fenced."""

    def __init__(self, connection: Connection, transactional_id: str, limits: WriterLimits) -> None:
        """Fence older writers of the id; their transactions are aborted.

        Args:
            connection: To the cluster.
            transactional_id: There is one writer with it at a time.
            limits: How much, and how long.

        Raises:
            ClientError: The cluster does not respond in time, or denies it.
        """
        self._id = transactional_id
        self._coordinator = TransactionCoordinator(
            connection, transactional_id, limits.transaction_timeout_s
        )
        self._pipeline = Pipeline(
            connection,
            transactional_id=transactional_id,
            max_bytes=limits.bytes_in_flight,
            timeout_s=limits.delivery_timeout_s,
        )
        self._producer = self._coordinator.new_producer()
        self._pipeline.start(self._producer)
        self._partitions: set[tuple[str, int]] = set()

    def add(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Add partitions to the transaction; `write` does it for those that are not added.

        Raises:
            FencedError: Another writer of the id has taken over.
            ClientError: The cluster does not respond in time, or denies it.
        """
        new = set(partitions) - self._partitions
        if new:
            self._coordinator.add_partitions(self._producer, new)
            self._partitions |= new

    def write(
        self, topic: str, partition: int, batch: bytes | memoryview, source: BatchSource
    ) -> None:
        """Write a batch; see `TransactionalWriter.write`."""
        self.add([(topic, partition)])
        self._pipeline.put(topic, partition, batch, source)

    def prepare(self) -> Prepared | None:
        """Wait until all is stored; return the open transaction, None where nothing was written.

        Raises:
            ClientError: A batch could not be stored.
        """
        self._pipeline.flush()
        if not self._partitions:
            return None
        return Prepared(self._id, self._producer.producer_id, self._producer.epoch)

    def abort(self) -> None:
        """Abort the transaction.

        Raises:
            ClientError: It cannot be done now; brokers abort it when its time is over.
        """
        self._pipeline.abandon()
        if self._partitions:
            self._coordinator.end(self._producer, commit=False)


def commit_prepared(connection: Connection, transaction: Prepared) -> None:
    """Commit a transaction. Repeated, it does the same, until the id has another producer.

    Raises:
        FencedError: It was aborted, as its time was over, or the id has another producer.
        UnknownOutcomeError: There was no response in time.
        ClientError: It cannot be done.
    """
    _coordinator(connection, transaction).end(transaction.producer, commit=True)


def abort_prepared(connection: Connection, transaction: Prepared) -> None:
    """Abort a transaction, unless it is aborted already, or of another producer.

    Raises:
        ClientError: It cannot be done.
    """
    try:
        _coordinator(connection, transaction).end(transaction.producer, commit=False)
    except (FencedError, AbortedError):
        return


def not_open(
    connection: Connection, some: Iterable[Prepared], deadline: dt.datetime | None = None
) -> list[Prepared]:
    """Return those of some transactions that cannot be committed any more, or are ended.

    Args:
        connection: To the cluster.
        deadline: A time of the brokers: also those whose time is over by then; None for no time.

    Raises:
        ClientError: A coordinator does not respond in time, or denies it.
    """
    closed_transactions = []
    for transaction in some:
        state = _state(connection, transaction.transactional_id)
        is_the_same = (state.producer_id, state.producer_epoch) == transaction.producer
        if not is_the_same or not _lasts(state, deadline):
            closed_transactions.append(transaction)
    return closed_transactions


def _lasts(state: TransactionState, deadline: dt.datetime | None) -> bool:
    """Return whether a transaction is open, and its time is not over at the deadline."""
    start_time = state.transaction_start_time
    if state.transaction_state != _ONGOING or start_time is None:
        return False
    return deadline is None or start_time + state.transaction_timeout >= deadline


def began_at(connection: Connection, transactional_id: str) -> dt.datetime | None:
    """Return when the open transaction of an id began, by the clock of the brokers.

    None without an open transaction.

    Raises:
        ClientError: The coordinator does not respond in time, or denies it.
    """
    return _state(connection, transactional_id).transaction_start_time


def is_open(connection: Connection, transactional_id: str) -> bool:
    """Return whether a transactional id has an open transaction.

    Raises:
        ClientError: The coordinator does not respond in time, or denies it.
    """
    return _state(connection, transactional_id).transaction_state == _ONGOING


def abort_all(connection: Connection, prefixes: tuple[str, ...]) -> None:
    """Abort the open transactions whose ids begin with a prefix, and fence their writers.

    Args:
        connection: To the cluster.
        prefixes: Of transactional ids.

    Raises:
        ClientError: A broker does not respond in time, or denies it.
    """
    for node in connection.nodes():
        response = connection.send(
            node, ListTransactionsRequest(state_filters=(_ONGOING,)), ListTransactionsResponse
        )
        for state in response.transaction_states:
            name = str(state.transactional_id)
            if name.startswith(prefixes):
                TransactionCoordinator(connection, name, _TIMEOUT_S).new_producer()


def _state(connection: Connection, transactional_id: str) -> TransactionState:
    request = DescribeTransactionsRequest(transactional_ids=(TransactionalId(transactional_id),))
    key = CoordinatorKey(transactional_id, transaction=True)
    (state,) = send_with_retries(
        connection, key, request, DescribeTransactionsResponse, _codes
    ).transaction_states
    return state


def _coordinator(connection: Connection, transaction: Prepared) -> TransactionCoordinator:
    return TransactionCoordinator(connection, transaction.transactional_id, _TIMEOUT_S)


def _codes(response: DescribeTransactionsResponse) -> list[int]:
    codes = [int(state.error_code) for state in response.transaction_states]
    gone = int(ErrorCode.transactional_id_not_found)
    return [code for code in codes if code != gone]
