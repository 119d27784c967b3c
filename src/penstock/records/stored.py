"""The interface of the records of a batch, which both implementations have."""

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
            keys: For each of them.
            values: For each of them.

        Returns:
            The record section of a batch, uncompressed, and the largest timestamp.

        Raises:
            ValueError: A record does not fit a batch.
        """
