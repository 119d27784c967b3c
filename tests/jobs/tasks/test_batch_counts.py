"""Verdicts on stored batches, counted in groups: the same as record by record."""

import random

import pytest

from penstock.engine.verdict import ACCEPTED, dropped, refused_record
from penstock.jobs.report.counts import AuditCounts, Reason, Records
from penstock.jobs.report.hints import header_keys, key_prefix
from penstock.jobs.report.times import HOUR_MS, hour_of
from penstock.jobs.tasks.batch_counts import StoredCounts
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import Header, Record
from tests.kafka.records.encoding import encode_batch

pytestmark = pytest.mark.unit
HOUR = 490_000 * HOUR_MS
VERDICTS = [
    refused_record("bad", "p.P"),
    refused_record(None, "p.P"),
    refused_record("bad", "p.Q"),
    dropped("p.D"),
]


def record(timestamp, key=None, headers=()):
    return Record(timestamp, key, b"v", headers)


def stored(records, base=100, **fields):
    data = encode_batch(records, base_offset=base, **fields)
    return read_stored_batch(data, max_decompressed_bytes=2**20)


def reason(verdict):
    if verdict is ACCEPTED:
        return Reason("t", "accepted")
    return Reason("t", verdict.outcome.value, verdict.policy, verdict.code, verdict.message)


def one_by_one(batch, records, verdicts, others):
    """Return the counts of a batch as `AuditCounts` has them."""
    counts = AuditCounts()
    for position, (offset, record) in enumerate(zip(batch.offsets, records, strict=True)):
        verdict = dict(verdicts).get(position, ACCEPTED)
        hints = (header_keys(h.key for h in record.headers), key_prefix(record.key))
        counts.add(
            Records(
                reason(verdict), 3, hour_of(record.timestamp), 1, offset, offset,
                *((None, None) if verdict is ACCEPTED else hints),
                None if others is None else reason(dict(others).get(position, ACCEPTED)),
            )
        )  # fmt: skip
    return counts


def some_of(count, share, draw):
    found = [(i, draw.choice(VERDICTS)) for i in range(count) if draw.random() < share]
    draw.shuffle(found)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0, 0.02, 0.5, 1])
@pytest.mark.parametrize("compared", [False, True])
def test_groups_are_counted_as_their_records(share, compared):
    draw = random.Random(7)
    for _ in range(20):
        records = [
            record(
                draw.choice([HOUR, HOUR + 5, HOUR + HOUR_MS, -1, 10**18]),
                draw.choice([None, b"", b"shop-1", b"7"]),
                draw.choice([(), (Header("source", b"pos"), Header("x", None))]),
            )
            for _ in range(draw.choice([1, 5, 60]))
        ]
        batch = stored(records)

        verdicts = some_of(len(records), share, draw)
        others = some_of(len(records), share, draw) if compared else None
        counting = StoredCounts()
        counting.add("t", 3, batch, verdicts, others)
        assert counting.counts() == one_by_one(batch, records, verdicts, others)


def test_the_time_of_the_broker_is_that_of_all_records():
    batch = stored([record(HOUR), record(HOUR)], attributes=0x08)
    counting = StoredCounts()
    counting.add("t", 0, batch, [(0, VERDICTS[0])])
    found = counting.counts().times
    assert sum(group.total() for group in found.bins.values()) == 2
    assert batch.is_log_append_time


def test_many_groups_are_counted_in_bounded_memory(monkeypatch):
    monkeypatch.setattr("penstock.jobs.tasks.batch_counts._GROUPS_MAX", 10)
    counting = StoredCounts()
    batch = stored([record(HOUR)] * 8)
    for number in range(50):
        verdicts = [(i, refused_record(f"{number}-{i}", "p.P")) for i in range(8)]
        counting.add("t", 0, batch, verdicts)
        assert len(counting._groups) <= 18
    counts = counting.counts()
    assert (counts.judged, counts.outcomes["refused"], len(counts.reasons)) == (400, 400, 400)


def test_records_of_a_batch_that_cannot_be_read_fail():
    counting = StoredCounts()
    counting.add_unreadable(Reason("t", "failed", "", 2, "it is damaged"), 4, 70, 30)
    counts = counting.counts()
    assert (counts.outcomes["failed"], counts.times.without_time["failed"]) == (30, 30)
    [partition] = counts.partitions.values()
    assert (partition.first_refused, partition.last_refused) == (70, 99)
