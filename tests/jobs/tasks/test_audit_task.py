"""A task of an audit on batches as a broker returns them; no Kafka, no Spark."""

import dataclasses
import random
from types import SimpleNamespace

import pytest

from penstock.engine.path_counts import PathCount
from penstock.jobs.evaluation import Evaluator
from penstock.jobs.report.bounded_counter import BoundedCounter
from penstock.jobs.tasks import audit_task
from penstock.jobs.tasks.audit_task import AuditResult, RangeCounting, merged
from penstock.jobs.tasks.planning import Task
from penstock.jobs.tasks.retention import RangeResult
from penstock.kafka.client.reading.offset_ranges import LostOffsets, WantedRange
from penstock.kafka.cluster.ranges import OffsetRange
from penstock.kafka.records.batch import MAX_RECORDS
from penstock.kafka.records.uncompressed import BatchLimits
from penstock.spark import load_plan
from tests.kafka.client import stored
from tests.kafka.client.random_log import random_log
from tests.kafka.client.selection import selection
from tests.kafka.records.conftest import reading
from tests.kafka.records.encoding import encode_batch, encode_stored, values

__all__ = ["reading"]

pytestmark = pytest.mark.unit
POLICY = """
from penstock.policy import *
class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        assert topic.topic_id_partition.topic == "t"
        if record.value == b"bad": raise InvalidRecordException("bad is not good")
class NoGood(RecordValidationPolicy):
    def validate(self, topic, record):
        if record.value == b"good": raise InvalidRecordException("good is not bad")
"""


@pytest.fixture
def evaluator(tmp_path):
    """Policies by the name of their class."""
    (tmp_path / "raw_policies.py").write_text(POLICY)

    def load(name="NoBad"):
        file = tmp_path / f"{name}.properties"
        file.write_text(
            "upstream.bootstrap.servers=localhost:9092\n"
            f"record.validation.policy.class.name=raw_policies.{name}\n"
            "topics.t.record.validation.policy=any\n"
        )
        return Evaluator(load_plan(file))

    return load


def log(*batches, aborted=(), merged_within=None):
    """Read from a log that is one response."""

    def read(range_, on_lost):
        data = memoryview(b"".join(batches))
        return selection(data, range_.first, range_.end, aborted, merged_within).batches

    return read


def counted(read, *evaluators, ranges=((0, 100),), **options):
    counting = RangeCounting(read, list(evaluators), **options)
    for first, end in ranges:
        for _ in counting.add(WantedRange("t", 1, first, end)):
            pass
    return AuditResult.decode(counting.result().encode())


def good_and_bad(base=0):
    return encode_batch(values(b"good", b"bad", b"good", b"bad"), base_offset=base)


def test_verdicts_are_counted(evaluator):
    found = counted(log(good_and_bad(), good_and_bad(4)), evaluator())
    assert dict(found.counts.outcomes) == {"accepted": 4, "refused": 4}
    [(reason, count)] = found.counts.reasons.items()
    assert (reason.code, reason.message, count) == (87, "bad is not good", 4)
    assert [sample.offset for sample in found.counts.samples[reason]] == [1, 3, 5, 7]
    assert found.ranges == [RangeResult(OffsetRange("t", 1, 0, 100))]


def test_only_records_of_the_range_are_judged(evaluator):
    read = log(good_and_bad(), good_and_bad(4))
    ranges = [(1, 2), (3, 5), (5, 5)]
    found = counted(read, evaluator(), ranges=ranges)
    assert dict(found.counts.outcomes) == {"accepted": 1, "refused": 2}
    each = [counted(read, evaluator(), ranges=[range_]).counts for range_ in ranges]
    assert [counts.judged for counts in each] == [1, 2, 0]


def test_two_plans_in_one_pass(evaluator):
    found = counted(log(good_and_bad()), evaluator(), evaluator("NoGood")).counts
    assert dict(found.comparison) == {("accepted", "refused"): 2, ("refused", "accepted"): 2}
    assert (found.newly_refused.total(), found.newly_accepted.total()) == (2, 2)


def test_paths_of_policies_are_counted_in_each_task(tmp_path):
    file = tmp_path / "p.properties"
    file.write_text(
        "upstream.bootstrap.servers=localhost:9092\npolicies=mask\n"
        "policies.mask.type=RedactJsonFields\npolicies.mask.fields=card.number,cards.*.number\n"
        "topics.t.penstock.policies=mask\n"
    )
    redacting = Evaluator(load_plan(file))
    read = log(encode_batch(values(b'{"card":{"number":1}}', b"{}")))
    results = [counted(read, redacting).encode() for _ in range(2)]
    found = AuditResult.decode(merged(results)).counts.paths

    assert found.counts() == [
        PathCount("mask", "card.number", 4, 2), PathCount("mask", "cards.*.number", 4, 0),
    ]  # fmt: skip
    assert counted(log(), redacting).counts.paths.counts() == []


def test_a_damaged_batch_fails_and_the_next_is_read(evaluator):
    damaged = bytearray(good_and_bad(4))
    damaged[-1] ^= 1
    found = counted(log(good_and_bad(), bytes(damaged), good_and_bad(8)), evaluator())
    assert dict(found.counts.outcomes) == {"accepted": 4, "refused": 4, "failed": 4}
    [reason] = [name for name, _ in found.counts.reasons.items() if name.outcome == "failed"]
    assert (reason.code, "corrupt" in reason.message) == (2, True)
    assert found.counts.samples[reason][0].offset == 4


def test_of_a_damaged_batch_only_the_records_of_the_range_fail(evaluator):
    damaged = bytearray(good_and_bad(0))
    damaged[-1] ^= 1
    found = counted(log(bytes(damaged)), evaluator(), ranges=[(0, 1), (1, 4)])
    assert dict(found.counts.outcomes) == {"failed": 4}


def test_a_batch_that_is_too_large_fails(evaluator):
    counting = RangeCounting(log(encode_batch(values(bytes(200)), codec="lz4")), [evaluator()], 99)
    list(counting.add(WantedRange("t", 1, 0, 100)))
    assert dict(counting.result().counts.outcomes) == {"failed": 1}


def test_the_file_may_allow_larger_batches_than_there_are_by_default(tmp_path):
    file = tmp_path / "penstock.properties"
    for file_limit, expected in ((1 << 20, 128 << 20), (1 << 30, 1 << 30)):
        file.write_text(
            f"upstream.bootstrap.servers=localhost:9092\ndecompressed.batch.max.bytes={file_limit}\n"
        )
        assert load_plan(file).max_decompressed_bytes == expected


def test_a_batch_that_compaction_emptied_has_no_records(evaluator):
    found = counted(log(stored.empty(0, 5), good_and_bad(5)), evaluator())
    assert found.counts.judged == 4


@pytest.mark.cases(16)
@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize("seed", range(30))
def test_small_batches_that_are_judged_together_have_the_same_verdicts(evaluator, seed):
    """With the same samples, times, ranges and comparisons as batches that are judged each."""
    stored, chance = random_log(seed), random.Random(seed)
    middle = chance.randrange(stored.end)
    given = {"ranges": [(0, middle), (middle, stored.end)]}
    plans = [evaluator(), evaluator("NoGood")][: chance.choice((1, 2))]
    each = counted(log(*stored.batches, aborted=stored.aborted), *plans, merges=False, **given)
    assert len(each.counts.outcomes) > 1
    for merged_within in (None, BatchLimits(1 << 26, 100_000)):
        read = log(*stored.batches, aborted=stored.aborted, merged_within=merged_within)
        found = counted(read, *plans, **given)
        assert found.ranges == each.ranges
        assert compared(found.counts) == compared(each.counts)


def compared(counts):
    """Return counts without the order in which they were counted."""
    found = {field.name: getattr(counts, field.name) for field in dataclasses.fields(counts)}
    return {
        name: dict(value.items()) if isinstance(value, BoundedCounter) else value
        for name, value in found.items()
    } | {"times": counts.times.__dict__}


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize("merged_within", [None, BatchLimits(1 << 26, 100_000)])
def test_samples_of_merged_batches_have_their_offsets(evaluator, merged_within):
    small = [
        encode_stored(values(b"good", b"bad"), base_offset=first) for first in (3, 5, 7, 20, 22)
    ]
    found = counted(log(*small, merged_within=merged_within), evaluator())
    [samples] = found.counts.samples.values()
    assert [(sample.partition, sample.offset) for sample in samples] == [
        (1, 4), (1, 6), (1, 8), (1, 21), (1, 23),
    ]  # fmt: skip
    [partition] = found.counts.partitions.values()
    assert (partition.first_refused, partition.last_refused) == (4, 23)


def test_small_batches_are_judged_with_others(evaluator):
    judged = []

    class Judge:
        def judge_records(self, topic, partition, records):
            judged.append(records.count)
            return evaluator().judge_records(topic, partition, records)

        def take_path_counts(self):
            return []

    small = [encode_batch(values(b"good"), base_offset=n) for n in range(30)]
    assert counted(log(*small), Judge()).counts.judged == 30
    assert judged == [30]


@pytest.mark.parametrize(
    ("sizes", "merges"), [((1,), True), ((1, 1), True), ((2,), False), ((1, 2), False)]
)
def test_several_records_for_a_records_policy_are_those_of_a_stored_batch(
    tmp_path, monkeypatch, sizes, merges
):
    """Where it is given several records at a time, they are those of one stored batch."""
    file = tmp_path / "penstock.properties"
    file.write_text("upstream.bootstrap.servers=localhost:9092\n")
    plans = [load_plan(file, records_policy_batch=size) for size in sizes]
    within, counting = [], []

    def read(connection, wanted, *, on_lost, merged_within):
        within.append(merged_within)
        return ()

    class Counting(RangeCounting):
        def __init__(self, *given, merges):
            counting.append(merges)
            super().__init__(*given, merges=merges)

    monkeypatch.setattr(audit_task, "RangeReader", read)
    monkeypatch.setattr(audit_task, "RangeCounting", Counting)
    task = audit_task.AuditTask(SimpleNamespace(connect=lambda: None), *plans)
    [found] = [*filter(None, task(Task((OffsetRange("t", 1, 0, 9),))))]
    assert AuditResult.decode(found).ranges == [RangeResult(OffsetRange("t", 1, 0, 9))]
    assert counting == [merges]
    assert within == [BatchLimits(plans[0].max_decompressed_bytes, MAX_RECORDS) if merges else None]


def test_lost_offsets_are_reported(evaluator):
    def read(range_, on_lost):
        on_lost(LostOffsets("t", 1, 0, 7))
        return log(good_and_bad(7))(range_, on_lost)

    assert counted(read, evaluator()).ranges == [
        RangeResult(OffsetRange("t", 1, 0, 100), (OffsetRange("t", 1, 0, 7),))
    ]


def test_results_are_merged(evaluator):
    parts = [counted(log(good_and_bad(base)), evaluator()) for base in (0, 8)]
    found = AuditResult.decode(merged(part.encode() for part in parts))
    assert dict(found.counts.outcomes) == {"accepted": 4, "refused": 4}
    assert found.ranges == [part.ranges[0] for part in parts]
