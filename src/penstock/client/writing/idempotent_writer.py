"""Writes batches without transactions: each stored once, unless the task is tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.init_producer_id.v4.response import InitProducerIdResponse

from penstock.client.connections.pipeline import Pipeline
from penstock.client.errors import ClientError
from penstock.client.positions import Position, commit_positions, read_positions
from penstock.client.protocol.producer_id import PRODUCER_ID_REQUEST, producer_of
from penstock.client.writing.writer import Promise, Writer

if TYPE_CHECKING:
    from penstock.client.connections.connection import Connection
    from penstock.client.places import PlaceRecords
    from penstock.client.positions import Claim, PositionTask
    from penstock.client.protocol.produced_batches import BatchSource
    from penstock.client.writing.writer import WriterLimits
    from penstock.wire.producer_ids import ProducerIdAndEpoch


class IdempotentWriter(Writer):
    """Writes at least once. Nothing fences another writer of the task."""

    promise = Promise.AT_LEAST_ONCE

    def __init__(
        self,
        connection: Connection,
        task: PositionTask,
        limits: WriterLimits,
        *,
        claim: Claim | None = None,
        places: PlaceRecords | None = None,
    ) -> None:
        """Get a producer id, and read where the task continues.

        Args:
            connection: The connection to the cluster.
            task: The task.
            limits: The limits of sizes and times.
            claim: Of the run: only where it starts is used, since nothing fences others.
            places: Where the position is written besides, before it is committed.

        Raises:
            ClientError: The cluster does not respond in time, or denies it.
        """
        self._connection = connection
        self._task = task
        self._places = places
        self._pipeline = idempotent_pipeline(connection, limits)
        found = read_positions(connection, task.group, {task.topic: [task.partition]})
        self.position = found.get((task.topic, task.partition))
        if self.position is None and claim is not None:
            self.position = Position(claim.start)

    def write(
        self, topic: str, partition: int, batch: bytes | memoryview, source: BatchSource
    ) -> None:
        self._pipeline.put(topic, partition, batch, source)

    def commit(self, position: Position) -> None:
        self._pipeline.flush()
        if self._places is not None:
            place = self._places.batch(self._task, position)
            self._pipeline.put(*self._places.partition, place, self._places.source)
            self._pipeline.flush()
        task = self._task
        commit_positions(self._connection, task.group, {(task.topic, task.partition): position})
        self.position = position

    def abort(self) -> None:
        self._pipeline.abandon()
        self._pipeline.start(new_producer(self._connection))

    def close(self) -> None:
        self._pipeline.abandon()


def idempotent_pipeline(connection: Connection, limits: WriterLimits) -> Pipeline:
    """Return a pipeline of a new producer without transactions.

    Args:
        connection: To the cluster.
        limits: The limits of sizes and times.

    Raises:
        ClientError: The cluster does not respond in time, or denies it.
    """
    pipeline = Pipeline(
        connection,
        transactional_id=None,
        max_bytes=limits.bytes_in_flight,
        timeout_s=limits.delivery_timeout_s,
    )
    pipeline.start(new_producer(connection))
    return pipeline


def new_producer(connection: Connection) -> ProducerIdAndEpoch:
    """Return a new producer without transactions.

    Raises:
        ClientError: The cluster does not respond in time, or denies it.
    """
    retries = connection.retries()
    while True:
        try:
            found = connection.send_to_any(PRODUCER_ID_REQUEST, InitProducerIdResponse)
            return producer_of(found)
        except ClientError as error:
            retries.after(error)
