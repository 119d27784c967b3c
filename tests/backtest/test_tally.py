"""What a backtest counts."""

import pytest

from penstock.backtest import tally
from penstock.backtest.stored_batches import ReadBatch
from penstock.backtest.tally import (
    CHANGED,
    NOT_JUDGED,
    BacktestReason,
    RecordPosition,
    TopicTally,
    total,
)
from penstock.engine.plans.topic_plan import TopicPlan
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

PLAN = TopicPlan(topic="orders", interceptors=("a.I",), validators=("a.V",), mode="observe")
BATCH = ReadBatch("orders", 3, b"", 4, 100, range(50, 54))


def added(*verdicts, batch=BATCH):
    found = TopicTally()
    for verdict in verdicts:
        found.add(PLAN, batch, verdict)
    return found


def test_a_refused_batch_counts_all_records_and_its_reasons_count_the_bad_records():
    errors = [RecordError(1, "no", "a.V"), RecordError(3, "never", "a.W")]
    found = added(ACCEPTED, refused_records(errors))
    assert found.records == {"accepted": 4, "refused": 4}
    assert found.batches == {"accepted": 1, "refused": 1}
    assert found.policies == {("a.V", "refused"): 4}
    assert dict(found.reasons.items()) == {
        BacktestReason("a.V", "refused", "no"): 1, BacktestReason("a.W", "refused", "never"): 1,
    }  # fmt: skip
    assert found.places[BacktestReason("a.V", "refused", "no")] == RecordPosition(3, 51)
    assert (found.judged, found.share) == (8, 0.5)


def test_the_reason_of_a_batch_that_is_refused_as_a_whole_counts_all_records():
    found = added(refused(44, "too many", "a.R"), failed("a.V", "raised"))
    assert found.reasons[BacktestReason("a.R", "refused", "too many")] == 4
    assert found.places[BacktestReason("a.R", "refused", "too many")] == RecordPosition(3, 50)
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
    assert found.records == records
    assert found.batches == batches
    assert set(found.policies) == {("a.I", outcome) for outcome in records}
    assert found.share == 0


def test_records_that_were_not_judged_count_against_no_policy():
    found = added(not_judged("a.V", "the gateway stops"))
    found.unreadable(BATCH)
    assert found.records == {NOT_JUDGED: 8}
    assert (found.judged, found.share) == (0, 0.0)
    assert not found.policies
    assert not found.places


def test_reasons_are_bounded_and_so_are_their_places(monkeypatch):
    monkeypatch.setattr(tally, "REASONS_KEPT", 3)
    found = TopicTally()
    for number in range(100):
        found.add(PLAN, BATCH, refused_records([RecordError(0, f"no {number}", "a.V")]))
    assert found.reasons.total() == 100
    assert len(found.reasons) <= 6
    assert set(found.places) <= {reason for reason, _ in found.reasons.items()}


def test_an_index_beyond_the_batch_is_not_an_error():
    found = added(refused_records([RecordError(9, "no", "a.V")]))
    assert found.places[BacktestReason("a.V", "refused", "no")] == RecordPosition(3, 53)


def test_all_topics_together():
    found = total({"a": added(ACCEPTED), "b": added(refused(44, "no", "a.V"))})
    assert found.records == {"accepted": 4, "refused": 4}
    assert found.share == 0.5
