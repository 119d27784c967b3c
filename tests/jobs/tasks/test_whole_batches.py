"""What the verdicts on whole batches count."""

import pytest

from penstock.engine.verdict import (
    ACCEPTED,
    Outcome,
    RecordError,
    failed,
    not_judged,
    refused,
    refused_records,
    replaced,
)
from penstock.jobs.report.bounded_counter import BoundedCounter
from penstock.jobs.report.counts import NOT_JUDGED, AuditCounts, PolicyOutcome, Reason, Sample
from penstock.jobs.tasks.whole_batches import CHANGED, count_batch, count_unjudged
from penstock.jobs.topics.excerpt_reading import ReadBatch

BATCH = ReadBatch("orders", 3, b"", 4, 100, range(50, 54))


def added(*verdicts, reasons_kept=100):
    found = AuditCounts(reasons=BoundedCounter(reasons_kept))
    for verdict in verdicts:
        count_batch(found, BATCH, verdict, "a.I")
    return found


def reason(policy, message, *, outcome="refused", code=87):
    return Reason("orders", outcome, policy, code, message)


def test_a_refused_batch_counts_all_records_and_its_reasons_count_the_bad_records():
    errors = [RecordError(1, "no", "a.V"), RecordError(3, "never", "a.W")]
    found = added(ACCEPTED, refused_records(errors))
    assert found.outcomes == {"accepted": 4, "refused": 4}
    assert found.batches == {"accepted": 1, "refused": 1}
    assert found.policies == {PolicyOutcome("orders", "a.V", "refused"): 4}
    assert dict(found.reasons.items()) == {
        reason("a.V", "no"): 1, reason("a.W", "never"): 1,
    }  # fmt: skip
    assert found.samples[reason("a.V", "no")] == [Sample(3, 51)]
    assert (found.judged, found.share) == (8, 0.5)


def test_the_reason_of_a_batch_that_is_refused_as_a_whole_counts_all_records():
    found = added(refused(44, "too many", "a.R"), failed("a.V", "raised"))
    assert found.reasons[reason("a.R", "too many", code=44)] == 4
    assert found.samples[reason("a.R", "too many", code=44)] == [Sample(3, 50)]
    assert found.share == 1.0


@pytest.mark.parametrize(
    ("verdict", "records", "batches"),
    [
        (replaced(b"x", [0, 2]), {Outcome.DROPPED: 2, CHANGED: 2}, {CHANGED: 1}),
        (replaced(b"x", []), {CHANGED: 4}, {CHANGED: 1}),
        (replaced(b"", [0, 1, 2, 3]), {Outcome.DROPPED: 4}, {Outcome.DROPPED: 1}),
    ],
)
def test_the_outcomes_of_interceptors_are_counted(verdict, records, batches):
    found = added(verdict)
    assert found.outcomes == records
    assert found.batches == batches
    assert set(found.policies) == {PolicyOutcome("orders", "a.I", outcome) for outcome in records}
    assert not len(found.reasons)
    assert found.share == 0


def test_records_that_were_not_judged_count_against_no_policy():
    found = added(not_judged("a.V", "the gateway stops"))
    count_unjudged(found, BATCH)
    assert found.outcomes == {NOT_JUDGED: 8}
    assert (found.judged, found.share) == (0, 0.0)
    assert not found.policies
    assert not found.samples


def test_reasons_are_bounded_and_so_are_their_samples():
    found = added(
        *(refused_records([RecordError(0, f"no {number}", "a.V")]) for number in range(100)),
        reasons_kept=3,
    )
    assert found.reasons.total() == 100
    assert len(found.reasons) <= 6
    assert set(found.samples) <= {kept for kept, _ in found.reasons.items()}


def test_an_index_beyond_the_batch_is_not_an_error():
    found = added(refused_records([RecordError(9, "no", "a.V")]))
    assert found.samples[reason("a.V", "no")] == [Sample(3, 53)]


def test_counts_are_merged():
    found = added(ACCEPTED)
    found.merge(added(refused(44, "no", "a.V")))
    assert found.outcomes == {"accepted": 4, "refused": 4}
    assert found.batches == {"accepted": 1, "refused": 1}
    assert found.share == 0.5
