"""Counts as bytes, for the way from a task to the driver. JSON: reading it executes nothing."""

from __future__ import annotations

import base64
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock.engine.path_counts import PathCount
from penstock.jobs.report.counts import (
    AuditCounts,
    PartitionCounts,
    PolicyOutcome,
    Reason,
    RecordCounts,
    Sample,
)
from penstock.kafka.cluster.ranges import Partition

if TYPE_CHECKING:
    from penstock.jobs.report.bounded_counter import BoundedCounter
    from penstock.jobs.report.times import TimeBins


def encode(counts: AuditCounts) -> bytes:
    """Return the counts of an audit as bytes, which `decode` reads."""
    document = {
        **as_document(counts),
        "batches": counts.batches,
        "policies": [[*policy, count] for policy, count in counts.policies.items()],
        "times": _encode_times(counts.times),
        "samples": [
            [reason, [_encode_sample(sample) for sample in samples]]
            for reason, samples in counts.samples.items()
        ],
        "header_keys": _encode_counter(counts.header_keys),
        "key_prefixes": _encode_counter(counts.key_prefixes),
        "compared": [[*outcomes, count] for outcomes, count in counts.comparison.items()],
        "newly_refused": _encode_counter(counts.newly_refused),
        "newly_accepted": _encode_counter(counts.newly_accepted),
        "paths": counts.paths.counts(),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode(data: bytes) -> AuditCounts:
    """Return the counts that `encode` made bytes of."""
    document = json.loads(data)
    counts = AuditCounts()
    add_document(counts, document)
    counts.batches.update(document["batches"])
    for *policy, count in document["policies"]:
        counts.policies[PolicyOutcome(*policy)] = count
    _decode_times(counts.times, document["times"])
    for reason, samples in document["samples"]:
        counts.samples[Reason(*reason)] = [_decode_sample(*sample) for sample in samples]
    for this, other, count in document["compared"]:
        counts.comparison[this, other] = count
    _decode_counter(counts.header_keys, document["header_keys"])
    _decode_counter(counts.key_prefixes, document["key_prefixes"])
    _decode_reasons(counts.newly_refused, document["newly_refused"])
    _decode_reasons(counts.newly_accepted, document["newly_accepted"])
    counts.paths.add(PathCount(*path) for path in document["paths"])
    return counts


def as_document(counts: RecordCounts) -> dict[str, Any]:
    """Return what the counts of all jobs have, for JSON; `add_document` reads it."""
    return {
        "partitions": [
            [
                *partition,
                partition_counts.outcomes,
                partition_counts.removed_offsets,
                partition_counts.first_refused,
                partition_counts.last_refused,
            ]
            for partition, partition_counts in counts.partitions.items()
        ],
        "reasons": _encode_counter(counts.reasons),
    }


def add_document(counts: RecordCounts, document: dict[str, Any]) -> None:
    """Add the counts that `as_document` returned to counts without records."""
    for topic, number, outcomes, *others in document["partitions"]:
        counts.partitions[Partition(topic, number)] = PartitionCounts(Counter(outcomes), *others)
    _decode_reasons(counts.reasons, document["reasons"])


def _encode_counter(counter: BoundedCounter[Any]) -> dict[str, Any]:
    return {"counts": list(counter.items()), "left_out": counter.left_out}


def _decode_counter(counter: BoundedCounter[str], document: dict[str, Any]) -> None:
    for key, count in document["counts"]:
        counter.add(key, count)
    counter.left_out += document["left_out"]


def _decode_reasons(counter: BoundedCounter[Reason], document: dict[str, Any]) -> None:
    for reason, count in document["counts"]:
        counter.add(Reason(*reason), count)
    counter.left_out += document["left_out"]


def _encode_times(times: TimeBins) -> dict[str, Any]:
    return {
        "width": times.width,
        "bins": list(times.bins.items()),
        "without_time": times.without_time,
        "out_of_range": times.out_of_range,
    }


def _decode_times(times: TimeBins, document: dict[str, Any]) -> None:
    times.widen(document["width"])
    for hour, outcomes in document["bins"]:
        times.add_bin(hour, Counter(outcomes))
    times.without_time.update(document["without_time"])
    times.out_of_range.update(document["out_of_range"])


def _encode_sample(sample: Sample) -> list[Any]:
    contents = (sample.key, sample.value)
    texts = [
        None if content is None else base64.b64encode(content).decode("ascii")
        for content in contents
    ]
    return [sample.partition, sample.offset, *texts]


def _decode_sample(partition: int, offset: int, *texts: str | None) -> Sample:
    key, value = (None if text is None else base64.b64decode(text) for text in texts)
    return Sample(partition, offset, key, value)
