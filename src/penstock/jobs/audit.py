"""Audits topics on raw batches: tasks read ranges of offsets, judge and count."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.jobs.plan import MAX_DECOMPRESSED_BYTES
from penstock.jobs.report.counts import AuditCounts, Sample
from penstock.jobs.tasks.audit_task import AuditResult, AuditTask, merged
from penstock.jobs.tasks.planning import plan_tasks
from penstock.jobs.tasks.retention import Coverage
from penstock.kafka.client.errors import ClientError, UnreadableBatchError
from penstock.kafka.client.reading.batches import read_fetched_batch
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.records.errors import UnreadableRecords

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.runner import OffsetCounter, Runner
    from penstock.jobs.tasks.planning import Sizes
    from penstock.jobs.topics.access import ClusterAccess
    from penstock.kafka.client.reading.reader import ReadingConnection
    from penstock.kafka.cluster.ranges import OffsetRange

__all__ = ["RawAudit", "add_payloads", "audit_raw"]


class RawAudit(NamedTuple):
    """The result.

    Attributes:
        coverage: The part of the plan that was read.
    """

    counts: AuditCounts
    coverage: Coverage


def audit_raw(
    runner: Runner,
    access: ClusterAccess,
    ranges: Sequence[OffsetRange],
    plan: RecordPlan,
    *,
    other: RecordPlan | None = None,
    sizes: Sizes | None = None,
    counter: OffsetCounter | None = None,
) -> RawAudit:
    """Judge the records of topics and count the verdicts.

    Args:
        runner: Runs tasks.
        access: The cluster, for the tasks.
        ranges: The ranges to read.
        plan: The plan whose verdicts are counted.
        other: A plan to compare it with.
        sizes: How large the records are, as far as that is known.
        counter: Counts the offsets of the tasks that have ended.

    Returns:
        The counts, bounded as in `AuditCounts`.
    """
    tasks = plan_tasks(ranges, cores=runner.cores, sizes=sizes, limit=runner.limit)
    payload = runner.run(tasks, AuditTask(access, plan, other), merged, counter=counter)
    result = AuditResult(AuditCounts(), []) if payload is None else AuditResult.decode(payload)
    coverage = Coverage(tuple(ranges))
    coverage.add(result.ranges)
    return RawAudit(result.counts, coverage)


def add_payloads(cluster: ReadingConnection, counts: AuditCounts, max_bytes: int = 256) -> None:
    """Read the contents of the samples; at most `max_bytes` bytes of each key and value.

    What cannot be read any more stays without.

    Args:
        counts: Whose samples are completed.
        max_bytes: Of each key and value.
    """
    for reason, samples in counts.samples.items():
        samples[:] = [
            next(_contents(cluster, reason.topic, sample, max_bytes), sample) for sample in samples
        ]


def _contents(
    cluster: ReadingConnection, topic: str, sample: Sample, max_bytes: int
) -> Iterator[Sample]:
    sample_range = WantedRange(topic, sample.partition, sample.offset, sample.offset + 1)
    try:
        for fetched in RangeReader(cluster, sample_range, on_lost=_ignore):
            batch = read_fetched_batch(fetched, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)
            records = batch.records
            for key, value in zip(records.keys, records.values, strict=True):
                yield Sample(
                    sample.partition,
                    sample.offset,
                    None if key is None else key[:max_bytes],
                    None if value is None else value[:max_bytes],
                )
    except (ClientError, UnreadableBatchError, UnreadableRecords):
        return


def _ignore(_: object) -> None:
    """A record that is gone has no contents to show."""
