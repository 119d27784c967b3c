"""The results of tasks that write: as bytes, and merged. The tasks are in test_writing.py."""

from dataclasses import replace

import pytest

from penstock.engine.verdict import PostponedError, postponed
from penstock.jobs.report.counts import Reason, RecordCounts
from penstock.jobs.tasks.writing_task import UnfinishedRange, WritingResult, WritingTask, merged
from penstock.kafka.cluster.ranges import OffsetRange, Partition
from penstock.policy import RetriableException

pytestmark = pytest.mark.unit


def result(accepted, refused, before=0, removed=0):
    counts = RecordCounts()
    counts.add_outcomes(Partition("t", 0), {"accepted": accepted, "refused": refused})
    counts.add_removed(Partition("t", 0), removed)
    if refused:
        counts.reasons.add(Reason("t", "refused", "p.P", 87, "bad"), refused)
    return WritingResult(counts, before)


def test_a_decoded_result_equals_the_encoded_result():
    written = result(5, 3, before=7, removed=2)
    written.counts.reasons.left_out = 4
    assert WritingResult.decode(written.encode()) == written


def test_results_are_added_up():
    found = WritingResult.decode(
        merged(part.encode() for part in (result(5, 3, 7, 2), result(1, 0), result(0, 2, 1)))
    )
    assert dict(found.counts.outcomes) == {"accepted": 6, "refused": 5}
    assert found.counts.reasons[Reason("t", "refused", "p.P", 87, "bad")] == 5
    assert (found.before, found.counts.removed) == (8, 2)


def of_a_stream(topic, accepted, removed=0, *unfinished):
    counts = RecordCounts()
    counts.add_outcomes(Partition(topic, 0), {"accepted": accepted})
    counts.add_removed(Partition(topic, 0), removed)
    return WritingResult(counts, 0, unfinished)


def test_results_of_a_stream_are_added_up_by_topic():
    stopped, failed = UnfinishedRange("t", 1, 17), UnfinishedRange("u", 0, reason="no leader")
    parts = [
        of_a_stream("t", 5, 2, stopped),
        of_a_stream("t", 1, 3),
        of_a_stream("u", 7, 0, failed),
    ]
    assert [WritingResult.decode(part.encode()) for part in parts] == parts
    found = WritingResult.decode(merged(part.encode() for part in parts))
    assert found.outcomes == {"t": {"accepted": 6}, "u": {"accepted": 7}}
    assert found.removed == {"t": 5}
    assert found.unfinished == (stopped, failed)
    assert found.counts.outcomes == {"accepted": 13}


def test_a_postponed_record_ends_a_job_and_a_stream_retries_it():
    task = WritingTask(None, None, {}, {}, "job", "run", {})
    range_ = OffsetRange("t", 3, 0, 9)
    error = PostponedError(postponed("shop.Registry", RetriableException("away")))
    with pytest.raises(PostponedError):
        task._failed(range_, error)
    (left,) = replace(task, budget_s=5.0)._failed(range_, error).unfinished
    assert left == UnfinishedRange("t", 3, reason="a policy cannot decide now: shop.Registry: away")
