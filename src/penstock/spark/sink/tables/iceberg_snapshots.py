"""What the snapshots of an Iceberg table say about the micro-batches that it has.

Iceberg has no transaction ids of applications as Delta has. But a snapshot is committed in one step
with the properties of its summary, so each names the writer, the micro-batch and the attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from penstock.spark.sink.tables.commit import TableCommit

WRITER, NUMBER, ATTEMPT = "penstock.writer", "penstock.micro-batch", "penstock.attempt"
"""The properties in the summary of a snapshot."""
_WRITING = frozenset({"append", "overwrite"})
"""The operations of snapshots that can have other records than the table had."""


class Snapshot(NamedTuple):
    """A snapshot of a table.

    Attributes:
        id: Its id, which has no order.
        parent: The id of the snapshot before; None for the first.
        operation: `append`, `overwrite`, `replace` or `delete`.
        writer: The writer; None if another program committed it.
        number: The number of the micro-batch; None if there is none.
    """

    id: int
    parent: int | None
    operation: str
    writer: str | None = None
    number: int | None = None
    attempt: str | None = None

    def __str__(self) -> str:
        """Return its id, and what it is."""
        writer = f", {self.writer}" if self.writer else ""
        return f"snapshot {self.id}{writer}" + (
            "" if self.number is None else f" micro-batch {self.number}"
        )

    def is_of(self, commit: TableCommit) -> bool:
        """Return whether it is a commit."""
        return (self.writer, self.number, self.attempt) == commit


class Snapshots(NamedTuple):
    """The current snapshot of a table, and those before it.

    Attributes:
        newest_first: The snapshots, up to the first that has not expired.
    """

    newest_first: tuple[Snapshot, ...]

    @property
    def newest(self) -> int | None:
        """The id of the current one; None if there is none."""
        return self.newest_first[0].id if self.newest_first else None

    @property
    def ids(self) -> AbstractSet[int]:
        """Their ids."""
        return {snapshot.id for snapshot in self.newest_first}

    @property
    def writers(self) -> Sequence[str]:
        """The writers that they name, sorted."""
        return sorted(
            {snapshot.writer for snapshot in self.newest_first if snapshot.writer is not None}
        )

    def ids_until(self, last: int) -> AbstractSet[int]:
        """Return the id of a snapshot, and those before it."""
        ids = [snapshot.id for snapshot in self.newest_first]
        return set(ids[ids.index(last) :] if last in ids else ids)

    def of(self, commit: TableCommit) -> Snapshot | None:
        """Return the snapshot of a commit; None if there is none."""
        return next((snapshot for snapshot in self.newest_first if snapshot.is_of(commit)), None)

    def last_number(self, writer: str) -> int | None:
        """Return the highest number of a writer's micro-batches; None if there is none."""
        numbers = (
            snapshot.number
            for snapshot in self.newest_first
            if snapshot.writer == writer and snapshot.number is not None
        )
        return max(numbers, default=None)

    def first_twice(
        self, writer: str, end_ids: AbstractSet[int] = frozenset()
    ) -> tuple[Snapshot, Snapshot] | None:
        """Return two snapshots of one micro-batch, the later first; None if there are none.

        Args:
            end_ids: The ids of the snapshots to end at.
        """
        later: dict[int, Snapshot] = {}
        for snapshot in self.written_since(end_ids):
            if snapshot.writer != writer or snapshot.number is None:
                continue
            if snapshot.number in later:
                return later[snapshot.number], snapshot
            later[snapshot.number] = snapshot
        return None

    def written_since(
        self, end_ids: AbstractSet[int], *, start_id: int | None = None
    ) -> Iterator[Snapshot]:
        """Yield the snapshots that can have other records than the table had, newest first.

        Args:
            end_ids: The ids of the snapshots to end at.
            start_id: The id of the snapshot after them; None for all.
        """
        is_before = start_id is None
        for snapshot in self.newest_first:
            if snapshot.id in end_ids:
                return
            if is_before and snapshot.operation in _WRITING:
                yield snapshot
            is_before = is_before or snapshot.id == start_id


def ancestors(current: int | None, snapshots: Iterable[Snapshot]) -> Snapshots:
    """Return the current snapshot of a table, and those before it.

    Snapshots of other branches, and those from before a rollback, are not among them.

    Args:
        current: The id of the current snapshot; None if the table has none.
        snapshots: All snapshots of the table.
    """
    by_id = {snapshot.id: snapshot for snapshot in snapshots}
    newest_first = []
    while current is not None and current in by_id:
        newest_first.append(by_id[current])
        current = by_id[current].parent
    return Snapshots(tuple(newest_first))
