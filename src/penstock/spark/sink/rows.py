"""Rows of a frame become batches for brokers: judged, and gathered by partition of the target."""

from __future__ import annotations

import time
from collections import Counter
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from penstock.configuration import ConfigurationError
from penstock.engine.modes.dead_letters import LetterHeaders, Origin, of_plan
from penstock.engine.verdict import REJECTED, Outcome, PolicyVerdict
from penstock.jobs.batches.gathered_records import GatheredRecord, GatheredRecords, partition_for
from penstock.kafka.client.protocol.produced_batches import BatchSource
from penstock.policy import Header
from penstock.spark.execution.failures import SparkError
from penstock.spark.frames.arrow_records import ArrowRecords, runs
from penstock.spark.source.rows import TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from penstock.engine.chain import RecordVerdicts
    from penstock.engine.columns import RecordColumns
    from penstock.jobs.batches.targets import OutgoingBatch, Target

    Judge = Callable[[int, RecordColumns], RecordVerdicts]

_BY_LOWER: Final = {name.lower(): name for name in TYPES}
_TEXTS: Final = frozenset({"key", "value"})
_NOWHERE: Final = -1
_TIMESTAMP: Final = pa.timestamp("us", "UTC")


class RefusedRecordsError(SparkError):
    """A policy refuses a record, and there is no place for dead letters."""


def column_of(name: str) -> str:
    """Return the name of a column of Kafka's as `TYPES` has it: case does not matter in Spark.

    Others are returned as they are.
    """
    return _BY_LOWER.get(name.lower(), name)


def check_columns(columns: Iterable[tuple[str, str]]) -> None:
    """Check the columns of a frame that is written.

    Args:
        columns: Their names in any case, and Spark's types.

    Raises:
        ConfigurationError: There is no value, a column is there twice, is not one of Kafka's, or
            of another type.
    """
    types: dict[str, str] = {}
    for given_name, kind in columns:
        name = column_of(given_name)
        if name in types:
            raise ConfigurationError(f'format("penstock"): the frame has two columns {name}')
        types[name] = kind
    if "value" not in types:
        raise ConfigurationError('format("penstock"): the frame has no column value')
    for name, spark_type in types.items():
        required_type = TYPES.get(name)
        if required_type is None:
            raise ConfigurationError(
                f'format("penstock") writes no column {name}; there are {", ".join(TYPES)}: '
                "select those, or drop it"
            )
        is_text = name in _TEXTS and spark_type == "string"
        if not is_text and spark_type.replace(" ", "") != required_type.replace(" ", ""):
            raise ConfigurationError(f"column {name} is {spark_type}; it has to be {required_type}")


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
        digest: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set the work.

        Args:
            accepted: Where accepted records are written.
            rejected: Where dead letters are written; None to fail with the first.
            judge: Returns the verdicts on records of a partition; None to judge nothing.
            codec: Kafka's number of the compression codec.
            task: The number of the task: records without a key are spread by it.
            digest: That of the plan by which it judges; empty if it is unknown.
            clock: Returns seconds since the epoch.
        """
        self._accepted = accepted
        self._rejected = rejected
        self._judge = judge
        self._spread = task
        self._clock = clock
        self._reasons = LetterHeaders()
        self._of_plan = tuple(starmap(Header, of_plan(digest)))
        self._waiting = GatheredRecords(codec=codec)
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
        for _ in self._judged(self._arrays(batch)):
            yield from self._waiting.full()

    def rest(self) -> Iterator[OutgoingBatch]:
        """Return the waiting records."""
        return self._waiting.rest()

    def _arrays(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the columns, ordered by the partition of the target that records go to."""
        count = len(batch)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        arrays = {
            "key": _binary(columns.get("key"), count),
            "value": _binary(columns["value"], count),
        }
        if "timestamp" in columns:
            arrays["timestamp"] = columns["timestamp"].cast(_TIMESTAMP)
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
        numbers = columns["partition"].to_pylist() if "partition" in columns else [None] * len(keys)
        self._spread += 1
        return [
            partition_for(number, key, spread=self._spread, partitions=count)
            for number, key in zip(numbers, keys.to_pylist(), strict=True)
        ]

    def _judged(self, arrays: dict[str, pa.Array]) -> Iterator[None]:
        """Judge rows and keep them, a partition at a time."""
        now = int(self._clock() * 1000)
        rows = ArrowRecords(arrays, no_time=now)
        for start, end, _, partition in runs(self._accepted.topic, arrays["partition"]):
            columns = rows.columns(start, end)
            sources = self._sources(arrays, start, end)
            record_verdicts = None if self._judge is None else self._judge(partition, columns)
            turned_away = dict(record_verdicts.verdicts) if record_verdicts else {}
            keys, values = list(columns.keys), list(columns.values)
            new_keys, new_values = keys, values
            if record_verdicts is not None and record_verdicts.replaced is not None:
                new_keys, new_values = map(list, record_verdicts.replaced)
            accepted_records = []
            rest = zip(columns.headers, columns.timestamps, sources, strict=True)
            for index, (headers, timestamp, source) in enumerate(rest):
                verdict = turned_away.get(index)
                if verdict is None:
                    key, value = new_keys[index], new_values[index]
                    accepted_records.append(GatheredRecord(key, value, headers, timestamp, source))
                else:
                    key, value = keys[index], values[index]
                    record = GatheredRecord(key, value, headers, timestamp, source)
                    self._turn_away(verdict, record, partition)
            self.counts[Outcome.ACCEPTED.value] += len(accepted_records)
            self._waiting.add(self._accepted, partition, accepted_records)
            yield

    def _sources(self, arrays: Mapping[str, pa.Array], start: int, end: int) -> list[BatchSource]:
        count = end - start

        def column(name: str, default: Any) -> list[Any]:
            array = arrays.get(f"from_{name}")
            if array is None:
                return [default] * count
            return [default if entry is None else entry for entry in array[start:end].to_pylist()]

        return [
            BatchSource(*place)
            for place in zip(
                column("topic", self._accepted.topic),
                column("partition", _NOWHERE),
                column("offset", _NOWHERE),
                strict=True,
            )
        ]

    def _turn_away(self, verdict: PolicyVerdict, record: GatheredRecord, partition: int) -> None:
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
            headers=(*self._reasons.with_own(verdict, record.headers, here), *self._of_plan),
            timestamp=int(self._clock() * 1000),
        )
        self._waiting.add(self._rejected, partition % self._rejected.partitions, [letter])


def _binary(column: pa.Array | None, count: int) -> pa.Array:
    if column is None:
        return pa.nulls(count, pa.binary())
    return column if column.type == pa.binary() else column.cast(pa.binary())
