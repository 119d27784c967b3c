"""Writers of raw batches: their common interface, and which of them a cluster permits.

::

    with open_writer(connection, task, limits, transactions=True) as writer:
        start = writer.position  # where to continue; None for the beginning
        for chunk in ...:
            for batch in chunk:
                writer.write("orders-clean", 3, batch, source)
            writer.commit(Position(chunk.end))

With transactions, the records and the position of a `commit` become visible together, or neither: a
task that is tried again, by the same process or another, continues exactly at the last commit.
There is one writer of a task at a time: the writer that was opened last. Spark tries a task
again that was fenced; so that two runs of a job do not fence each other by turns, each claims its
tasks (`penstock.client.positions.Claim`), and the older run ends.

Without, a position is committed after everything before it is stored. What a task wrote after its
last commit is written again when it is tried again, and two attempts at a time write twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.client.positions import Position
    from penstock.client.protocol.produced_batches import BatchSource


class Promise(Enum):
    """The guarantees for records in case of failures; the values are texts for users."""

    EXACTLY_ONCE = "each record is written once (for readers with isolation.level=read_committed)"
    AT_LEAST_ONCE = (
        "each record is written at least once: after a failure the records since the last commit "
        "are written again"
    )


class WriterLimits(NamedTuple):
    """How much, and how long.

    Attributes:
        bytes_in_flight: How many bytes may be on their way to brokers at a time, copied.
        transaction_timeout_s: After which time brokers abort a transaction that was begun; at
            most their `transaction.max.timeout.ms` (15 minutes). Readers with
            `read_committed` wait as long for a writer that has gone.
        delivery_timeout_s: A batch that is not stored after this time has failed; less than the
            transaction timeout.
    """

    bytes_in_flight: int = 8 * 2**20
    transaction_timeout_s: float = 120.0
    delivery_timeout_s: float = 90.0


class Writer(ABC):
    """Writes the batches of one task. A context: it aborts uncommitted batches at its end."""

    promise: Promise
    position: Position | None
    """The position where the task continues; None before the first commit."""

    @abstractmethod
    def write(
        self, topic: str, partition: int, batch: bytes | memoryview, source: BatchSource
    ) -> None:
        """Write a batch; waits while too many bytes are on their way.

        Args:
            topic: The target.
            partition: Its partition.
            batch: A batch of magic 2, as it was read or rebuilt. It is copied.
            source: Where it was read, for errors.

        Raises:
            UnwritableBatch: No broker would accept it.
            RefusedBatchError: The broker refuses it, or an earlier batch.
            FencedError: Another writer of the same task has taken over.
            AbortedError: The transaction is lost.
            ClientError: The cluster does not respond in time, or denies it.
        """

    def add(self, partitions: Iterable[tuple[str, int]]) -> None:  # noqa: B027 - not abstract
        """Take note of partitions that are about to be written to, all with one request.

        `write` does it for each that was not added.

        Args:
            partitions: Topics and partitions.

        Raises:
            FencedError: Another writer of the same task has taken over.
            ClientError: The cluster does not respond in time, or denies it.
        """

    @abstractmethod
    def commit(self, position: Position) -> None:
        """Commit the written batches, and the position of the task.

        Args:
            position: The next offset to read.

        Raises:
            UnknownOutcomeError: It is not known whether it was committed.
            ClientError: As for `write`; it was not committed.
        """

    @abstractmethod
    def abort(self) -> None:
        """Abort the batches since the last commit; the writer can continue from there.

        Raises:
            FencedError: Another writer of the same task has taken over.
            AbortedError: Its time was over: a new writer is needed.
            ClientError: The cluster does not respond in time, or denies it.
        """

    @abstractmethod
    def close(self) -> None:
        """Abort the batches since the last commit, and end. Raise no error of a cluster.

        The connection stays open.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
