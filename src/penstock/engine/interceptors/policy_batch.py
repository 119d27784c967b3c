"""The `BatchProxy` that policies are given: columns of some records, made on first use.

It is made of any `RecordColumns`. What it hands out cannot be altered (tuples, bytes, read-only
Arrow buffers), since the records that are stored and those of the next policy may be the same
objects.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.engine.columns import MAX_LENGTH, starts
from penstock.engine.plans.loading import PolicyMistakeError
from penstock.kafka.records.prefixes import after
from penstock.policy import RecordIntrospectionHints

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from penstock.engine.columns import Headers, RecordColumns

EVERYTHING: Final = RecordIntrospectionHints()
_BINARY_MAX_BYTES: Final = 2**31 - 1
"""The limit of a `BinaryArray`, whose offsets are 32 bits wide."""


class ArrowMissingError(PolicyMistakeError):
    """A policy uses Arrow arrays, and pyarrow is not installed."""

    def __init__(self) -> None:
        super().__init__("keys_arrow and values_arrow need pyarrow, which is not installed here")


class PolicyBatch:
    """Records as columns, within a policy's hints; implements `penstock.policy.BatchProxy`."""

    _records: RecordColumns
    _hints: RecordIntrospectionHints

    def __init__(
        self, records: RecordColumns, hints: RecordIntrospectionHints = EVERYTHING
    ) -> None:
        vars(self).update(_records=records, _hints=hints)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a batch cannot be altered")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a batch cannot be altered")

    def __len__(self) -> int:
        return self._records.count

    def __repr__(self) -> str:
        return f"PolicyBatch({len(self)} records)"

    @cached_property
    def keys(self) -> Sequence[bytes | None]:
        return self._starts(self._records.keys, self._hints.access_key_bytes)

    @cached_property
    def values(self) -> Sequence[bytes | None]:
        return self._starts(self._records.values, self._hints.access_value_bytes)

    @cached_property
    def headers(self) -> Sequence[Headers]:
        return tuple(self._records.headers) if self._hints.access_headers else ((),) * len(self)

    @cached_property
    def timestamps(self) -> Sequence[int]:
        return tuple(self._records.timestamps)

    @cached_property
    def keys_arrow(self) -> pa.BinaryArray | pa.LargeBinaryArray:
        return self._arrow(self._records.keys, self._hints.access_key_bytes, "keys")

    @cached_property
    def values_arrow(self) -> pa.BinaryArray | pa.LargeBinaryArray:
        return self._arrow(self._records.values, self._hints.access_value_bytes, "values")

    def keys_after(self, prefix: bytes) -> Sequence[bytes] | None:
        whole = self._hints.access_key_bytes >= MAX_LENGTH
        return self._records.keys_after(prefix) if whole else after(self.keys, prefix)

    def values_after(self, prefix: bytes) -> Sequence[bytes] | None:
        whole = self._hints.access_value_bytes >= MAX_LENGTH
        return self._records.values_after(prefix) if whole else after(self.values, prefix)

    def has_header(self, name: str) -> bool:
        return self._hints.access_headers and self._records.has_header(name)

    def _starts(self, fields: Iterable[bytes | None], length: int) -> Sequence[bytes | None]:
        return tuple(starts(fields, length, len(self)))

    def _arrow(self, fields: Iterable[bytes | None], length: int, name: str) -> Any:
        """Return a column as Arrow; without a copy where the records came so."""
        try:
            import pyarrow as pa  # noqa: PLC0415 - installed where a policy uses it
        except ImportError:
            raise ArrowMissingError from None
        array = getattr(fields, "arrow", None) if length else None
        if array is None:
            array = binary_array(pa, getattr(self, name))
        elif length < MAX_LENGTH:
            import pyarrow.compute as pc  # noqa: PLC0415 - takes as long to import as pyarrow

            array = pc.binary_slice(array, 0, length)
        return _read_only(pa, array)


def binary_array(
    pa: Any, fields: Sequence[bytes | None], max_bytes: int = _BINARY_MAX_BYTES
) -> pa.BinaryArray | pa.LargeBinaryArray:
    """Return an array of some fields; a large one past `max_bytes`."""
    size = sum(map(len, filter(None, fields)))
    return pa.array(fields, pa.binary() if size <= max_bytes else pa.large_binary())


def _read_only(pa: Any, array: Any) -> Any:
    """Return the same array over buffers that NumPy, too, will not write to."""
    buffers = [
        None if buffer is None else pa.py_buffer(memoryview(buffer).toreadonly())
        for buffer in array.buffers()
    ]
    return pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset)
