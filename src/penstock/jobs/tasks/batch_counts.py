"""Counts the verdicts on stored batches, in groups of records with equal properties."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.engine.verdict import ACCEPTED, Outcome
from penstock.jobs.report.counts import SAMPLES_MAX, AuditCounts, Reason, Records, reason_of
from penstock.jobs.report.hints import header_keys, key_prefix
from penstock.jobs.report.times import hour_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.verdict import PolicyVerdict
    from penstock.kafka.records.stored import StoredRecords

    Verdicts = Sequence[tuple[int, PolicyVerdict]]

_GROUPS_MAX: Final = 20_000
"""So many groups are held until they are counted."""
_FEW: Final = 8
"""If fewer than one in so many records is needed, contents are read one by one, not by column."""
_Group = tuple[Reason, int, int | None, str | None, str | None, Reason | None]
"""Reason, partition, hour, keys of headers, prefix of the key, and the other plan's reason."""


@dataclass(slots=True)
class _Numbers:
    """Of a group. Its records mostly come in the order of their offsets; in files they may not."""

    first: int
    last: int
    count: int = 0
    samples: list[int] = field(default_factory=list)

    def add_before(self, offset: int) -> None:
        """Take a record with a lower offset than others that came."""
        lowest = sorted((self.first, *self.samples, offset))
        self.first, self.samples = lowest[0], lowest[1 : SAMPLES_MAX + 1]


class CountedBatch(Protocol):
    """The part of a `StoredBatch`, or of records of a file, that is counted."""

    @property
    def records(self) -> Any:
        """Records with the columns of `StoredRecords`, and its method `part`."""

    @property
    def offsets(self) -> Sequence[int]:
        """The offset of each record."""

    @property
    def is_log_append_time(self) -> bool:
        """Whether all records have the time `max_timestamp`."""

    @property
    def max_timestamp(self) -> int:
        """See there."""


class StoredCounts:
    """Counts records of stored batches."""

    def __init__(self) -> None:
        self._counts = AuditCounts()
        self._groups: dict[_Group, _Numbers] = {}

    def add(
        self,
        topic: str,
        partition: int,
        batch: CountedBatch,
        verdicts: Verdicts,
        others: Verdicts | None = None,
    ) -> None:
        """Count the records of a batch.

        Args:
            batch: With at least one record.
            verdicts: On the records that are not accepted, by position, in any order.
            others: Likewise, of a plan to compare with; None without such a plan.
        """
        hours = _hours(batch)
        accepted = Reason(topic, Outcome.ACCEPTED.value)
        other = None if others is None else accepted
        accepted_hours = (
            Counter(hours) if isinstance(hours, list) else Counter({hours: len(batch.records)})
        )
        if verdicts or others:
            unaccepted_hours = self._judged(topic, partition, batch, hours, dict(verdicts), others)
            accepted_hours.subtract(unaccepted_hours)
        for hour, count in accepted_hours.items():
            if count:
                self._add((accepted, partition, hour, None, None, other), count, -1, -1)
        if len(self._groups) > _GROUPS_MAX:
            self._count_groups()

    def add_unreadable(self, reason: Reason, partition: int, first: int, count: int) -> None:
        """Count the records of a batch that cannot be read.

        Args:
            reason: Why.
            first: Its first offset.
            count: How many records it has by its header.
        """
        self._add((reason, partition, None, None, None, None), count, first, first + count - 1)

    def counts(self) -> AuditCounts:
        """Return the counts of all that was added."""
        self._count_groups()
        return self._counts

    def _judged(
        self,
        topic: str,
        partition: int,
        batch: CountedBatch,
        hours: list[int | None] | int | None,
        verdicts: Mapping[int, PolicyVerdict],
        others: Verdicts | None,
    ) -> Iterable[int | None]:
        """Count what one of the plans does not accept; return the hours of these records."""
        other_of = dict(others or ())
        positions = sorted(verdicts.keys() | other_of.keys())
        offsets = batch.offsets
        record_hours = []
        for position, hints in zip(positions, _hints(batch.records, positions), strict=True):
            verdict = verdicts.get(position, ACCEPTED)
            hour = hours[position] if isinstance(hours, list) else hours
            keys, prefix = (None, None) if verdict is ACCEPTED else hints
            other = None
            if others is not None:
                other = _reason(topic, other_of.get(position, ACCEPTED))
            group = (_reason(topic, verdict), partition, hour, keys, prefix, other)
            self._add(group, 1, offsets[position], offsets[position])
            record_hours.append(hour)
        return record_hours

    def _add(self, group: _Group, count: int, first: int, last: int) -> None:
        numbers = self._groups.get(group)
        if numbers is None:
            self._groups[group] = numbers = _Numbers(first, last)
        elif first < numbers.last:
            numbers.add_before(first)
        elif len(numbers.samples) < SAMPLES_MAX:
            numbers.samples.append(first)
        numbers.count += count
        numbers.last = max(numbers.last, last)

    def _count_groups(self) -> None:
        for group, counts in self._groups.items():
            reason, partition, hour, keys, prefix, other = group
            samples = tuple(counts.samples)
            numbers = (counts.count, counts.first, counts.last)
            self._counts.add(
                Records(reason, partition, hour, *numbers, keys, prefix, other, samples)
            )
        self._groups.clear()


def _reason(topic: str, verdict: PolicyVerdict) -> Reason:
    if verdict.outcome is Outcome.ACCEPTED:
        return Reason(topic, Outcome.ACCEPTED.value)
    return reason_of(topic, verdict)


def _hours(batch: CountedBatch) -> list[int | None] | int | None:
    """Return the hour of all records of a batch, or of each."""
    if batch.is_log_append_time:
        return hour_of(batch.max_timestamp)
    timestamps = batch.records.timestamps
    first = hour_of(min(timestamps))
    return first if first == hour_of(max(timestamps)) else list(map(hour_of, timestamps))


def _hints(records: StoredRecords, positions: Sequence[int]) -> Iterable[tuple[str, str]]:
    if not positions:
        return repeat(("", ""), 0)
    if len(positions) * _FEW > len(records):
        return [_hint(records, position) for position in positions]
    return [_hint(records.part(position, position + 1), 0) for position in positions]


def _hint(records: Any, position: int) -> tuple[str, str]:
    keys = header_keys(key for key, _ in records.headers[position])
    return keys, key_prefix(records.keys[position])
