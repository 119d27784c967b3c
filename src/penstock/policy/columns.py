"""The records of a batch as columns: what policies see that judge a batch at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.policy.records import Header


class BatchProxy(Protocol):
    """Some records of one partition, in order, as columns of equal length.

    Made by Penstock. Nothing of it can be altered. A column is made when it is first asked for,
    so what a policy does not look at costs nothing. How many records come together is nobody's
    promise: a producer's batch, what is left of it, a slice of stored records, one record.

    A policy of KIP-940 gets no more of keys, values and headers than its hints ask for, as in a
    `RecordProxy`.
    """

    def __len__(self) -> int:
        """Return the number of records; at least one."""
        ...

    @property
    def keys(self) -> Sequence[bytes | None]:
        """The keys; None where there is none."""
        ...

    @property
    def values(self) -> Sequence[bytes | None]:
        """The values; None for a tombstone."""
        ...

    @property
    def headers(self) -> Sequence[Sequence[Header]]:
        """The headers of each record, in the producer's order; empty where there are none."""
        ...

    @property
    def timestamps(self) -> Sequence[int]:
        """Milliseconds since the epoch; -1 for none."""
        ...

    def keys_after(self, prefix: bytes) -> Sequence[bytes] | None:
        """Return what follows a prefix in every key; see `values_after`."""
        ...

    def values_after(self, prefix: bytes) -> Sequence[bytes] | None:
        """Return what follows a prefix in every value: payloads behind one schema id, say.

        Where records are read natively this takes less than `values` and a loop over them; it is
        made anew each time.

        Args:
            prefix: What the values have to begin with; may be empty.

        Returns:
            One for each record, in order; None where a value does not begin with the prefix, or
            is null.
        """
        ...

    def has_header(self, name: str) -> bool:
        """Return whether a record has a header of this name, with a value or without.

        Args:
            name: The header's key.

        Returns:
            False where hints ask for no headers.
        """
        ...

    @property
    def keys_arrow(self) -> pa.BinaryArray | pa.LargeBinaryArray:
        """The keys as Arrow's buffers, read-only; see `values_arrow`."""
        ...

    @property
    def values_arrow(self) -> pa.BinaryArray | pa.LargeBinaryArray:
        """The values as Arrow's buffers, read-only: validity, offsets, data.

        A `pyarrow.BinaryArray`; a `pyarrow.LargeBinaryArray` where the values are too long for
        one together, or where they came so. It may be a slice: its `offset` need not be 0.

        Raises:
            Exception: pyarrow is not installed; the batch fails, and the log says so.
        """
        ...
