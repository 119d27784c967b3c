"""The interface of the records of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.policy.records import Header


class SupportsArrow(Protocol):
    """A column that Arrow libraries read through the C data interface."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Return the capsules of schema and array."""


KeysAndValues = tuple["Sequence[bytes | None]", "Sequence[bytes | None]"]
"""All keys and all values of some records, as interceptors left them."""


class SmallBatches(NamedTuple):
    """Which batches are small, and when enough of them have been merged.

    Attributes:
        small_bytes: The maximum size of a small batch, as it is stored.
        small_records: The maximum number of its records.
        enough_bytes: Of merged records. A batch that is larger, decompressed, is not small.
        enough_records: Of merged records.
    """

    small_bytes: int
    small_records: int
    enough_bytes: int
    enough_records: int


class StoredBatches(Protocol):
    """The batches of a fetch response, of which small batches are merged while they are read."""

    def __call__(
        self,
        position: int,
        first: int,
        end: int,
        limits: SmallBatches,
        with_transactions: bool,
        /,
    ) -> (
        tuple[tuple[tuple[int, int, int, int], int, int, tuple[int, int]], bytes, StoredRecords]
        | None
    ):
        """Merge the small batches that follow each other from a position on.

        Args:
            position: Of the first batch, in bytes.
            first: The first batch begins with this offset, or behind it.
            end: The last record is before this offset.
            limits: Which batches are small.
            with_transactions: Whether batches of transactions are merged, too.

        Returns:
            Base offset, last offset, base timestamp and largest timestamp of the merged batch; the
            leader epoch and the codec of the last batch; how many bytes all of them take, and the
            largest; the
            section of the records, uncompressed; and the records. None where fewer than two batches
            can be merged.
        """


class StoredRecords(Protocol):
    """Validated records, as columns.

    A column is created on first access and cached. The buffer that the records were read from may
    be reused.
    """

    def __len__(self) -> int: ...

    @property
    def keys(self) -> Sequence[bytes | None]:
        """The keys, in order."""

    @property
    def values(self) -> Sequence[bytes | None]:
        """The values, in order."""

    @property
    def headers(self) -> Sequence[tuple[Header, ...]]:
        """The headers of each record, in order."""

    @property
    def timestamps(self) -> Sequence[int]:
        """Milliseconds since the epoch; -1 for none."""

    def keys_after(self, prefix: bytes, /) -> Sequence[bytes] | None:
        """Return the rest of every key after a prefix, in order.

        The column `keys` is not created for it.

        Args:
            prefix: May be empty.

        Returns:
            None where a key does not begin with it, or is null.
        """

    def values_after(self, prefix: bytes, /) -> Sequence[bytes] | None:
        """Return the rest of every value after a prefix; see `keys_after`."""

    def has_header(self, name: str, /) -> bool:
        """Return whether a record has a header of this name, with a value or without."""

    @property
    def keys_arrow(self) -> SupportsArrow | None:
        """The keys as an Arrow array, created without Python objects; None if not available."""

    @property
    def values_arrow(self) -> SupportsArrow | None:
        """The values as an Arrow array; None if not available."""

    def rewritten(
        self,
        kept: Sequence[int],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> tuple[bytes, int]:
        """Write some of the records with other keys and values.

        Timestamps stay relative to the base timestamp of the batch.

        Args:
            kept: The positions of the records, ascending; at least one.

        Returns:
            The record section of a batch, uncompressed, and the largest timestamp.

        Raises:
            ValueError: A record does not fit a batch.
        """

    def offsets(self, base_offset: int) -> Sequence[int]:
        """Return the offset of each record, in order: a `range` where there are no gaps.

        Args:
            base_offset: The batch's.
        """

    def part(self, start: int, end: int) -> StoredRecords:
        """Return the records from one position to before another; they are not copied.

        Raises:
            IndexError: There are not as many.
        """

    def cut(
        self,
        kept: Sequence[int],
        replaced: KeysAndValues | None,
        appended: Sequence[Sequence[tuple[str, bytes | None]]] | None,
        without: Sequence[str],
        retimed: bool,
        first: int = 0,
        shift: int = 0,
        /,
    ) -> tuple[bytes, int]:
        """Write some of the records as a producer sends them.

        Args:
            kept: The positions of the records, ascending; at least one.
            replaced: The keys and the values of all records, not only of those kept; None where
                they stay as they are.
            appended: For each record that is kept, headers that follow its own; None for none.
            without: Headers whose keys begin with any of these are left out.
            retimed: Whether all timestamps become the base timestamp of the batch that the result
                is written to; otherwise they stay relative to that of this batch.
            first: How many records are before these in the batch that they are written to.
            shift: The number that is added to each written timestamp: where that batch has another
                base timestamp, the difference.

        Returns:
            The record section of a batch, uncompressed, and the largest timestamp as the
            producer sent it.

        Raises:
            ValueError: A record does not fit a batch.
            IndexError: There is no record with such a position.
        """
