"""The requests of a transaction, each repeated until it is answered.

The versions are the newest of Kafka 2.8, which 4.4 serves too, so none is negotiated:
InitProducerId 4, AddPartitionsToTxn 3, AddOffsetsToTxn 3, TxnOffsetCommit 3, EndTxn 3.

They are those of transactions 1. A broker with `transaction.version=2` (KIP-890) serves them:
a client chooses by the version of its requests. Transactions 2 add an epoch that grows
with each transaction, so that a request that was delayed on its way, and repeated in the meantime,
cannot act on the next transaction: end it, or commit an older position in it. Such a request
had no response; after a transaction with such a request, and after each abort, the writer has
its epoch raised (`new_producer` with `previous_producer`, KIP-360), and brokers refuse all later
requests. Brokers from 3.6 on check besides that a partition belongs to the transaction. Two round
trips a transaction are the price.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kio.schema.add_offsets_to_txn.v3.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v3.response import AddOffsetsToTxnResponse
from kio.schema.add_partitions_to_txn.v3.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnResponse
from kio.schema.end_txn.v3.request import EndTxnRequest
from kio.schema.end_txn.v3.response import EndTxnResponse
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.txn_offset_commit.v3.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kio.schema.txn_offset_commit.v3.response import TxnOffsetCommitResponse
from kio.schema.types import GroupId, ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32, i32Timedelta, i64

from penstock.kafka.client.connections.coordinators import CoordinatorKey, send_with_retries
from penstock.kafka.client.errors import ClientError
from penstock.kafka.client.partitions import numbers_by_topic
from penstock.kafka.client.protocol.write_errors import UnknownOutcomeError
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.client.positions import Position

T = TypeVar("T")
NO_PRODUCER: Final = ProducerIdAndEpoch(-1, -1)


class TransactionCoordinator:
    """Sends requests to the coordinators of one transactional id, and of its group."""

    def __init__(self, connection: Connection, transactional_id: str, timeout_s: float) -> None:
        """Prepare; nothing is contacted.

        Args:
            connection: To the cluster.
            transactional_id: Of the task.
            timeout_s: After which time brokers abort a transaction.
        """
        self._connection = connection
        self._id = TransactionalId(transactional_id)
        self._key = CoordinatorKey(transactional_id, transaction=True)
        self.is_unsure = False
        """Whether a request had no response since there was a new producer."""
        self._timeout_s = timeout_s

    def new_producer(
        self, previous_producer: ProducerIdAndEpoch = NO_PRODUCER
    ) -> ProducerIdAndEpoch:
        """Return the producer of the transactional id, with a new epoch.

        All older producers are fenced, and their transactions aborted, markers included, when this
        returns.

        Args:
            previous_producer: The producer that requests a new epoch for itself: a producer that
                has been fenced in the meantime gets none.

        Raises:
            FencedError: `previous_producer` has been fenced.
            ClientError: It cannot be had.
        """
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout=i32Timedelta.parse(dt.timedelta(seconds=self._timeout_s)),
            producer_id=ProducerId(previous_producer.producer_id),
            producer_epoch=i16(previous_producer.epoch),
        )
        response = self._send(self._key, request, InitProducerIdResponse, _code)
        self.is_unsure = False
        return ProducerIdAndEpoch(int(response.producer_id), int(response.producer_epoch))

    def add_partitions(
        self, producer: ProducerIdAndEpoch, partitions: Collection[tuple[str, int]]
    ) -> None:
        """Add partitions to the transaction, before they are written; the first begins it.

        Args:
            producer: From `new_producer`.
            partitions: Topics and partitions.

        Raises:
            WriteError: The producer was fenced, or the transaction is lost.
            ClientError: It cannot be done.
        """
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=ProducerId(producer.producer_id),
            v3_and_below_producer_epoch=i16(producer.epoch),
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(
                    name=TopicName(topic), partitions=tuple(map(i32, sorted(numbers)))
                )
                for topic, numbers in numbers_by_topic(partitions).items()
            ),
        )
        self._send(self._key, request, AddPartitionsToTxnResponse, _partition_codes)

    def commit_offset(
        self, producer: ProducerIdAndEpoch, group: str, source: tuple[str, int], position: Position
    ) -> None:
        """Commit the offset of a source partition in the transaction (KIP-98, KIP-447).

        No generation of the group is sent, which coordinators accept of a group without members:
        other writers cannot commit here because of the epoch of the transactional id.

        Args:
            producer: From `new_producer`.
            group: The group of the job.
            source: Topic and partition.
            position: The next offset to read.

        Raises:
            WriteError: The producer was fenced, or the transaction is lost.
            ClientError: It cannot be done.
        """
        epoch, number = i16(producer.epoch), ProducerId(producer.producer_id)
        self._send(
            self._key,
            AddOffsetsToTxnRequest(
                transactional_id=self._id,
                producer_id=number,
                producer_epoch=epoch,
                group_id=GroupId(group),
            ),
            AddOffsetsToTxnResponse,
            _code,
        )
        topic, partition = source
        committed = TxnOffsetCommitRequestPartition(
            partition_index=i32(partition),
            committed_offset=i64(position.offset),
            committed_metadata=position.committed_metadata,
        )
        self._send(
            CoordinatorKey(group),
            TxnOffsetCommitRequest(
                transactional_id=self._id,
                group_id=GroupId(group),
                producer_id=number,
                producer_epoch=epoch,
                topics=(
                    TxnOffsetCommitRequestTopic(name=TopicName(topic), partitions=(committed,)),
                ),
            ),
            TxnOffsetCommitResponse,
            lambda response: [p.error_code for t in response.topics for p in t.partitions],
        )

    def end(self, producer: ProducerIdAndEpoch, *, commit: bool) -> None:
        """Commit or abort the transaction.

        Repeated after a lost response, it is answered as the first time.

        Args:
            producer: From `new_producer`.

        Raises:
            UnknownOutcomeError: It was to be committed, and there was no response in time.
            WriteError: The producer was fenced, or the transaction was lost before.
            ClientError: It cannot be done.
        """
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=ProducerId(producer.producer_id),
            producer_epoch=i16(producer.epoch),
            committed=commit,
        )
        try:
            self._send(self._key, request, EndTxnResponse, _code)
        except ClientError as error:
            if commit and error.retriable:
                raise UnknownOutcomeError(
                    f"it is not known whether a transaction was committed: {error}"
                ) from None
            raise

    def _send(
        self,
        key: CoordinatorKey,
        request: Any,
        response: type[T],
        codes: Callable[[T], Iterable[int]],
    ) -> T:
        def lost() -> None:
            self.is_unsure = True

        return send_with_retries(self._connection, key, request, response, codes, on_lost=lost)


def _code(response: InitProducerIdResponse | AddOffsetsToTxnResponse | EndTxnResponse) -> list[int]:
    return [response.error_code]


def _partition_codes(response: AddPartitionsToTxnResponse) -> list[int]:
    return [
        int(partition.partition_error_code)
        for topic in response.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]
