"""Sends stamped batches to the leaders of their partitions, in order and each once.

For each partition up to five batches are on their way at a time (a broker remembers the last five
of a producer), and for all of them together a number of bytes. Small batches wait for those of
other partitions: one request has a batch of each partition of its leader. A batch is sent again,
with the same sequence number, after an error that is retriable and after a connection was lost: a
broker that already has it reports that, and does not store it twice.

When a batch fails, those after it were refused for their sequence numbers, or will be. The
partition then waits until all of them are answered, pauses, looks up its leader, and begins again
with the first, alone; after a success there are five again. Without transactions
a partition begins in the same way.

All of it runs in the caller's thread: responses that arrived in the meantime are processed with
the next call.
"""

from __future__ import annotations

import math
import time
from collections import deque
from typing import TYPE_CHECKING, Final, NoReturn

from kio.schema.errors import ErrorCode

from penstock.kafka.client.errors import (
    BrokerUnreachableError,
    ClientError,
    describe,
    response_error,
)
from penstock.kafka.client.protocol.produce import answer_of, read_response, write_request
from penstock.kafka.client.protocol.produced_batches import record_count
from penstock.kafka.client.protocol.write_errors import (
    ABORTABLE,
    FENCED,
    AbortedError,
    BatchRefusal,
    FencedError,
    RefusedBatchError,
    write_error,
)
from penstock.kafka.records.header import as_produced
from penstock.kafka.records.sequences import add
from penstock.kafka.wire.errors import RETRIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.kafka.client.connections.connection import Connection, PendingResponse
    from penstock.kafka.client.protocol.produce import ProduceResult
    from penstock.kafka.client.protocol.produced_batches import BatchSource
    from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch

CHANNEL: Final = "produce"
"""Its requests have separate connections: responses of coordinators do not wait for them."""
IN_FLIGHT_MAX: Final = 5
_GROWTH: Final = 2
_SENT_FROM_BYTES: Final = 64 * 1024
"""Waiting batches are sent as soon as they have as many bytes."""
_REQUEST_BYTES: Final = 2**20
"""The most bytes of a request, unless a single batch has more."""
_OUT_OF_ORDER: Final = int(ErrorCode.out_of_order_sequence_number)
_STORED: Final = frozenset({0, int(ErrorCode.duplicate_sequence_number)})
_REFUSED: Final[Mapping[int, str]] = {
    ErrorCode.message_too_large: "is larger than the target's max.message.bytes: raise it",
    ErrorCode.record_list_too_large: "is larger than the target's segment.bytes: raise it",
    ErrorCode.unsupported_compression_type: "has a compression codec that the target refuses",
    ErrorCode.invalid_timestamp: "has timestamps that the target refuses: see its "
    "message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    ErrorCode.invalid_record: "has a record that the target refuses",
    ErrorCode.policy_violation: "is refused by a policy of the target",
    ErrorCode.unsupported_for_message_format: "has a format that the target refuses: see its "
    "message.format.version",
}


def ignore(*_: object) -> None:
    """Do nothing."""


class _SentRequest:
    """A request that was sent, and its response for each partition."""

    def __init__(self, pending: PendingResponse) -> None:
        self._pending = pending
        self._answers: Mapping[tuple[str, int], ProduceResult] | None = None

    def is_answered(self) -> bool:
        return self._pending.is_done()

    def wait(self) -> None:
        """Wait for the response.

        Raises:
            ClientError: There is no response.
        """
        self._pending.wait()

    def is_answered_within(self, timeout_s: float) -> bool:
        """Wait for so long; return whether there is a response, or none any more."""
        return self._pending.is_done_within(timeout_s)

    def cancel(self) -> None:
        """Ignore the response. The connection to a broker that was silent is given up."""
        self._pending.abandon()

    def answer(self, queue: _PartitionQueue) -> ProduceResult:
        """Wait for the response; return its result for a partition.

        Raises:
            ClientError: There is no response.
            WireError: It cannot be read.
        """
        if self._answers is None:
            self._answers = read_response(self._pending.wait())
        return answer_of(self._answers, queue.place)


class _Batch:
    """A batch that was accepted from the caller, and is not yet stored for certain."""

    __slots__ = ("deadline", "parts", "request", "size", "source")

    def __init__(
        self, parts: Sequence[bytes | memoryview], source: BatchSource, deadline: float
    ) -> None:
        self.parts = parts
        self.size = sum(map(len, parts))
        self.source = source
        self.deadline = deadline
        self.request: _SentRequest | None = None


class _PartitionQueue:
    """Batches on their way to one partition."""

    __slots__ = (
        "cause",
        "failed_batches",
        "not_before",
        "number",
        "pause_s",
        "sent_batches",
        "sequence",
        "topic",
        "trouble",
        "waiting_batches",
        "window",
    )

    def __init__(self, topic: str, number: int, pause_s: float, window: int) -> None:
        self.topic = topic
        self.number = number
        self.sequence = 0
        self.waiting_batches: deque[_Batch] = deque()
        self.sent_batches: deque[_Batch] = deque()
        self.failed_batches: list[_Batch] = []
        """To be sent again as soon as all of `sent` are answered; in order."""
        self.cause: ClientError | None = None
        """Why the first of them failed."""
        self.trouble = ""
        """Why nothing was stored the last time; empty after a success."""
        self.window = window
        self.pause_s = pause_s
        self.not_before = 0.0

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.number}"

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.number

    def may_send(self, now: float) -> bool:
        """Return whether its next batch may be sent."""
        is_free = not self.failed_batches and now >= self.not_before
        return is_free and bool(self.waiting_batches) and len(self.sent_batches) < self.window


class Pipeline:
    """Batches of one producer on their way to brokers."""

    def __init__(
        self,
        connection: Connection,
        *,
        transactional_id: str | None,
        max_bytes: int,
        timeout_s: float,
        sent_from_bytes: int = _SENT_FROM_BYTES,
        channel: str = CHANNEL,
        on_stored: Callable[[BatchSource, int], None] = ignore,
        on_retry: Callable[[ClientError], None] = ignore,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare; nothing is contacted.

        Args:
            connection: To the cluster.
            transactional_id: Or None, where there are no transactions.
            max_bytes: The bytes on their way at a time. One batch may be larger.
            timeout_s: A batch that is not stored after this time, since it was first sent, has
                failed.
            sent_from_bytes: Batches wait for others until they have as many bytes together, or
                until `flush`.
            channel: As for `Connection.begin`.
            on_stored: Called with the source of each batch that is stored, and the offset of its
                first record; -1 if that is not known.
            on_retry: Called with each error after which a batch is sent again.
            clock: Returns seconds that never go back.
            sleep: Waits for seconds.
        """
        self._connection = connection
        self._transactional_id = transactional_id
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._sent_from_bytes = sent_from_bytes
        self._channel = channel
        self._on_stored = on_stored
        self._on_retry = on_retry
        self._clock = clock
        self._sleep = sleep
        self._partitions: dict[tuple[str, int], _PartitionQueue] = {}
        self._bytes = self._unsent_bytes = 0
        self._error: ClientError | None = None
        self._producer: ProducerIdAndEpoch | None = None

    def start(self, producer: ProducerIdAndEpoch) -> None:
        """Begin as a producer with a new epoch: its sequence numbers start at 0.

        Batches on their way before are given up.
        """
        self._producer = producer
        self._partitions = {}
        self._bytes = self._unsent_bytes = 0
        self._error = None

    def put(
        self,
        topic: str,
        partition: int,
        batch: bytes | memoryview,
        source: BatchSource,
        deadline: float = math.inf,
    ) -> None:
        """Take a batch, and send it soon; wait while too many bytes are on their way.

        Args:
            batch: A batch. It is copied.
            source: Where it was read.
            deadline: By the clock: after it the batch has failed, also before the timeout.

        Raises:
            UnwritableBatch: No broker would accept it.
            RefusedBatchError: The broker refuses this batch, or an earlier batch.
            WriteError: The producer was fenced, or the transaction is lost.
            ClientError: A batch could not be stored in time, or it is denied.
        """
        self._check()
        assert self._producer is not None
        queue = self._partitions.get((topic, partition))
        if queue is None:
            # A leader takes any first sequence number of a producer that it does not know: it would
            # store the second batch without the first. A transaction is aborted then.
            window = 1 if self._transactional_id is None else IN_FLIGHT_MAX
            pause_s = self._connection.settings.backoff_s
            queue = _PartitionQueue(topic, partition, pause_s, window)
            self._partitions[topic, partition] = queue
        count = record_count(batch, source)
        produced = as_produced(
            batch,
            producer_id=self._producer.producer_id,
            epoch=self._producer.epoch,
            base_sequence=queue.sequence,
            transactional=self._transactional_id is not None,
        )
        queue.sequence = add(queue.sequence, count)
        # The caller may reuse its memory before it is sent.
        parts = [bytes(part) for part in produced]
        unsent = _Batch(parts, source, deadline)
        while self._bytes and self._bytes + unsent.size > self._max_bytes:
            self._wait()
        self._bytes += unsent.size
        self._unsent_bytes += unsent.size
        queue.waiting_batches.append(unsent)
        if self._unsent_bytes >= self._sent_from_bytes:
            for each in [each for each in self._partitions.values() if each.waiting_batches]:
                self._advance(each)

    def flush(self) -> None:
        """Wait until everything is stored.

        Raises:
            ClientError: As for `put`.
        """
        self._check()
        while self._bytes:
            self._wait()

    def poll(self, timeout_s: float) -> bool:
        """Wait for a time at most; return whether everything is stored.

        It can take longer while a leader is looked up.

        Raises:
            ClientError: As for `put`.
        """
        self._check()
        end = self._clock() + timeout_s
        while self._bytes and (left_s := end - self._clock()) > 0:
            self._wait(left_s)
        return not self._bytes

    def abandon(self) -> None:
        """Send no more batches, and wait until those that were sent are answered or lost."""
        for queue in self._partitions.values():
            queue.waiting_batches.clear()
            queue.failed_batches.clear()
            for batch in queue.sent_batches:
                try:
                    assert batch.request is not None
                    batch.request.wait()
                except ClientError:
                    continue
            queue.sent_batches.clear()
        self._bytes = self._unsent_bytes = 0

    def cancel(self) -> None:
        """Give up all batches, at once: those that were sent may be stored nevertheless.

        The connection to a leader that was silent is given up, too, so that the next pipeline does
        not wait for it. `start` begins again.
        """
        for queue in self._partitions.values():
            for batch in queue.sent_batches:
                assert batch.request is not None
                batch.request.cancel()
        self._producer = None
        self._partitions = {}
        self._bytes = self._unsent_bytes = 0

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _wait(self, timeout_s: float = math.inf) -> None:
        """Wait until something changes, or for a time; raise the first failure."""
        busy = [
            queue
            for queue in self._partitions.values()
            if queue.sent_batches or queue.waiting_batches
        ]
        changed_queues = [queue for queue in busy if self._advance(queue)]
        if changed_queues:
            return
        queues_in_flight = [queue for queue in busy if queue.sent_batches]
        if queues_in_flight:
            oldest = min(queues_in_flight, key=lambda queue: queue.sent_batches[0].deadline)
            first = oldest.sent_batches[0]
            if timeout_s < math.inf and not _is_answered_within(first, timeout_s):
                return
            self._settle(oldest)
            self._advance(oldest)
            return
        pause = min(min(queue.not_before for queue in busy) - self._clock(), timeout_s)
        if pause > 0:
            self._sleep(pause)

    def _advance(self, queue: _PartitionQueue) -> bool:
        """Take the answers that have arrived and send more; return whether there was an answer."""
        has_advanced = False
        while queue.sent_batches and _is_answered(queue.sent_batches[0]):
            self._settle(queue)
            has_advanced = True
        while queue.may_send(self._clock()):
            if not self._send(queue):
                return True
            has_advanced = True
        return has_advanced

    def _send(self, queue: _PartitionQueue) -> bool:
        """Send the next batch; return False if no broker can take it now, or it is late."""
        now = self._clock()
        deadline = now + self._timeout_s
        first = queue.waiting_batches[0]
        first.deadline = min(first.deadline, deadline)
        request_timeout_s = self._connection.settings.request_timeout_s
        # Without it silent brokers are waited for until each has refused a connection, too.
        leader_timeout_s = max(0.0, min(first.deadline - now, request_timeout_s))
        try:
            node = self._connection.leader(
                queue.topic, queue.number, timeout_s=leader_timeout_s
            ).node
        except ClientError as error:
            self._later(queue, error)
            return False
        if self._clock() >= first.deadline:
            trouble = queue.trouble or f"{queue}: its leader was not found in time"
            self._later(queue, BrokerUnreachableError(trouble))
            return False
        together = {
            partition.place: partition.waiting_batches.popleft()
            for partition in self._sent_with(queue, node)
        }
        batches = {place: batch.parts for place, batch in together.items()}
        request = _SentRequest(
            self._connection.begin(
                node,
                write_request(self._transactional_id, request_timeout_s, batches),
                channel=self._channel,
                has_deadline=True,  # `cancel` shows that the broker is silent
            )
        )
        for place, batch in together.items():
            batch.request, batch.deadline = request, min(batch.deadline, deadline)
            self._partitions[place].sent_batches.append(batch)
            self._unsent_bytes -= batch.size
        return True

    def _sent_with(self, queue: _PartitionQueue, node: int) -> list[_PartitionQueue]:
        """Return the partitions of a leader whose next batches go into one request."""
        queues, size, now = [queue], queue.waiting_batches[0].size, self._clock()
        for partition in self._partitions.values():
            if partition is queue or not partition.may_send(now):
                continue
            more = partition.waiting_batches[0].size
            if size + more <= _REQUEST_BYTES and self._is_led_by(partition, node):
                queues.append(partition)
                size += more
        return queues

    def _is_led_by(self, partition: _PartitionQueue, node: int) -> bool:
        try:
            return self._connection.leader(partition.topic, partition.number).node == node
        except ClientError:  # it has its turn
            return False

    def _settle(self, queue: _PartitionQueue) -> None:
        """Wait for the answer of the first batch of a partition, and act on it."""
        batch = queue.sent_batches[0]
        error = self._outcome(queue, batch)
        queue.sent_batches.popleft()
        if error is not None:
            if not error.retriable:
                self._fail(error)
            batch.request = None
            self._unsent_bytes += batch.size
            queue.failed_batches.append(batch)
            queue.cause = queue.cause or error
        if queue.cause is not None and not queue.sent_batches:
            queue.waiting_batches.extendleft(reversed(queue.failed_batches))
            queue.failed_batches.clear()
            cause, queue.cause = queue.cause, None
            self._later(queue, cause)

    def _outcome(self, queue: _PartitionQueue, batch: _Batch) -> ClientError | None:
        """Wait for the answer of a batch, and note that it is stored; or return why it is not."""
        assert batch.request is not None
        try:
            answer = batch.request.answer(queue)
        except ClientError as error:
            return error
        if answer.code not in _STORED:
            return self._error_of(queue, batch, answer)
        self._stored(queue, batch, answer.offset)
        return None

    def _stored(self, queue: _PartitionQueue, batch: _Batch, offset: int) -> None:
        self._bytes -= batch.size
        queue.window = IN_FLIGHT_MAX
        queue.trouble = ""
        queue.pause_s = self._connection.settings.backoff_s
        self._on_stored(batch.source, offset)

    def _later(self, queue: _PartitionQueue, error: ClientError) -> None:
        """Let a partition begin again with its first batch after a pause."""
        now = self._clock()
        first = queue.waiting_batches[0]
        if not error.retriable:
            self._fail(error)
        if now >= first.deadline:
            self._fail(
                AbortedError(
                    f"{queue}: the batch from {first.source} could not be stored within "
                    f"{self._timeout_s:g} s: {error}"
                )
            )
        self._on_retry(error)
        queue.trouble = str(error)
        self._connection.refresh(queue.topic)
        queue.window = 1
        queue.not_before = now + queue.pause_s
        queue.pause_s = min(queue.pause_s * _GROWTH, self._connection.settings.max_backoff_s)

    def _fail(self, error: ClientError) -> NoReturn:
        self._error = error
        raise error

    def _error_of(
        self, queue: _PartitionQueue, batch: _Batch, answer: ProduceResult
    ) -> ClientError:
        """Return the error for a response; after a retriable error the batch is sent again."""
        code = answer.code
        if code == _OUT_OF_ORDER and queue.failed_batches:
            # Only because the batch before was not stored: both are sent again.
            return response_error(int(ErrorCode.network_exception), str(queue))
        text = f" ({answer.text})" if answer.text else ""
        if code in FENCED:
            return FencedError(
                f"{queue}: {describe(code)}: another writer of the same task has taken over"
            )
        if code in ABORTABLE:
            return AbortedError(f"{queue}: {describe(code)}{text}")
        if code in _REFUSED:
            return RefusedBatchError(
                f"{queue}: the batch of {batch.size} bytes from {batch.source} {_REFUSED[code]}: "
                f"{describe(code)}{text}",
                BatchRefusal(queue.topic, batch.source, code, answer.records),
            )
        if code in RETRIABLE:
            return response_error(code, f"{queue}{text}")
        return write_error(code, str(queue))


def _is_answered_within(batch: _Batch, timeout_s: float) -> bool:
    assert batch.request is not None
    return batch.request.is_answered_within(timeout_s)


def _is_answered(batch: _Batch) -> bool:
    return batch.request is not None and batch.request.is_answered()
