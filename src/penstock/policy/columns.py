"""The records of a batch as columns, for policies that judge a batch at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.policy.records import Header


class BatchProxy(Protocol):
    """Records of a partition, in order, as columns of equal length. Read-only.

    A column is created on first access, so unused columns cost nothing. The number of records is
    not guaranteed: it can be a producer's batch, the rest of a batch, a slice of stored records, or
    a single record.

    A policy of KIP-940 gets only the keys, values and headers within its hints, as in a
    `RecordProxy`.
    """

    def __len__(self) -> int:
        """Return the number of records; at least one."""
        ...

    @property
    def keys(self) -> Sequence[bytes | None]:
        """The keys; None for a missing key."""
        ...

    @property
    def values(self) -> Sequence[bytes | None]:
        """The values; None for a tombstone."""
        ...

    @property
    def headers(self) -> Sequence[Sequence[Header]]:
        """The headers of each record, in the producer's order."""
        ...

    @property
    def timestamps(self) -> Sequence[int]:
        """Milliseconds since the epoch; -1 if missing."""
        ...

    def keys_after(self, prefix: bytes) -> Sequence[bytes] | None:
        """Return the rest of each key after a prefix; see `values_after`."""
        ...

    def values_after(self, prefix: bytes) -> Sequence[bytes] | None:
        """Return the rest of each value after a prefix, such as payloads behind a schema id.

        This is faster than a loop over `values`. The result is not cached.

        Args:
            prefix: The beginning of the values; can be empty.

        Returns:
            The rests in the order of the records; None if a value does not begin with the prefix,
            or is null.
        """
        ...

    def has_header(self, name: str) -> bool:
        """Return whether any record has a header of this name, with or without a value.

        Args:
            name: The header's key.

        Returns:
            False if the hints leave headers out.
        """
        ...

    @property
    def keys_arrow(self) -> pa.BinaryArray | pa.LargeBinaryArray:
        """The keys as Arrow's buffers, read-only; see `values_arrow`."""
        ...

    @property
    def values_arrow(self) -> pa.BinaryArray | pa.LargeBinaryArray:
        """The values as Arrow's buffers, read-only: validity, offsets, data.

        A `pyarrow.BinaryArray`; or a `pyarrow.LargeBinaryArray`, if the values together are too
        long for it or come from an array of this type. It can be a slice with an `offset`.

        Raises:
            Exception: pyarrow is not installed; the batch fails, and the log says so.
        """
        ...
