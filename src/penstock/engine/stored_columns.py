"""The records of a producer's batch as columns, created on first access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.kafka.records.prefixes import after

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.kafka.records.stored import StoredRecords
    from penstock.policy import Header

T = TypeVar("T")


class StoredColumn(Generic[T]):
    """One column: created on first access, and cached by the records."""

    __slots__ = ("_name", "_positions", "_records")

    def __init__(
        self, records: StoredRecords, name: str, positions: Sequence[int] | None = None
    ) -> None:
        self._records = records
        self._name = name
        self._positions = positions

    def __len__(self) -> int:
        return len(self._records if self._positions is None else self._positions)

    def __iter__(self) -> Iterator[T]:
        column = getattr(self._records, self._name)
        if self._positions is None:
            return iter(column)
        return map(column.__getitem__, self._positions)

    def __getitem__(self, index: int) -> T:
        position = index if self._positions is None else self._positions[index]
        item: T = getattr(self._records, self._name)[position]
        return item

    @property
    def arrow(self) -> pa.BinaryArray | None:
        """The column as an Arrow array, created without Python objects.

        None if not available: for some of the records only, or if they were read in Python.

        Raises:
            ImportError: pyarrow is not installed.
        """
        column: Any = None
        if self._positions is None:
            column = getattr(self._records, self._name + _ARROW, None)
        if column is None:
            return None
        import pyarrow as pa  # noqa: PLC0415 - installed where a policy uses it

        return pa.array(column)


class StoredColumns:
    """Records of a batch, or some of them."""

    __slots__ = ("_positions", "_records", "count")

    def __init__(self, records: StoredRecords, positions: Sequence[int] | None = None) -> None:
        self._records = records
        self._positions = positions
        self.count = len(records if positions is None else positions)

    def keys_after(self, prefix: bytes) -> Sequence[bytes] | None:
        """Return the keys without a prefix; None if a key does not begin with it."""
        if self._positions is None:
            return self._records.keys_after(prefix)
        return after(tuple(self.keys), prefix)

    def values_after(self, prefix: bytes) -> Sequence[bytes] | None:
        """Return the values without a prefix; None if a value does not begin with it."""
        if self._positions is None:
            return self._records.values_after(prefix)
        return after(tuple(self.values), prefix)

    def has_header(self, name: str) -> bool:
        """Return whether a record has a header of this name."""
        if not self._records.has_header(name):
            return False
        return self._positions is None or any(
            header.key == name for headers in self.headers for header in headers
        )

    @property
    def timestamps(self) -> StoredColumn[int]:
        return StoredColumn(self._records, "timestamps", self._positions)

    @property
    def keys(self) -> StoredColumn[bytes | None]:
        return StoredColumn(self._records, "keys", self._positions)

    @property
    def values(self) -> StoredColumn[bytes | None]:
        return StoredColumn(self._records, "values", self._positions)

    @property
    def headers(self) -> StoredColumn[tuple[Header, ...]]:
        return StoredColumn(self._records, "headers", self._positions)

    def pick(self, positions: Sequence[int]) -> StoredColumns:
        """Return only the records at these positions."""
        if self._positions is not None:
            positions = [self._positions[position] for position in positions]
        return StoredColumns(self._records, positions)


_ARROW: Final = "_arrow"
