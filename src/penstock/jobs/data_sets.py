"""Measures the rules of contracts about all records of a topic together.

A policy of KIP-940 with a method `data_set_rules(topic)` has such rules: `DataContract`. Tasks read
records and return parts of the sums, as bytes. Values that must be unique are distinguished by
digests of 16 bytes: they are not bounded except by the number of values, so they are counted on
disk here, and by Spark there.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from penstock.jobs.evaluation import evaluator_of
from penstock.kafka.client.reading.batches import read_fetched_batch
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.records.errors import UnreadableRecords

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from penstock.jobs.evaluation import Evaluator
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.rows.records import RecordRow
    from penstock.jobs.tasks.planning import Task
    from penstock.jobs.topics.access import ClusterAccess
    from penstock.policies.data_contract.data_set import Contribution, DataSetRule, Totals

_DIGESTS_HELD: Final = 20_000
"""So many digests are given as one part of the sums."""


class RuleKey(NamedTuple):
    """A rule of a topic.

    Attributes:
        policy: The name of the policy.
        number: Of the rule, among those of the policy for the topic.
    """

    topic: str
    policy: str
    number: int


class RuleSum(NamedTuple):
    """A part of the sums of a rule.

    Attributes:
        topic: Of its `RuleKey`, as the next two.
        policy: See there.
        number: See there.
        digest: Of the value that was counted, in hexadecimal digits; empty for any.
        bad: The records with the flaw.
        latest: The latest instant, in ms; None if there is none.
    """

    topic: str
    policy: str
    number: int
    digest: str
    total: int
    bad: int
    latest: int | None

    @property
    def key(self) -> RuleKey:
        """The rule."""
        return RuleKey(self.topic, self.policy, self.number)


def encode(rows: Iterable[RuleSum]) -> bytes:
    """Return rows as bytes, which `decode` reads."""
    return json.dumps(list(rows), separators=(",", ":")).encode()


def decode(data: bytes) -> Iterator[RuleSum]:
    """Yield the rows that `encode` made bytes of."""
    return (RuleSum(*fields) for fields in json.loads(data))


class Measuring:
    """Takes records of topics, and returns parts of the sums."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._now_ms = time.time_ns() // 1_000_000
        self._rules: dict[str, Sequence[tuple[RuleKey, DataSetRule]]] = {}
        self._sums: dict[RuleKey, list[Any]] = {}
        self._digests: list[RuleSum] = []

    def add(
        self, topic: str, values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> bytes | None:
        """Take records of a topic.

        Args:
            values: Of each record; without a value (a tombstone) it is not counted.
            timestamps: Of each, in ms; negative if it has none.

        Returns:
            A part of the sums; None where it is not large enough yet.
        """
        rules = self._rules_of(topic)
        if not rules:
            return None
        import orjson  # noqa: PLC0415 - an extra, which is there where there is a contract

        for value, timestamp in zip(values, timestamps, strict=True):
            if value is None:
                continue
            try:
                row = orjson.loads(value)
            except orjson.JSONDecodeError:
                row = None
            for key, rule in rules:
                self._give(key, rule, row, timestamp)
        return self.rest() if len(self._digests) >= _DIGESTS_HELD else None

    def rest(self) -> bytes | None:
        """Return the part that was not returned yet, or None."""
        rows = [*self._digests, *(RuleSum(*key, "", *sums) for key, sums in self._sums.items())]
        self._digests, self._sums = [], {}
        return encode(rows) if rows else None

    def _give(self, key: RuleKey, rule: DataSetRule, row: Any, timestamp: int) -> None:
        contribution = rule.look(row, timestamp, self._now_ms)
        if contribution.digests:
            self._digests.extend(
                RuleSum(*key, digest.hex(), 1, 0, None) for digest in contribution.digests
            )
        _add(self._sums.setdefault(key, [0, 0, None]), contribution)

    def _rules_of(self, topic: str) -> Sequence[tuple[RuleKey, DataSetRule]]:
        topic_rules = self._rules.get(topic)
        if topic_rules is None:
            topic_rules = self._rules[topic] = [
                (RuleKey(topic, policy, number), rule)
                for policy, rules in self._evaluator.data_set_rules(topic)
                for number, rule in enumerate(rules.rules)
            ]
        return topic_rules


def _add(sums: list[Any], part: Contribution | RuleSum) -> None:
    sums[0] += part.total
    sums[1] += part.bad
    if part.latest is not None:
        sums[2] = part.latest if sums[2] is None else max(sums[2], part.latest)


@dataclass(frozen=True)
class MeasuringTask:
    """Measures the records of a task's ranges; yields parts of the sums.

    Attributes:
        plan: The plan, whose policies have the rules.
    """

    access: ClusterAccess
    plan: RecordPlan

    def __call__(self, task: Task) -> Iterator[bytes | None]:
        """Do a task; yields None while it is at work.

        Raises:
            ConfigurationError: The policies cannot be loaded here, or no connection be made.
            ClientError: The cluster cannot be reached in time, or refuses.
            UnreadableBatchError: The end of a damaged batch is unknown.
        """
        connection, limits = self.access.connect(), self.plan.batch_limits
        measuring = Measuring(evaluator_of(self.plan))
        for offsets in task.wanted(self.plan.topic_ids):
            for fetched in RangeReader(connection, offsets, on_lost=_ignore, merged_within=limits):
                try:
                    batch = read_fetched_batch(
                        fetched, max_decompressed_bytes=limits.decompressed_bytes
                    )
                except UnreadableRecords:  # the audit counts them as failed
                    yield None
                    continue
                records = batch.records
                timestamps = records.timestamps
                if batch.is_log_append_time:
                    timestamps = [batch.max_timestamp] * len(records)
                yield measuring.add(offsets.topic, records.values, timestamps)
        yield measuring.rest()


def measure_files(records: Iterable[RecordRow], plan: RecordPlan, sums: DataSetSums) -> None:
    """Measure the records of files.

    Args:
        records: Of the files.
        plan: The plan, whose policies have the rules.
        sums: Takes the parts of the sums.
    """
    measuring = Measuring(evaluator_of(plan))
    for record in records:
        if record.topic is not None:
            part = measuring.add(record.topic, (record.value,), (record.known_timestamp,))
            sums.add(part)
    sums.add(measuring.rest())


class DataSetSums:
    """Adds parts of sums up in this process; digests are in a file, about 50 bytes for each."""

    def __init__(self) -> None:
        self._sums: dict[RuleKey, list[Any]] = defaultdict(lambda: [0, 0, None])
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-audit-")
        self._numbers: dict[RuleKey, int] = {}
        self._file = sqlite3.connect(Path(self._folder.name) / "digests")
        self._file.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"
            "CREATE TABLE seen (rule INTEGER, digest BLOB, PRIMARY KEY (rule, digest))"
            " WITHOUT ROWID;"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._folder.cleanup()

    def add(self, part: bytes | None) -> None:
        """Take a part of the sums, if there is any."""
        if part is None:
            return
        digests = []
        for row in decode(part):
            if row.digest:
                number = self._numbers.setdefault(row.key, len(self._numbers))
                digests.append((number, bytes.fromhex(row.digest)))
                continue
            _add(self._sums[row.key], row)
        self._file.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?)", digests)

    def totals(self) -> dict[RuleKey, Totals]:
        """Return the sums of each rule."""
        from penstock.policies.data_contract.data_set import Totals  # noqa: PLC0415

        distinct_counts = dict(self._file.execute("SELECT rule, count(*) FROM seen GROUP BY rule"))
        return {
            key: Totals(count, bad, distinct_counts.get(self._numbers.get(key, -1), 0), latest)
            for key, (count, bad, latest) in self._sums.items()
        }


def _ignore(_: object) -> None:
    """Do nothing: the audit itself reports which offsets are lost."""
