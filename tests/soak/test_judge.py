"""The judge finds violations of guarantees, and no other events."""

import pytest

from tests.soak.judge import SLACK_S, STANDSTILL_S, judge, standstill
from tests.soak.producer_reports import ProducerReport, read_reports
from tests.soak.producers import IDEMPOTENT, PLAIN, TRANSACTIONAL, Producer
from tests.soak.records import DEAD_PARTITIONS, Stored
from tests.soak.topic_names import (
    INTERCEPTED,
    JUDGED,
    MARKED,
    OBSERVED,
    QUARANTINED,
    TRANSACTIONS,
)

GOOD = Producer("p", "any", IDEMPOTENT, JUDGED, "g")


def sent_by(kind, mix="g", topic=INTERCEPTED):
    return Producer("p", "any", kind, topic, mix)


def reported(*events):
    """Return a report of events: (event, numbers, time), all in the first run."""
    lines = [f"p\t1\t{event}\t{numbers}\t{at}\twhy\n" for event, numbers, at in events]
    return read_reports(lines, ["p"])["p"]


def acknowledged(*numbers):
    return reported(*(("acknowledged", number, number) for number in numbers))


def stored(*numbers, letter="g", partition=0, run=1, sent_at=0.0, epoch=None):
    return [Stored(partition, letter, "p", run, number, sent_at, epoch) for number in numbers]


def found(producer, report, records):
    return dict(judge(producer, report, records).findings)


@pytest.mark.parametrize("kind", [PLAIN, IDEMPOTENT, TRANSACTIONAL])
def test_a_correct_run_has_no_findings(kind):
    assert found(sent_by(kind), acknowledged(0, 1, 2), stored(0, 1, 2)) == {}


@pytest.mark.parametrize("kind", [PLAIN, IDEMPOTENT])
def test_a_lost_record_is_a_finding(kind):
    account = judge(sent_by(kind), acknowledged(0, 1, 2), stored(0, 2))

    assert account.findings == {"acknowledged and lost": 1}
    assert account.examples == {"acknowledged and lost": ["1"]}


def test_a_lost_record_of_a_committed_transaction_is_a_finding():
    report = reported(("committed", "0-2", 1))

    assert found(sent_by(TRANSACTIONAL), report, stored(0, 2)) == {"acknowledged and lost": 1}


@pytest.mark.parametrize("letter", ["b", "n"])
@pytest.mark.parametrize("event", ["refused", "unknown", None])
@pytest.mark.parametrize("kind", [PLAIN, IDEMPOTENT, TRANSACTIONAL])
def test_a_stored_bad_record_is_a_finding(letter, event, kind):
    report = reported((event, 0, 1)) if event else ProducerReport()

    problems = found(sent_by(kind, letter, JUDGED), report, stored(0, letter=letter))

    assert problems == {"stored though it is bad": 1}


def test_an_acknowledged_bad_record_is_a_finding():
    assert found(sent_by(PLAIN, "b"), acknowledged(0), []) == {"acknowledged though it is bad": 1}


def test_a_stored_refused_record_is_a_finding():
    problems = found(sent_by(IDEMPOTENT, "gb"), reported(("refused", 0, 1)), stored(0))

    assert problems == {"refused and stored": 1}


def test_a_refused_record_may_be_stored_by_an_earlier_attempt_of_a_plain_producer():
    account = judge(sent_by(PLAIN, "gb"), reported(("refused", 0, 1)), stored(0))

    assert account.findings == {}
    assert account.counts["stored by an earlier attempt"] == 1


def test_a_stored_record_that_should_be_dropped_is_a_finding():
    producer = sent_by(IDEMPOTENT, "d")

    assert found(producer, acknowledged(0), []) == {}
    assert found(producer, acknowledged(0), stored(0, letter="d")) == {
        "stored though it was to be dropped": 1
    }


def test_an_unchanged_record_that_should_be_changed_is_a_finding():
    producer = sent_by(IDEMPOTENT, "c")

    assert found(producer, acknowledged(0), stored(0, letter="C")) == {}
    assert found(producer, acknowledged(0), stored(0, letter="c")) == {
        "stored as it was, though it was to be changed": 1
    }


def test_a_changed_record_that_should_be_unchanged_is_a_finding():
    assert found(GOOD, acknowledged(0), stored(0, letter="C")) == {
        "stored with another content than was sent": 1
    }


def test_observed_records_are_stored_unchanged():
    producer = sent_by(IDEMPOTENT, "gbndc", OBSERVED)
    records = [Stored(0, letter, "p", 1, number, 0.0) for number, letter in enumerate("gbndc")]

    assert found(producer, acknowledged(0, 1, 2, 3, 4), records) == {}
    assert found(producer, acknowledged(0, 1, 2, 3, 4), records[:3] + records[4:]) == {
        "acknowledged and lost": 1
    }


def test_a_record_stored_twice_is_a_finding():
    assert found(sent_by(IDEMPOTENT), acknowledged(0, 1), stored(0, 1, 1)) == {"stored twice": 1}


def test_a_plain_producer_may_store_twice():
    account = judge(sent_by(PLAIN), acknowledged(0, 1), stored(0, 1, 1))

    assert account.findings == {}
    assert account.counts["doubled"] == 1


def test_an_idempotent_producer_may_store_twice_after_an_error():
    report = reported(("refused", 0, 10), ("acknowledged", 1, 12))

    account = judge(sent_by(IDEMPOTENT, "bg"), report, stored(1, 1, sent_at=9.5))

    assert account.findings == {}
    assert account.counts["doubled after an error"] == 1


def test_within_an_epoch_no_record_is_stored_twice_even_after_an_error():
    report = reported(("refused", 0, 10), ("acknowledged", 1, 12))
    first, second = (stored(1, sent_at=9.5, epoch=(4000, epoch)) for epoch in (0, 1))

    assert found(sent_by(IDEMPOTENT, "bg"), report, first + second) == {}
    assert found(sent_by(IDEMPOTENT, "bg"), report, first + first) == {
        "stored twice under one epoch": 1
    }


@pytest.mark.parametrize(("sent_at", "at"), [(10 + SLACK_S + 1, 30), (4, 5)])
def test_an_error_at_another_time_does_not_permit_duplicates(sent_at, at):
    report = reported(("refused", 0, 10), ("acknowledged", 1, at))
    records = stored(1, 1, sent_at=sent_at)

    assert found(sent_by(IDEMPOTENT, "bg"), report, records) == {"stored twice": 1}


@pytest.mark.parametrize(("sent_at", "problems"), [(9, {}), (20, {"refused and stored": 1})])
def test_an_error_before_a_record_was_sent_does_not_permit_storing_it_after_a_refusal(
    sent_at, problems
):
    report = reported(("refused", 0, 10), ("refused", 1, 21))

    assert found(sent_by(IDEMPOTENT, "bg"), report, stored(1, sent_at=sent_at)) == problems


@pytest.mark.parametrize("kind", [PLAIN, IDEMPOTENT, TRANSACTIONAL])
def test_a_refusal_without_a_bad_record_is_a_finding(kind):
    report = reported(("acknowledged", 0, 1), ("refused", 1, 2))

    assert found(sent_by(kind, "gd"), report, stored(0)) == {"refused though nothing is bad": 1}


def test_a_refusal_of_an_observed_record_is_a_finding():
    report = reported(("refused", 0, 1))

    assert found(sent_by(IDEMPOTENT, "b", OBSERVED), report, []) == {
        "refused though nothing is bad": 1
    }


def test_a_good_record_may_be_refused_with_a_bad_record():
    assert found(sent_by(PLAIN, "gb"), reported(("refused", 0, 1), ("refused", 1, 1)), []) == {}


def test_a_standstill_is_a_finding():
    report = reported(("acknowledged", 0, 10), ("unknown", 1, 60), ("acknowledged", 2, 100))

    assert standstill(report, 0, 110) == 90
    assert standstill(report, 0, 500) == 400
    assert standstill(reported(("unknown", 0, 5)), 0, 70) == 70
    assert STANDSTILL_S > 60


def test_a_transaction_stores_no_record_twice_even_after_an_error():
    report = reported(("aborted", "0-1", 1), ("committed", "2-3", 2))

    assert found(sent_by(TRANSACTIONAL), report, stored(2, 3, 3)) == {"stored twice": 1}


@pytest.mark.parametrize("kind", [IDEMPOTENT, TRANSACTIONAL])
def test_records_out_of_order_are_a_finding(kind):
    account = judge(sent_by(kind), acknowledged(0, 1, 2), stored(0, 2, 1))

    assert account.findings == {"out of order": 1}


def test_order_is_compared_within_a_partition_and_a_run():
    records = [*stored(2, 3), *stored(0, 1, partition=1), *stored(1, run=2)]

    assert found(sent_by(IDEMPOTENT), ProducerReport(), records[:4]) == {}
    assert found(sent_by(IDEMPOTENT), ProducerReport(), [*stored(2), *stored(1, run=2)]) == {}
    assert found(sent_by(IDEMPOTENT), ProducerReport(), stored(3, 2)) == {"out of order": 1}


def test_the_first_duplicate_counts_for_the_order():
    report = reported(("unknown", 9, 0), *(("acknowledged", number, 1) for number in (0, 1, 2)))

    assert found(sent_by(IDEMPOTENT), report, stored(0, 1, 2, 0, 1, 2)) == {}


def test_a_plain_producer_has_no_order():
    assert found(sent_by(PLAIN), acknowledged(0, 1), stored(1, 0)) == {}


def test_a_visible_record_of_an_aborted_transaction_is_a_finding():
    problems = found(sent_by(TRANSACTIONAL), reported(("aborted", "0-1", 1)), stored(1))

    assert problems == {"aborted, and seen by a reader of committed records": 1}


def test_a_record_with_an_unknown_outcome_may_be_stored():
    for records in (stored(0), []):
        assert found(sent_by(IDEMPOTENT), reported(("unknown", 0, 1)), records) == {}


@pytest.mark.parametrize(("records", "problems"), [
    (stored(0, 2), {}), ([], {}), (stored(2), {"a transaction stored in part": 1}),
])  # fmt: skip
def test_a_partly_committed_transaction_with_an_unknown_outcome_is_a_finding(records, problems):
    producer = sent_by(TRANSACTIONAL, "gd", TRANSACTIONS)

    assert found(producer, reported(("unknown", "0-2", 1)), records) == problems


def test_a_record_of_another_run_than_reported_is_a_finding():
    assert found(sent_by(PLAIN), acknowledged(0), stored(0, run=2)) == {
        "stored under another run than was reported": 1
    }


def test_records_without_a_report_are_counted():
    assert judge(GOOD, acknowledged(0), stored(0, 1)).counts["not reported"] == 1


def test_bad_records_in_quarantine_are_dead_letters():
    sent = sent_by(IDEMPOTENT, "gb", QUARANTINED)
    letters = stored(1, 3, letter="b", partition=DEAD_PARTITIONS)
    assert found(sent, acknowledged(0, 1, 2, 3), stored(0, 2) + letters) == {}
    assert found(sent, acknowledged(0, 1, 2, 3), stored(0, 2) + letters[:1]) == {
        "acknowledged and lost": 1
    }
    assert found(sent, acknowledged(0, 1), stored(0) + stored(1, letter="b")) == {
        "in the wrong topic": 1
    }
    assert found(sent, acknowledged(0, 1, 2, 3), stored(0, 2) + letters[::-1]) == {}
    dead = stored(0, partition=DEAD_PARTITIONS)
    assert found(sent, acknowledged(0, 1), dead + letters[:1]) == {"in the wrong topic": 1}
    both = stored(1, letter="b") + letters[:1]
    assert found(sent, acknowledged(1), both) == {"in the wrong topic": 1, "stored twice": 1}
    assert found(sent, reported(("refused", 1, 1)), []) == {"refused though nothing is bad": 1}


def test_bad_records_that_are_marked_are_stored():
    sent = sent_by(IDEMPOTENT, "gb", MARKED)
    assert found(sent, acknowledged(0, 1), stored(0) + stored(1, letter="b")) == {}
    assert found(sent, acknowledged(0, 1), stored(0)) == {"acknowledged and lost": 1}
