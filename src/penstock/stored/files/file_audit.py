"""Audits the records of files in this process, as `penstock.stored.jobs.audit` does topics."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final, Self

from penstock.engine.columns import Columns
from penstock.report.counts import Sample
from penstock.stored.tasks.batch_counts import StoredCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.policy import Header
    from penstock.report.counts import AuditCounts
    from penstock.stored.evaluation import Evaluator
    from penstock.stored.files.file_records import FileRecord

_ROWS: Final = 10_000


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
    def of(cls, some: Sequence[FileRecord]) -> Self:
        """Return records in the order of their offsets."""
        _, _, offsets, timestamps, keys, values, headers = zip(
            *sorted(some, key=lambda record: record.offset), strict=True
        )
        return cls(offsets, timestamps, keys, values, headers)

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
    records: Iterable[FileRecord],
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
    counts, records = StoredCounts(), iter(records)
    while some := list(islice(records, _ROWS)):
        for (topic, partition), run in groupby(
            some, key=lambda record: (record.topic, record.partition)
        ):
            batch = FileRecords.of(list(run))
            columns = Columns(len(batch), batch.timestamps, batch.keys, batch.values, batch.headers)
            verdicts, *others = (
                evaluator.judge_records(topic, partition, columns).verdicts
                for evaluator in evaluators
            )
            counts.add(topic or "", partition, batch, verdicts, *others)
        on_read(len(some))
    return counts.counts()


def add_file_payloads(
    records: Iterable[FileRecord], counts: AuditCounts, max_bytes: int = 256
) -> None:
    """Read the contents of the samples; at most `max_bytes` bytes of each key and value.

    Args:
        records: Of the same files.
        counts: Whose samples are completed.
        max_bytes: Of each key and value.
    """
    wanted = defaultdict(list)
    for reason, samples in counts.samples.items():
        for index, sample in enumerate(samples):
            wanted[reason.topic, sample.partition, sample.offset].append((samples, index))
    for record in records if wanted else ():
        for samples, index in wanted.pop((record.topic or "", record.partition, record.offset), ()):
            samples[index] = Sample(
                record.partition,
                record.offset,
                None if record.key is None else record.key[:max_bytes],
                None if record.value is None else record.value[:max_bytes],
            )
