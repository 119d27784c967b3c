"""Writes batches and the position of their task in one transaction (KIP-98).

::

    with TransactionalWriter(connection, task) as writer:
        start = writer.position  # where to continue; None for the beginning
        for chunk in ...:
            for batch in chunk:
                writer.write("orders-clean", 3, batch, source)
            writer.commit(Position(chunk.end))

The records and the position of a `commit` become visible together, or neither: a task that is
tried again, by the same process or another, continues exactly at the last commit. There is one
writer of a task at a time: the writer that was opened last. Spark tries a task again that was
fenced; so that two runs of a job do not fence each other by turns, each claims its tasks
(`penstock.kafka.client.positions.Claim`), and the older run ends.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, NoReturn, Self

from penstock.kafka.client.connections.pipeline import Pipeline
from penstock.kafka.client.connections.transaction_coordinator import TransactionCoordinator
from penstock.kafka.client.errors import ClientError
from penstock.kafka.client.positions import Position, read_last_positions, read_positions
from penstock.kafka.client.protocol.write_errors import AbortedError, FencedError
from penstock.kafka.client.writing.limits import WriterLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.client.positions import Claim, PositionTask
    from penstock.kafka.client.protocol.produced_batches import BatchSource
    from penstock.kafka.client.writing.place_records import PlaceRecords
    from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch

    _Read = Callable[..., Mapping[tuple[str, int], Position]]


class TransactionalWriter:
    """Writes the batches of one task, each once (for readers with `read_committed`).

    A context: it aborts uncommitted batches at its end.

    Attributes:
        position: The position where the task continues; None before the first commit.
    """

    def __init__(
        self,
        connection: Connection,
        task: PositionTask,
        limits: WriterLimits = WriterLimits(),  # noqa: B008 - it cannot be changed
        *,
        claim: Claim | None = None,
        places: PlaceRecords | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Fence all older writers of the task, then read where it continues.

        Args:
            connection: The connection to the cluster.
            limits: The limits of sizes and times.
            claim: Of the run; None where the job has one run only.
            places: Where the position is written besides, in the same transaction, to last longer
                than committed offsets.
            clock: Returns seconds that never go back.

        Raises:
            FencedError: Another run has claimed the task; it is left alone.
            WriteError: The coordinator refuses it.
            ClientError: The cluster does not respond in time, or denies it.
        """
        self._connection = connection
        self._task = task
        self._limits = limits
        self._claim = claim
        self._places = places
        self._clock = clock
        self._coordinator = TransactionCoordinator(
            connection, task.transactional_id, limits.transaction_timeout_s
        )
        self._pipeline = Pipeline(
            connection,
            transactional_id=task.transactional_id,
            max_bytes=limits.bytes_in_flight,
            timeout_s=limits.delivery_timeout_s,
        )
        self._partitions: set[tuple[str, int]] = set()
        self._begin_s: float | None = None
        if claim is not None:
            self._read_position(read_last_positions)  # raises before anybody is fenced
        self._restart()
        # Not before: until then an older writer might have committed.
        self.position = self._read_position()
        first = None if claim is None else claim.first(self.position)
        if first is not None:
            self.commit(first)

    def write(
        self, topic: str, partition: int, batch: bytes | memoryview, source: BatchSource
    ) -> None:
        """Write a batch; wait while too many bytes are on their way.

        Args:
            batch: A batch of magic 2, as it was read or rebuilt. It is copied.
            source: Where it was read, for errors.

        Raises:
            UnwritableBatch: No broker would accept it.
            RefusedBatchError: The broker refuses it, or an earlier batch.
            FencedError: Another writer of the same task has taken over.
            AbortedError: The transaction is lost.
            ClientError: The cluster does not respond in time, or denies it.
        """
        self.add([(topic, partition)])
        try:
            self._pipeline.put(topic, partition, batch, source)
        except FencedError as error:
            self._fenced(error)

    def add(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Take note of partitions that are about to be written to, all with one request.

        `write` does it for each that was not added.

        Args:
            partitions: Topics and partitions.

        Raises:
            FencedError: Another writer of the same task has taken over.
            ClientError: The cluster does not respond in time, or denies it.
        """
        new = set(partitions) - self._partitions
        if not new:
            return
        if self._places is not None:
            new |= {self._places.partition} - self._partitions  # each transaction writes there
        try:
            self._begin()
            self._coordinator.add_partitions(self._producer, new)
        except FencedError as error:
            self._fenced(error)
        self._partitions |= new

    def commit(self, position: Position, check: Callable[[], None] = lambda: None) -> None:
        """Commit the written batches, and the position of the task.

        Args:
            position: The next offset to read.
            check: Called when all is written: nothing is committed if it raises an error, or takes
                longer than the transaction may.

        Raises:
            UnknownOutcomeError: It is not known whether it was committed.
            ClientError: As for `write`; it was not committed.
        """
        if self._claim is not None:
            position = position._replace(run=self._claim.run)
        if self._places is not None:
            place = self._places.batch(self._task, position)
            self.write(*self._places.partition, place, self._places.source)
        task = self._task
        try:
            self._pipeline.flush()
            self._begin()
            self._coordinator.commit_offset(
                self._producer, task.group, (task.topic, task.partition), position
            )
            check()
            self._coordinator.end(self._producer, commit=True)
        except FencedError as error:
            self._fenced(error)
        self._partitions.clear()
        self._begin_s = None
        self.position = position

    def abort(self) -> None:
        """Abort the batches since the last commit; the writer can continue from there.

        Raises:
            FencedError: Another writer of the same task has taken over.
            AbortedError: Its time was over: a new writer is needed.
            ClientError: The cluster does not respond in time, or denies it.
        """
        self._pipeline.abandon()
        if self._begin_s is None:
            return
        try:
            with contextlib.suppress(AbortedError):  # before its first partition was added
                self._coordinator.end(self._producer, commit=False)
            self._restart(previous_producer=self._producer)
        except FencedError as error:
            self._fenced(error)

    def close(self) -> None:
        """Abort the batches since the last commit, and end. Raise no error of a cluster.

        The connection stays open.
        """
        self._pipeline.abandon()
        if self._begin_s is not None:
            # If it fails, brokers abort the transaction when its time is over.
            with contextlib.suppress(ClientError):
                self._coordinator.end(self._producer, commit=False)
            self._begin_s = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_position(self, position_reader: _Read = read_positions) -> Position | None:
        task = self._task
        positions = position_reader(self._connection, task.group, {task.topic: [task.partition]})
        position = positions.get((task.topic, task.partition))
        if self._claim is not None and position and not self._claim.allows(position):
            raise FencedError(
                f"{task.transactional_id}: another run of the job works on {task.topic}, partition "
                f"{task.partition}; it is at offset {position.offset}"
            )
        return position

    def _begin(self) -> None:
        if self._begin_s is not None:
            return
        if self._coordinator.is_unsure:
            self._restart(previous_producer=self._producer)
        self._begin_s = self._clock()

    def _restart(self, **arguments: ProducerIdAndEpoch) -> None:
        """Get a new epoch; nothing that was sent with an older epoch is stored from now on."""
        self._producer = self._coordinator.new_producer(**arguments)
        self._pipeline.start(self._producer)
        self._partitions.clear()
        self._begin_s = None

    def _fenced(self, error: FencedError) -> NoReturn:
        """Raise the actual error: brokers also fence a producer whose transaction has timed out."""
        timeout_s = self._limits.transaction_timeout_s
        if self._begin_s is not None and self._clock() - self._begin_s >= timeout_s:
            raise AbortedError(
                f"the transaction of {self._task.transactional_id} was open for longer than "
                f"{timeout_s:g} s, after which brokers abort it: write less in one, or raise the "
                "transaction timeout"
            ) from None
        raise error
