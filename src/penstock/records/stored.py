"""The records of a batch, as either implementation hands them over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.policy.records import Header


class SupportsArrow(Protocol):
    """A column that Arrow libraries read through the C data interface."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Return the capsules of schema and array."""


class StoredRecords(Protocol):
    """Records that have been checked, as columns.

    A column is made when it is first asked for, and kept. Nothing refers to the bytes that
    were read: they may change.
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

    @property
    def keys_arrow(self) -> SupportsArrow | None:
        """The keys as an Arrow array, made without an object for each; None if not to be had."""

    @property
    def values_arrow(self) -> SupportsArrow | None:
        """The same of the values."""

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
            keys: For each of them.
            values: For each of them.

        Returns:
            The record section of a batch, uncompressed, and the largest timestamp.

        Raises:
            ValueError: A record does not fit a batch.
        """
