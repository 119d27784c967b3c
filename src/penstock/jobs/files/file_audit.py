"""Audits the records of files in this process, as `penstock.jobs.audit` does topics."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from penstock.engine.columns import Columns
from penstock.jobs.report.counts import Sample
from penstock.jobs.rows.judged_rows import runs
from penstock.jobs.tasks.batch_counts import StoredCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.jobs.evaluation import Evaluator
    from penstock.jobs.report.counts import AuditCounts
    from penstock.jobs.rows.records import RecordRow
    from penstock.policy import Header


@dataclass(frozen=True)
class FileRecords:
    """Consecutive records of one partition in a file.

    Attributes:
        offsets: Of each record.
        timestamps: In ms; -1 for none.
        keys: Of each record.
        values: Of each record.
        headers: Of each record.
    """

    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[tuple[Header, ...]]
    is_log_append_time = False
    max_timestamp = -1

    @classmethod
    def of(cls, some: Sequence[RecordRow]) -> Self:
        """Return records in the order of their offsets."""
        ordered = sorted(some, key=lambda record: record.known_offset)
        return cls(
            [record.known_offset for record in ordered],
            [record.known_timestamp for record in ordered],
            [record.key for record in ordered],
            [record.value for record in ordered],
            [record.headers for record in ordered],
        )

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def records(self) -> Self:
        """The records."""
        return self

    def part(self, start: int, end: int) -> Self:
        """Return some of the records."""
        fields = (self.offsets, self.timestamps, self.keys, self.values, self.headers)
        return type(self)(*(column[start:end] for column in fields))  # type: ignore[arg-type]


def audit_files(
    records: Iterable[RecordRow],
    evaluators: Sequence[Evaluator],
    on_read: Callable[[int], object],
) -> AuditCounts:
    """Judge records and count the verdicts.

    Args:
        records: Of files.
        evaluators: The policies, and those to compare them with if there are any.
        on_read: Called with numbers of records that were judged.

    Returns:
        The counts, bounded as in `AuditCounts`.
    """
    counts = StoredCounts()
    for run in runs(records):
        topic, partition, batch = run[0].topic, run[0].known_partition, FileRecords.of(run)
        columns = Columns(len(batch), batch.timestamps, batch.keys, batch.values, batch.headers)
        verdicts, *others = (
            evaluator.judge_records(topic, partition, columns).verdicts for evaluator in evaluators
        )
        counts.add(topic or "", partition, batch, verdicts, *others)
        on_read(len(run))
    audit_counts = counts.counts()
    audit_counts.paths.add(evaluators[0].take_path_counts())
    return audit_counts


def add_file_payloads(
    records: Iterable[RecordRow], counts: AuditCounts, max_bytes: int = 256
) -> None:
    """Read the contents of the samples; at most `max_bytes` bytes of each key and value.

    Args:
        records: Of the same files.
        counts: Whose samples are completed.
        max_bytes: Of each key and value.
    """
    samples_by_place = defaultdict(list)
    for reason, samples in counts.samples.items():
        for index, sample in enumerate(samples):
            samples_by_place[reason.topic, sample.partition, sample.offset].append((samples, index))
    for record in records if samples_by_place else ():
        for samples, index in samples_by_place.pop(_place_of(record), ()):
            samples[index] = Sample(
                record.known_partition,
                record.known_offset,
                None if record.key is None else record.key[:max_bytes],
                None if record.value is None else record.value[:max_bytes],
            )


def _place_of(record: RecordRow) -> tuple[str, int, int]:
    return record.topic or "", record.known_partition, record.known_offset
