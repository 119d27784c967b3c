"""Tasks that read from a cluster and write to it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.jobs.batches.task import RangeTask, TaskLimits, ignore, never
from penstock.kafka.client.positions import Position
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.client.writing.transactional_writer import TransactionalWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.jobs.batches.task import TaskProgress
    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.client.positions import Claim, PositionTask
    from penstock.kafka.client.reading.offset_ranges import LostOffsets, WantedRange
    from penstock.kafka.client.writing.place_records import PlaceRecords
    from penstock.kafka.records.stored_batch import StoredBatch


def range_task(
    connection: Connection,
    offsets: WantedRange,
    position: PositionTask,
    *,
    run: str,
    claim: Claim | None = None,
    places: PlaceRecords | None = None,
    limits: TaskLimits = TaskLimits(),  # noqa: B008 - it cannot be changed
    on_chunk: Callable[[TaskProgress], None] = ignore,
    on_lost: Callable[[LostOffsets], None] = ignore,
    is_over: Callable[[], bool] = never,
    recall: Callable[[StoredBatch], None] | None = None,
    looks_back: int = 0,
    merges: bool = False,
) -> RangeTask:
    """Return a task on a cluster; nothing is contacted.

    Args:
        connection: To the cluster.
        offsets: The range; records of aborted transactions are left out.
        position: The names of its position and of its transactions.
        run: The run of its counts; see `RangeTask`.
        claim: Of the run, where there may be another of the same job.
        places: Where positions are written besides, to last longer (`redrive`).
        limits: When a chunk ends.
        on_chunk: See `RangeTask`.
        on_lost: See `RangeTask`.
        is_over: See `RangeTask`.
        recall: See `RangeTask`.
        looks_back: See `RangeTask`.
        merges: See `RangeTask`.
    """
    return RangeTask(
        offsets,
        partial(RangeReader, connection, merged_within=limits.of_batch if merges else None),
        partial(TransactionalWriter, connection, position, claim=claim, places=places),
        run,
        limits,
        on_chunk,
        on_lost,
        is_over,
        recall=recall,
        looks_back=looks_back,
        merges=merges,
    )


def keep_position(
    connection: Connection,
    position: PositionTask,
    offset: int,
    *,
    claim: Claim,
    places: PlaceRecords | None = None,
) -> None:
    """Commit the position of a task again, which brokers forget some days after it was committed.

    Args:
        connection: To the cluster.
        position: The names of the position.
        offset: Where the task begins if nothing has been committed.
        claim: Of the run.
        places: Where the position is written besides, to last longer (`redrive`).

    Raises:
        FencedError: Another run has claimed the task.
        ClientError: The cluster does not respond in time, or denies it.
    """
    with TransactionalWriter(connection, position, claim=claim, places=places) as writer:
        writer.commit(writer.position or Position(offset))
