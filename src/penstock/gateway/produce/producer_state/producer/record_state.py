"""The records of a producer that were written here, and those of other gateways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.produce.producer_state.records.fences import Fences

if TYPE_CHECKING:
    from penstock.gateway.produce.producer_state.producer.batch import Batch
    from penstock.gateway.produce.producer_state.producer.numbers import Range
    from penstock.gateway.produce.producer_state.records.fences import Head


class RecordState:
    """The records of a producer in one epoch, as far as they are known here.

    Attributes:
        fences: Which of them count.
        agreed_at: The client's sequence number up to which it is certain that no gateway decides
            differently, with any interceptors, with the connection and the generation of
            interceptors here. None if it is not certain.
        begins_unknown: Whether its record may have been evicted here: other gateways may
            count its dropped records differently.
        written: When its record was written last, in seconds since the epoch; 0 if there is none.
        revision: The revision of the last record that was written here; 0 for none.
        position: The position after the last record that is taken into account here.
        merged: The position after the last record of another gateway that is.
        unread: The revisions of records that are being or were written here, and were not read.
    """

    __slots__ = (
        "agreed_at",
        "begins_unknown",
        "fences",
        "merged",
        "position",
        "revision",
        "unread",
        "written",
    )

    def __init__(self, last_write: float) -> None:
        """Begin without a record that was read.

        Args:
            last_write: See `written` of `RecordState`.
        """
        self.fences = Fences()
        self.agreed_at: tuple[int, int, int] | None = None
        self.begins_unknown = False
        self.written = last_write
        self.revision = 0
        self.position = 0
        self.merged = 0
        self.unread: tuple[int, ...] = ()

    def is_agreed(
        self, numbers: Range, first_attempt: Batch | None, connection: int, generation: int
    ) -> bool:
        """Whether no other gateway can be writing another decision about a batch.

        Not so at the first batch on a connection: before, the client may have been at another
        gateway, which may have decided about the same batch, or about one before it.

        Args:
            numbers: The sequence numbers of the batch.
            first_attempt: The batch of the first attempt, if this is a retry.
            connection: The number of the connection.
            generation: The generation of interceptors here.
        """
        if self.agreed_at is None:
            return False
        following, *where = self.agreed_at
        if where != [connection, generation]:
            return False
        return following == numbers.first or (
            first_attempt is not None and first_attempt.connection == connection
        )

    def write(self, revision: int, now: float, *, is_read_back: bool) -> None:
        """Record that a record is being written here.

        Args:
            now: The time in seconds since the epoch.
            is_read_back: Whether it is read where it was written.
        """
        self.written = now
        self.revision = revision
        if is_read_back:
            self.unread += (revision,)

    def not_written(self, revision: int) -> None:
        """Record that a record could not be written: others may never read it."""
        self.unread = tuple(other for other in self.unread if other != revision)

    def read_own(self, head: Head, position: int) -> None:
        """Record that a record is read that was written here.

        Args:
            position: The position after it.
        """
        self.unread = tuple(unread for unread in self.unread if unread > head.revision)
        self.position = position

    def read_other(self, position: int) -> None:
        """Record that a record of another gateway is taken into account, up to a position."""
        self.position = self.merged = position

    def is_hidden_by(self, head: Head) -> bool:
        """Whether the last record, written here, does not have what others wrote before it."""
        return not self.unread and self.merged > (head.seen or 0)

    def is_known_to(self, head: Head) -> bool:
        """Whether the writer of a record knew all that was written here."""
        return not self.unread and head.seen is not None and head.seen >= self.position
