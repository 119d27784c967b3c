"""Arrow columns of stored records become the engine's records; verdicts become a column."""

from __future__ import annotations

from array import array
from functools import cached_property, partial
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.columns import Columns
from penstock.engine.verdict import Outcome
from penstock.jobs.rows.arrow import headers_of
from penstock.jobs.rows.far_times import read_far_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.engine.all_objections import AllVerdicts
    from penstock.engine.verdict import PolicyVerdict
    from penstock.jobs.rows.far_times import FarTime
    from penstock.policy import Header

VERDICT_TYPE: Final = "struct<outcome: string, policy: string, code: int, message: string>"
"""Spark's type of a verdict."""
_VERDICT: Final = pa.struct(
    [
        ("outcome", pa.string()),
        ("policy", pa.string()),
        ("code", pa.int32()),
        ("message", pa.string()),
    ]
)
_OBJECTION: Final = pa.struct(
    [
        ("policy", pa.string()),
        ("rule", pa.string()),
        ("code", pa.int32()),
        ("message", pa.string()),
        ("mode", pa.string()),
    ]
)
_MICROS: Final = 1000
_ACCEPTED: Final = {"outcome": Outcome.ACCEPTED.value, "policy": None, "code": 0, "message": None}


class RecordRun(NamedTuple):
    """Consecutive records of one partition: from `start` to before `end`."""

    start: int
    end: int
    topic: str | None
    partition: int


def runs(topics: pa.Array | str, partitions: pa.Array) -> Iterator[RecordRun]:
    """Cut rows where topic or partition changes.

    Args:
        topics: Of each row, or the topic of all rows.
        partitions: Of each row.
    """
    if not len(partitions):
        return
    ends = set(pc.run_end_encode(pc.fill_null(partitions, -1)).run_ends.to_pylist())
    if not isinstance(topics, str):
        ends.update(pc.run_end_encode(topics).run_ends.to_pylist())
    for start, end in pairwise([0, *sorted(ends)]):
        topic = topics if isinstance(topics, str) else topics[start].as_py()
        partition = partitions[start].as_py()
        yield RecordRun(start, end, topic, -1 if partition is None else partition)


class _OnDemand:
    """A column of a batch of rows: made when it is first iterated, and kept.

    Policies that judge columns read only some of them, or Arrow's own array.

    Attributes:
        arrow: The array that it comes from, of a key or a value.
    """

    def __init__(self, make: Callable[[], Sequence[Any]], arrow: pa.Array | None = None) -> None:
        self._make = make
        self.arrow = arrow

    def __iter__(self) -> Iterator[Any]:
        return iter(self._made)

    @cached_property
    def _made(self) -> Sequence[Any]:
        return self._make()


class ArrowRecords:
    """A batch of records in Arrow, with only the columns that a plan needs."""

    def __init__(self, arrays: dict[str, pa.Array], *, no_time: int = -1) -> None:
        """Take columns.

        Args:
            arrays: By name.
            no_time: The timestamp of rows without one, in ms. Of a row with a far timestamp, it is
                the timestamp in its headers.
        """
        self._arrays = arrays
        self._no_time = no_time

    def columns(self, start: int, end: int) -> Columns:
        """Return the engine's view of some rows; missing columns are None, -1 or ()."""
        count = end - start
        return Columns(
            count,
            _OnDemand(partial(self._timestamps, start, count)),
            self._bytes("key", start, count),
            self._bytes("value", start, count),
            _OnDemand(partial(self._headers, start, count)),
        )

    def _slice(self, name: str, start: int, count: int) -> pa.Array | None:
        array = self._arrays.get(name)
        if array is None or (start == 0 and count == len(array)):
            return array
        return array.slice(start, count)

    def _bytes(self, name: str, start: int, count: int) -> Any:
        array = self._slice(name, start, count)
        return (None,) * count if array is None else _OnDemand(array.to_pylist, array)

    def _timestamps(self, start: int, count: int) -> Any:
        array = self._slice("timestamp", start, count)
        if array is None:
            return (self._no_time,) * count
        micros = pc.fill_null(array.cast(pa.int64()), self._no_time * _MICROS)
        # Arrow divides integers toward zero; as floats, those from the year 2255 on are not exact.
        timestamps = (micros.to_numpy() // _MICROS).tolist()
        for position, far in self._far_times(array, self._given_headers(start, count)):
            timestamps[position] = far.timestamp
        return timestamps

    def _headers(self, start: int, count: int) -> Any:
        headers = self._given_headers(start, count)
        far_times = list(self._far_times(self._slice("timestamp", start, count), headers))
        if not far_times:
            return headers
        own = list(headers)
        for position, far in far_times:
            own[position] = far.headers
        return own

    def _far_times(
        self, times: pa.Array | None, headers: Sequence[tuple[Header, ...]]
    ) -> Iterator[tuple[int, FarTime]]:
        """Return the positions of rows whose timestamps are far, and those."""
        if times is None or not times.null_count:
            return
        for position in pc.indices_nonzero(times.is_null()).to_pylist():
            if (far := read_far_time(headers[position])) is not None:
                yield position, far

    def _given_headers(self, start: int, count: int) -> Sequence[tuple[Header, ...]]:
        array = self._slice("headers", start, count)
        return ((),) * count if array is None else headers_of(array)


def verdict_array(count: int, verdicts: Sequence[tuple[int, PolicyVerdict]]) -> pa.StructArray:
    """Make the verdict column of a batch from the verdicts that are not `accepted`."""
    distinct: dict[tuple[str, str, int, str | None], int] = {}
    kinds = [_ACCEPTED]
    indices = array("i", bytes(count * 4))
    for row, verdict in verdicts:
        kind = (verdict.outcome.value, verdict.policy, verdict.code, verdict.message)
        index = distinct.get(kind)
        if index is None:
            index = distinct[kind] = len(kinds)
            kinds.append(dict(zip(("outcome", "policy", "code", "message"), kind, strict=True)))
        indices[row] = index
    return pa.array(kinds, _VERDICT).take(_int32(indices))


def verdict_with_objections(count: int, decisions: AllVerdicts) -> pa.StructArray:
    """Make the verdict column of a batch, with all objections: no null, but empty lists."""
    ends = array("i")
    rows: list[tuple[Any, ...]] = []
    for row, objections in sorted(decisions.objections.items()):
        # Rows without objections end where the row before them does.
        ends.extend(repeat(len(rows), row + 1 - len(ends)))
        rows += (objection[:5] for objection in objections)
    ends.extend(repeat(len(rows), count + 1 - len(ends)))
    columns = zip(*rows, strict=True) if rows else ((),) * len(_OBJECTION)
    entries = pa.StructArray.from_arrays(
        [
            pa.array(column, field.type)
            for column, field in zip(columns, list(_OBJECTION), strict=True)
        ],
        fields=list(_OBJECTION),
    )
    lists = pa.ListArray.from_arrays(_int32(ends), entries)
    verdict = verdict_array(count, decisions.verdicts)
    names = [field.name for field in verdict.type]
    return pa.StructArray.from_arrays([*verdict.flatten(), lists], [*names, "objections"])


def _int32(numbers: array[int]) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])
