"""Opens the writer of a task: with transactions, or without where the cluster has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client.writing.idempotent_writer import IdempotentWriter
from penstock.client.writing.transactional_writer import TransactionalWriter
from penstock.client.writing.writer import Writer, WriterLimits

if TYPE_CHECKING:
    from penstock.client.connections.connection import Connection
    from penstock.client.places import PlaceRecords
    from penstock.client.positions import Claim, PositionTask


def open_writer(
    connection: Connection,
    task: PositionTask,
    *,
    transactions: bool,
    limits: WriterLimits = WriterLimits(),  # noqa: B008 - it cannot be changed
    claim: Claim | None = None,
    places: PlaceRecords | None = None,
) -> Writer:
    """Return the writer of a task; its `position` is where the task continues.

    Args:
        connection: The connection to the cluster.
        task: The task. Older writers of it are fenced, if there are transactions.
        transactions: Whether the cluster has transactions; see `promise`.
        limits: The limits of sizes and times.
        claim: Of this run of the job, where there may be another.
        places: Where positions are written besides, to last longer than committed offsets.

    Raises:
        FencedError: Another run has claimed the task.
        WriteError: The coordinator refuses it.
        ClientError: The cluster does not respond in time, or denies it.
    """
    kind = TransactionalWriter if transactions else IdempotentWriter
    return kind(connection, task, limits, claim=claim, places=places)
