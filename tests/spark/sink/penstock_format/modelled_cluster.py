"""A cluster with transactions, as a model: TransactionCoordinator.scala and the logs of Kafka 4.

It has the states of transactional ids (transactions 1), partitions that know producers, and the
offsets of groups. Markers of an ended transaction are written later, a partition at a time.
A transaction that is open for longer than its timeout is aborted, and its producer fenced.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TransactionalId
from kio.static.primitive import i16, i32Timedelta

from penstock.kafka.client.protocol.raw_requests import RawResponse
from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.header import is_intact, read_producer
from tests.kafka.client.scripted import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    END,
    GROUP_FETCH,
    INIT,
    NO_TIME,
    OFFSET_COMMIT,
    answer,
    offsets_committed,
    partitions_added,
    produce_response,
    read_produce,
)

LIST_TRANSACTIONS, DESCRIBE_TRANSACTIONS = 66, 65
EMPTY, ONGOING = "Empty", "Ongoing"
PREPARE_COMMIT, PREPARE_ABORT = "PrepareCommit", "PrepareAbort"
COMPLETE_COMMIT, COMPLETE_ABORT = "CompleteCommit", "CompleteAbort"
NO_EPOCH = -1
_COMPLETE = {PREPARE_COMMIT: COMPLETE_COMMIT, PREPARE_ABORT: COMPLETE_ABORT}
_OFFSETS = "__consumer_offsets"
_EPOCH_BEGIN = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_STABLE_AFTER_MARKERS = int(ErrorCode.unstable_offset_commit)
CONCURRENT = int(ErrorCode.concurrent_transactions)
FENCED = int(ErrorCode.producer_fenced)
OLD_EPOCH = int(ErrorCode.invalid_producer_epoch)
OTHER_PRODUCER = int(ErrorCode.invalid_producer_id_mapping)
INVALID_STATE = int(ErrorCode.invalid_txn_state)

Place = tuple[str, Any]
"""A partition of a topic; or the offsets of a group."""


class Transaction:
    """The state of a transactional id."""

    def __init__(self, name: str, producer_id: int) -> None:
        self.name = name
        self.producer_id = producer_id
        self.epoch = self.last_epoch = NO_EPOCH
        self.state = EMPTY
        self.timeout_s = 0.0
        self.began_at = 0.0
        self.places: set[Place] = set()

    def refusal(self, producer_id: int, epoch: int) -> int:
        """Return the error code for a request of a producer; 0 for none."""
        if producer_id != self.producer_id:
            return OTHER_PRODUCER
        return 0 if epoch == self.epoch else FENCED


class Stored(NamedTuple):
    """A batch in a log."""

    offset: int
    producer_id: int
    values: tuple[bytes, ...]


class Log:
    """A partition: its batches, its producers, and which transactions are open."""

    def __init__(self) -> None:
        self.end = 0
        self.batches: list[Stored] = []
        self.committed: set[int] = set()
        """The offsets of batches of committed transactions."""
        self.open: defaultdict[int, list[Stored]] = defaultdict(list)
        self._epochs: dict[int, int] = {}
        self._sequences: dict[int, list[tuple[int, int]]] = {}

    def append(self, batch: bytes) -> int:
        """Return the error code."""
        assert is_intact(batch)
        producer = read_producer(batch)
        assert producer is not None
        known_epoch = self._epochs.get(producer.producer_id, NO_EPOCH)
        if producer.epoch < known_epoch:
            return OLD_EPOCH
        if producer.epoch > known_epoch:
            self._sequences[producer.producer_id] = []
        recent = self._sequences.setdefault(producer.producer_id, [])
        numbers = producer.base_sequence, producer.base_sequence + producer.record_count - 1
        if numbers in recent:
            return 0
        if numbers[0] != (recent[-1][1] + 1 if recent else 0):
            return int(ErrorCode.out_of_order_sequence_number)
        self._epochs[producer.producer_id] = producer.epoch
        self._sequences[producer.producer_id] = [*recent[-4:], numbers]
        values = read_batch(batch, api_version=9, max_decompressed_bytes=1 << 20).records.values
        stored = Stored(self.end, producer.producer_id, tuple(map(bytes, values)))
        self.batches.append(stored)
        self.open[producer.producer_id].append(stored)
        self.end += producer.record_count
        return 0

    def mark(self, producer_id: int, epoch: int, *, committed: bool) -> None:
        """Write the marker of a transaction."""
        ended = self.open.pop(producer_id, [])
        if committed:
            self.committed |= {stored.offset for stored in ended}
        if epoch > self._epochs.get(producer_id, NO_EPOCH):
            self._sequences[producer_id] = []
        self._epochs[producer_id] = max(epoch, self._epochs.get(producer_id, NO_EPOCH))
        self.end += 1

    @property
    def stable_end(self) -> int:
        """Where readers of committed records have to stop."""
        return min((some[0].offset for some in self.open.values()), default=self.end)


class GroupOffsets:
    """The offsets of a group; those of open transactions wait."""

    def __init__(self) -> None:
        self.committed: dict[tuple[str, int], tuple[int, str]] = {}
        self.waiting: defaultdict[int, dict[tuple[str, int], tuple[int, str]]] = defaultdict(dict)
        self._epochs: dict[int, int] = {}

    def put(self, request: Any) -> int:
        """Return the error code."""
        producer_id, epoch = int(request.producer_id), int(request.producer_epoch)
        if epoch < self._epochs.get(producer_id, NO_EPOCH):
            return OLD_EPOCH
        self._epochs[producer_id] = epoch
        for topic in request.topics:
            for partition in topic.partitions:
                place = str(topic.name), int(partition.partition_index)
                value = int(partition.committed_offset), partition.committed_metadata or ""
                self.waiting[producer_id][place] = value
        return 0

    def mark(self, producer_id: int, epoch: int, *, committed: bool) -> None:
        """Write the marker of a transaction."""
        waiting = self.waiting.pop(producer_id, {})
        if committed:
            self.committed |= waiting
        self._epochs[producer_id] = max(epoch, self._epochs.get(producer_id, NO_EPOCH))

    def is_stable(self, place: tuple[str, int]) -> bool:
        return not any(place in some for some in self.waiting.values())


class Cluster:
    """The brokers, as a single broker with the node id 1."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.transactions: dict[str, Transaction] = {}
        self.logs: defaultdict[Place, Log] = defaultdict(Log)
        self.groups: defaultdict[str, GroupOffsets] = defaultdict(GroupOffsets)
        self.on_expired: Callable[[Transaction], None] = lambda _: None
        self.delayed: list[Callable[[], Any]] = []
        """Handle requests whose connections broke on their way."""
        self._by_producer: dict[int, Transaction] = {}
        self._handlers = {
            INIT: self._new_producer,
            ADD_PARTITIONS: self._add_partitions,
            ADD_OFFSETS: self._add_offsets,
            OFFSET_COMMIT: self._commit_offsets,
            GROUP_FETCH: self._fetch_offsets,
            END: self._end,
            LIST_TRANSACTIONS: self._list,
            DESCRIBE_TRANSACTIONS: self._describe,
        }

    # Requests

    def handle(self, request: Any, response: Any) -> Any:
        """Return the response to a request of the protocol library."""
        return self._handlers[int(request.__api_key__)](request, response)

    def produce(self, body: bytes) -> RawResponse:
        """Return the response to a Produce request."""
        results = [
            (topic, partition, self._append(topic, partition, batch), None)
            for topic, partition, batch in read_produce(body)
        ]
        return RawResponse(produce_response(results))

    def _append(self, topic: str, partition: int, batch: bytes) -> int:
        producer = read_producer(batch)
        assert producer is not None
        transaction = self._by_producer[producer.producer_id]
        # A leader verifies with the coordinator that the partition belongs to the transaction.
        if transaction.epoch != producer.epoch:
            return OLD_EPOCH
        if transaction.state != ONGOING or (topic, partition) not in transaction.places:
            return INVALID_STATE
        return self.logs[topic, partition].append(batch)

    def _new_producer(self, request: Any, response: Any) -> Any:
        name = str(request.transactional_id)
        transaction = self.transactions.get(name)
        if transaction is None:
            transaction = Transaction(name, 4000 + len(self.transactions))
            self.transactions[name] = self._by_producer[transaction.producer_id] = transaction
        code = self._raise_epoch(transaction, int(request.producer_id), int(request.producer_epoch))
        if code:
            return answer(response, code, producer_id=ProducerId(-1), producer_epoch=i16(NO_EPOCH))
        transaction.timeout_s = request.transaction_timeout.total_seconds()
        return answer(
            response,
            producer_id=ProducerId(transaction.producer_id),
            producer_epoch=i16(transaction.epoch),
        )

    def _raise_epoch(self, transaction: Transaction, producer_id: int, epoch: int) -> int:
        is_new = transaction.epoch == NO_EPOCH
        has_expected = producer_id >= 0
        if has_expected and not is_new and producer_id != transaction.producer_id:
            return FENCED
        if transaction.state in _COMPLETE:
            return CONCURRENT
        if transaction.state == ONGOING:
            self.fence(transaction)
            return CONCURRENT
        if not has_expected:
            transaction.last_epoch, transaction.epoch = NO_EPOCH, transaction.epoch + 1
        elif is_new or epoch == transaction.epoch:
            transaction.last_epoch, transaction.epoch = transaction.epoch, transaction.epoch + 1
        elif epoch != transaction.last_epoch:
            return FENCED
        transaction.state = EMPTY
        return 0

    def fence(self, transaction: Transaction) -> None:
        """Abort a transaction, and fence its producer."""
        transaction.epoch, transaction.last_epoch = transaction.epoch + 1, NO_EPOCH
        transaction.state = PREPARE_ABORT

    def _add(self, name: str, producer_id: int, epoch: int, places: set[Place]) -> int:
        transaction = self.transactions.get(name)
        if transaction is None:
            return OTHER_PRODUCER
        if code := transaction.refusal(producer_id, epoch):
            return code
        if transaction.state in _COMPLETE:
            return CONCURRENT
        if transaction.state != ONGOING:
            transaction.state, transaction.began_at = ONGOING, self._clock()
            transaction.places.clear()
        transaction.places |= places
        return 0

    def _add_partitions(self, request: Any, response: Any) -> Any:
        places = {
            (str(topic.name), int(number))
            for topic in request.v3_and_below_topics
            for number in topic.partitions
        }
        code = self._add(
            str(request.v3_and_below_transactional_id),
            int(request.v3_and_below_producer_id),
            int(request.v3_and_below_producer_epoch),
            places,
        )
        return partitions_added(request, response, code)

    def _add_offsets(self, request: Any, response: Any) -> Any:
        name, group = str(request.transactional_id), str(request.group_id)
        producer = int(request.producer_id), int(request.producer_epoch)
        return answer(response, self._add(name, *producer, {(_OFFSETS, group)}))

    def _commit_offsets(self, request: Any, response: Any) -> Any:
        transaction = self.transactions[str(request.transactional_id)]
        group = str(request.group_id)
        code = transaction.refusal(int(request.producer_id), int(request.producer_epoch))
        is_member = (_OFFSETS, group) in transaction.places and transaction.state == ONGOING
        if code == FENCED:
            code = OLD_EPOCH
        elif not code and not is_member:
            code = INVALID_STATE
        return offsets_committed(request, response, code or self.groups[group].put(request))

    def _fetch_offsets(self, request: Any, response: Any) -> Any:
        module = __import__(response.__module__, fromlist=["x"])
        group = self.groups[str(request.group_id)]
        topics = []
        for topic in request.topics:
            partitions = []
            for index in topic.partition_indexes:
                place = str(topic.name), int(index)
                offset, metadata = group.committed.get(place, (-1, ""))
                is_open = request.require_stable and not group.is_stable(place)
                partitions.append(
                    module.OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=-1 if is_open else offset,
                        metadata="" if is_open else metadata,
                        error_code=ErrorCode(_STABLE_AFTER_MARKERS if is_open else 0),
                    )
                )
            topics.append(
                module.OffsetFetchResponseTopic(name=topic.name, partitions=tuple(partitions))
            )
        return response(throttle_time=NO_TIME, topics=tuple(topics))

    def _end(self, request: Any, response: Any) -> Any:
        transaction = self.transactions.get(str(request.transactional_id))
        if transaction is None:
            return answer(response, OTHER_PRODUCER)
        code = transaction.refusal(int(request.producer_id), int(request.producer_epoch))
        return answer(response, code or self._end_transaction(transaction, request.committed))

    def _end_transaction(self, transaction: Transaction, committed: bool) -> int:
        prepared = PREPARE_COMMIT if committed else PREPARE_ABORT
        if transaction.state == ONGOING:
            transaction.state = prepared
            return 0
        if transaction.state == prepared:
            return CONCURRENT
        return 0 if transaction.state == _COMPLETE[prepared] else INVALID_STATE

    def _list(self, request: Any, response: Any) -> Any:
        module = __import__(response.__module__, fromlist=["x"])
        states = tuple(
            module.TransactionState(
                transactional_id=TransactionalId(transaction.name),
                producer_id=ProducerId(transaction.producer_id),
                transaction_state=transaction.state,
            )
            for transaction in self.transactions.values()
            if transaction.state in request.state_filters
        )
        return answer(response, transaction_states=states)

    def _describe(self, request: Any, response: Any) -> Any:
        module = __import__(response.__module__, fromlist=["x"])
        (name,) = request.transactional_ids
        transaction = self.transactions.get(str(name)) or Transaction(str(name), -1)
        is_known = str(name) in self.transactions
        state = module.TransactionState(
            error_code=ErrorCode(0 if is_known else int(ErrorCode.transactional_id_not_found)),
            transactional_id=name,
            transaction_state=transaction.state if is_known else "",
            transaction_timeout=i32Timedelta.parse(dt.timedelta(seconds=transaction.timeout_s)),
            transaction_start_time=None
            if transaction.state == EMPTY
            else _EPOCH_BEGIN + dt.timedelta(seconds=transaction.began_at),
            producer_id=ProducerId(transaction.producer_id),
            producer_epoch=i16(transaction.epoch),
            topics=(),
        )
        return response(throttle_time=NO_TIME, transaction_states=(state,))

    # The cluster by itself

    def missing_markers(self) -> list[tuple[Transaction, Place]]:
        """Return the markers that have to be written."""
        return [
            (transaction, place)
            for transaction in self.transactions.values()
            if transaction.state in _COMPLETE
            for place in sorted(transaction.places)
        ]

    def mark(self, transaction: Transaction, place: Place) -> None:
        """Write a marker; the last of them completes the transaction."""
        name, key = place
        log = self.groups[key] if name == _OFFSETS else self.logs[place]
        is_commit = transaction.state == PREPARE_COMMIT
        log.mark(transaction.producer_id, transaction.epoch, committed=is_commit)
        transaction.places.discard(place)
        if not transaction.places:
            transaction.state = _COMPLETE[transaction.state]

    def next_expiry(self) -> float | None:
        """Return when the next open transaction is aborted."""
        open_transactions = [
            transaction.began_at + transaction.timeout_s
            for transaction in self.transactions.values()
            if transaction.state == ONGOING
        ]
        return min(open_transactions, default=None)

    def expire(self) -> None:
        """Abort the transactions whose time is over."""
        for transaction in self.transactions.values():
            is_over = self._clock() >= transaction.began_at + transaction.timeout_s
            if transaction.state == ONGOING and is_over:
                self.on_expired(transaction)
                self.fence(transaction)

    # What readers see

    def visible(self, topic: str) -> Iterator[tuple[int, bytes]]:
        """Yield the partition and the value of each record that is committed, or will be."""
        for (name, number), log in sorted(self.logs.items()):
            for stored in log.batches if name == topic else ():
                transaction = self._by_producer[stored.producer_id]
                is_ending = transaction.state == PREPARE_COMMIT and (name, number) in (
                    transaction.places
                )
                waits = stored in log.open.get(stored.producer_id, ())
                if stored.offset in log.committed or (waits and is_ending):
                    for value in stored.values:
                        yield number, value

    def is_readable_to_the_end(self, topic: str) -> bool:
        """Return whether no reader of committed records has to wait."""
        return all(
            log.stable_end == log.end for (name, _), log in self.logs.items() if name == topic
        )

    def decided(self, group: str, place: tuple[str, int]) -> str:
        """Return the text that is committed with a group's offset, or will be; empty for none."""
        offsets = self.groups[group]
        for producer_id, waiting in offsets.waiting.items():
            if self._by_producer[producer_id].state == PREPARE_COMMIT and place in waiting:
                return waiting[place][1]
        return offsets.committed.get(place, (0, ""))[1]
