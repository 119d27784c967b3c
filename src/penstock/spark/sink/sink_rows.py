"""Rows of a frame become batches for brokers: judged, and gathered by partition of the target."""

from __future__ import annotations

import time
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from aiokafka.partitioner import murmur2

from penstock.batch_jobs.targets import fitting
from penstock.client.protocol.produced_batches import BatchSource
from penstock.client.protocol.write_errors import RefusedBatchError
from penstock.configuration import ConfigurationError
from penstock.engine.modes.dead_letters import Origin, ReasonHeaders, own_headers
from penstock.engine.verdict import REJECTED, Outcome, PolicyVerdict
from penstock.records.builder import build
from penstock.records.encoder import NewHeader, encode
from penstock.spark.execution.failures import SparkError
from penstock.spark.frames.rows import Rows, runs
from penstock.spark.source.source_rows import TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.batch_jobs.targets import OutgoingBatch, Target
    from penstock.engine.chain import RecordVerdicts
    from penstock.engine.columns import RecordColumns

    Judge = Callable[[int, RecordColumns], RecordVerdicts]

_TEXTS: Final = frozenset({"key", "value"})
_BATCH_BYTES: Final = 256 * 1024
_HELD_BYTES: Final = 32 * 2**20
_RECORD_BYTES: Final = 32
_KEYS_CACHED: Final = 65_536
_NOWHERE: Final = -1
_TIMESTAMP: Final = pa.timestamp("us", "UTC")
_POSITIVE: Final = 0x7FFFFFFF


class RefusedRecordsError(SparkError):
    """A policy refuses a record, and there is no place for dead letters."""


class _Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Sequence[Any]
    timestamp: int
    source: BatchSource

    @property
    def size(self) -> int:
        headers = sum(len(key) + len(value or b"") for key, value in self.headers)
        return _RECORD_BYTES + len(self.key or b"") + len(self.value or b"") + headers


def check_columns(types: Mapping[str, str]) -> None:
    """Check the columns of a frame that is written.

    Args:
        types: Spark's types by column.

    Raises:
        ConfigurationError: There is no value, or a column is not one of Kafka's, or of another
            type.
    """
    if "value" not in types:
        raise ConfigurationError('format("penstock"): the frame has no column value')
    for name, given in types.items():
        wanted = TYPES.get(name)
        if wanted is None:
            raise ConfigurationError(
                f'format("penstock") writes no column {name}; there are {", ".join(TYPES)}: '
                "select those, or drop it"
            )
        is_text = name in _TEXTS and given == "string"
        if not is_text and given.replace(" ", "") != wanted.replace(" ", ""):
            raise ConfigurationError(f"column {name} is {given}; it has to be {wanted}")


class OutgoingRows:
    """The rows of one task on their way; the bytes that wait are bounded."""

    def __init__(
        self,
        accepted: Target,
        rejected: Target | None,
        judge: Judge | None,
        *,
        codec: int,
        task: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set the work.

        Args:
            accepted: Where accepted records are written.
            rejected: Where dead letters are written; None to fail with the first.
            judge: Returns the verdicts on records of a partition; None to judge nothing.
            codec: Kafka's number of the compression codec.
            task: The number of the task: records without a key are spread by it.
            clock: Returns seconds since the epoch.
        """
        self._accepted = accepted
        self._rejected = rejected
        self._judge = judge
        self._codec = codec
        self._spread = task
        self._clock = clock
        self._reasons = ReasonHeaders()
        self._waiting: dict[tuple[Target, int], list[_Record]] = {}
        self._sizes: Counter[tuple[Target, int]] = Counter()
        self.counts: Counter[str] = Counter()
        """Records by outcome."""

    def add(self, batch: pa.RecordBatch) -> Iterator[OutgoingBatch]:
        """Judge rows; return the batches that are to be written now.

        Raises:
            RefusedRecordsError: One is refused, and there is no place for dead letters.
            RefusedBatchError: One is too large for the target, or has a header without a key.
            PostponedError: A policy cannot decide, even after a while.
        """
        if not len(batch):
            return
        arrays = self._arrays(batch)
        for _, partition in self._judged(arrays):
            full = [number for number in partition if self._sizes[number] >= _BATCH_BYTES]
            for number in full:
                yield from self._written(number)
            if self._sizes.total() >= _HELD_BYTES:
                yield from self.rest()

    def rest(self) -> Iterator[OutgoingBatch]:
        """Return the waiting records."""
        for number in list(self._waiting):
            yield from self._written(number)

    def _arrays(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the columns, ordered by the partition of the target that records go to."""
        count = len(batch)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        arrays = {
            "key": _binary(columns.get("key"), count),
            "value": _binary(columns["value"], count),
            "timestamp": self._timestamps(columns.get("timestamp"), count),
        }
        if "headers" in columns:
            arrays["headers"] = columns["headers"]
        for name in ("topic", "partition", "offset"):
            if name in columns:
                arrays[f"from_{name}"] = columns[name]
        arrays["partition"] = pa.array(self._partitions(columns, arrays["key"]), pa.int32())
        order = np.argsort(arrays["partition"].to_numpy(), kind="stable")
        return {name: column.take(pa.array(order)) for name, column in arrays.items()}

    def _partitions(self, columns: Mapping[str, pa.Array], keys: pa.Array) -> list[int]:
        count = self._accepted.partitions
        given = columns["partition"].to_pylist() if "partition" in columns else [None] * len(keys)
        self._spread += 1
        spread = self._spread % count
        return [
            number % count
            if number is not None
            else spread
            if key is None
            else _partition_of(key) % count
            for number, key in zip(given, keys.to_pylist(), strict=True)
        ]

    def _timestamps(self, given: pa.Array | None, count: int) -> pa.Array:
        now = pa.scalar(int(self._clock() * 1000) * 1000, pa.int64()).cast(_TIMESTAMP)
        if given is None:
            return pa.repeat(now, count)
        return pc.fill_null(given.cast(_TIMESTAMP), now)

    def _judged(
        self, arrays: dict[str, pa.Array]
    ) -> Iterator[tuple[int, list[tuple[Target, int]]]]:
        """Judge rows and keep them, a partition at a time; return where some were added."""
        rows = Rows(arrays)
        for start, end, _, partition in runs(self._accepted.topic, arrays["partition"]):
            columns = rows.columns(start, end)
            sources = self._sources(arrays, start, end)
            found = None if self._judge is None else self._judge(partition, columns)
            turned_away = dict(found.verdicts) if found else {}
            keys, values = list(columns.keys), list(columns.values)
            new_keys, new_values = keys, values
            if found is not None and found.replaced is not None:
                new_keys, new_values = map(list, found.replaced)
            kept = []
            rest = zip(columns.headers, columns.timestamps, sources, strict=True)
            for index, (headers, timestamp, source) in enumerate(rest):
                if any(key is None for key, _ in headers):
                    raise RefusedBatchError(
                        f"the record from {source} has a header without a key, which no topic can "
                        "have"
                    )
                verdict = turned_away.get(index)
                if verdict is None:
                    kept.append(
                        _Record(new_keys[index], new_values[index], headers, timestamp, source)
                    )
                else:
                    record = _Record(keys[index], values[index], headers, timestamp, source)
                    self._turn_away(verdict, record, partition)
            self.counts[Outcome.ACCEPTED.value] += len(kept)
            accepted = (self._accepted, partition)
            self._keep(accepted, kept)
            touched = [accepted]
            if self._rejected is not None:
                touched.append((self._rejected, partition % self._rejected.partitions))
            yield partition, touched

    def _sources(self, arrays: Mapping[str, pa.Array], start: int, end: int) -> list[BatchSource]:
        count = end - start

        def column(name: str, missing: Any) -> list[Any]:
            array = arrays.get(f"from_{name}")
            if array is None:
                return [missing] * count
            return [missing if entry is None else entry for entry in array[start:end].to_pylist()]

        return [
            BatchSource(*place)
            for place in zip(
                column("topic", self._accepted.topic),
                column("partition", _NOWHERE),
                column("offset", _NOWHERE),
                strict=True,
            )
        ]

    def _turn_away(self, verdict: PolicyVerdict, record: _Record, partition: int) -> None:
        self.counts[verdict.outcome.value] += 1
        if verdict.outcome not in REJECTED:
            return
        if self._rejected is None:
            raise RefusedRecordsError(
                f"topic {self._accepted.topic}, partition {partition}: a record is "
                f"{verdict.outcome.value} by {verdict.policy}: {verdict.code} {verdict.message}; "
                "nothing of the batch is written (option rejected names a topic for dead letters)"
            )
        here = Origin(*record.source, record.timestamp)
        letter = record._replace(
            headers=[
                *own_headers(record.headers),
                *self._reasons.of_record(verdict, record.headers, here),
            ],
            timestamp=int(self._clock() * 1000),
        )
        self._keep((self._rejected, partition % self._rejected.partitions), [letter])

    def _keep(self, where: tuple[Target, int], records: list[_Record]) -> None:
        if records:
            self._waiting.setdefault(where, []).extend(records)
            self._sizes[where] += sum(record.size for record in records)

    def _written(self, where: tuple[Target, int]) -> Iterator[OutgoingBatch]:
        records = self._waiting.pop(where, [])
        self._sizes.pop(where, None)
        target, partition = where

        def encoded(start: int, end: int) -> bytes:
            keys, values, headers, timestamps, _ = zip(*records[start:end], strict=True)
            base = timestamps[0]
            listed = ([(key, value) for key, value in own] for own in headers)
            section = build(base, timestamps, keys, values, listed)
            header = NewHeader(self._codec, base, max(timestamps))
            return encode(header, section, end - start, fast=True)

        return fitting(
            target, partition, len(records), encoded, lambda index: records[index].source
        )


def _binary(column: pa.Array | None, count: int) -> pa.Array:
    if column is None:
        return pa.nulls(count, pa.binary())
    return column if column.type == pa.binary() else column.cast(pa.binary())


@lru_cache(maxsize=_KEYS_CACHED)
def _partition_of(key: bytes) -> int:
    """Return the number that the Java client's partitioner takes modulo the partitions."""
    return int(murmur2(key)) & _POSITIVE
