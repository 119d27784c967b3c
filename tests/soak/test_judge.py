"""The judge finds what should never be, and nothing else."""

import pytest

from tests.soak.judge import SLACK_S, STANDSTILL_S, judge, standstill
from tests.soak.producers import IDEMPOTENT, PLAIN, TRANSACTIONAL, Producer
from tests.soak.records import DEAD_PARTITIONS, Stored
from tests.soak.told import Told, told_by
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


def told(*events):
    """Take in what was told: (event, numbers, time), all in the first run."""
    lines = [f"p\t1\t{event}\t{numbers}\t{at}\twhy\n" for event, numbers, at in events]
    return told_by(lines, ["p"])["p"]


def acknowledged(*numbers):
    return told(*(("acknowledged", number, number) for number in numbers))


def stored(*numbers, letter="g", partition=0, run=1, sent_at=0.0, epoch=None):
    return [Stored(partition, letter, "p", run, number, sent_at, epoch) for number in numbers]


def found(producer, said, there):
    return dict(judge(producer, said, there).findings)


@pytest.mark.parametrize("kind", [PLAIN, IDEMPOTENT, TRANSACTIONAL])
def test_all_is_well(kind):
    assert found(sent_by(kind), acknowledged(0, 1, 2), stored(0, 1, 2)) == {}


@pytest.mark.parametrize("kind", [PLAIN, IDEMPOTENT])
def test_a_loss(kind):
    account = judge(sent_by(kind), acknowledged(0, 1, 2), stored(0, 2))

    assert account.findings == {"acknowledged and lost": 1}
    assert account.examples == {"acknowledged and lost": ["1"]}


def test_a_loss_in_a_committed_transaction():
    said = told(("committed", "0-2", 1))

    assert found(sent_by(TRANSACTIONAL), said, stored(0, 2)) == {"acknowledged and lost": 1}


@pytest.mark.parametrize("letter", ["b", "n"])
@pytest.mark.parametrize("event", ["refused", "unknown", None])
@pytest.mark.parametrize("kind", [PLAIN, IDEMPOTENT, TRANSACTIONAL])
def test_a_bad_record_that_is_stored(letter, event, kind):
    said = told((event, 0, 1)) if event else Told()

    problems = found(sent_by(kind, letter, JUDGED), said, stored(0, letter=letter))

    assert problems == {"stored though it is bad": 1}


def test_a_bad_record_that_is_acknowledged():
    assert found(sent_by(PLAIN, "b"), acknowledged(0), []) == {"acknowledged though it is bad": 1}


def test_a_refused_record_that_is_stored():
    problems = found(sent_by(IDEMPOTENT, "gb"), told(("refused", 0, 1)), stored(0))

    assert problems == {"refused and stored": 1}


def test_a_refused_record_may_be_stored_by_an_earlier_attempt_of_a_plain_producer():
    account = judge(sent_by(PLAIN, "gb"), told(("refused", 0, 1)), stored(0))

    assert account.findings == {}
    assert account.counts["stored by an earlier attempt"] == 1


def test_a_record_that_was_to_be_dropped():
    producer = sent_by(IDEMPOTENT, "d")

    assert found(producer, acknowledged(0), []) == {}
    assert found(producer, acknowledged(0), stored(0, letter="d")) == {
        "stored though it was to be dropped": 1
    }


def test_a_record_that_was_to_be_changed():
    producer = sent_by(IDEMPOTENT, "c")

    assert found(producer, acknowledged(0), stored(0, letter="C")) == {}
    assert found(producer, acknowledged(0), stored(0, letter="c")) == {
        "stored as it was, though it was to be changed": 1
    }


def test_a_record_that_is_changed_and_was_not_to_be():
    assert found(GOOD, acknowledged(0), stored(0, letter="C")) == {
        "stored with another content than was sent": 1
    }


def test_what_is_observed_is_stored_as_it_was_sent():
    producer = sent_by(IDEMPOTENT, "gbndc", OBSERVED)
    there = [Stored(0, letter, "p", 1, number, 0.0) for number, letter in enumerate("gbndc")]

    assert found(producer, acknowledged(0, 1, 2, 3, 4), there) == {}
    assert found(producer, acknowledged(0, 1, 2, 3, 4), there[:3] + there[4:]) == {
        "acknowledged and lost": 1
    }


def test_a_record_that_is_stored_twice():
    assert found(sent_by(IDEMPOTENT), acknowledged(0, 1), stored(0, 1, 1)) == {"stored twice": 1}


def test_a_plain_producer_may_store_twice():
    account = judge(sent_by(PLAIN), acknowledged(0, 1), stored(0, 1, 1))

    assert account.findings == {}
    assert account.counts["doubled"] == 1


def test_an_idempotent_producer_may_store_twice_after_an_error():
    said = told(("refused", 0, 10), ("acknowledged", 1, 12))

    account = judge(sent_by(IDEMPOTENT, "bg"), said, stored(1, 1, sent_at=9.5))

    assert account.findings == {}
    assert account.counts["doubled after an error"] == 1


def test_under_one_epoch_nothing_is_stored_twice_even_after_an_error():
    said = told(("refused", 0, 10), ("acknowledged", 1, 12))
    first, second = (stored(1, sent_at=9.5, epoch=(4000, epoch)) for epoch in (0, 1))

    assert found(sent_by(IDEMPOTENT, "bg"), said, first + second) == {}
    assert found(sent_by(IDEMPOTENT, "bg"), said, first + first) == {
        "stored twice under one epoch": 1
    }


@pytest.mark.parametrize(("sent_at", "at"), [(10 + SLACK_S + 1, 30), (4, 5)])
def test_an_error_at_another_time_is_no_reason_to_store_twice(sent_at, at):
    said = told(("refused", 0, 10), ("acknowledged", 1, at))
    there = stored(1, 1, sent_at=sent_at)

    assert found(sent_by(IDEMPOTENT, "bg"), said, there) == {"stored twice": 1}


@pytest.mark.parametrize(("sent_at", "problems"), [(9, {}), (20, {"refused and stored": 1})])
def test_an_error_before_it_was_sent_is_no_reason_why_a_refused_record_is_stored(sent_at, problems):
    said = told(("refused", 0, 10), ("refused", 1, 21))

    assert found(sent_by(IDEMPOTENT, "bg"), said, stored(1, sent_at=sent_at)) == problems


@pytest.mark.parametrize("kind", [PLAIN, IDEMPOTENT, TRANSACTIONAL])
def test_a_refusal_where_nothing_is_bad(kind):
    said = told(("acknowledged", 0, 1), ("refused", 1, 2))

    assert found(sent_by(kind, "gd"), said, stored(0)) == {"refused though nothing is bad": 1}


def test_a_refusal_of_what_is_only_observed():
    said = told(("refused", 0, 1))

    assert found(sent_by(IDEMPOTENT, "b", OBSERVED), said, []) == {
        "refused though nothing is bad": 1
    }


def test_a_good_record_may_be_refused_with_a_bad_one():
    assert found(sent_by(PLAIN, "gb"), told(("refused", 0, 1), ("refused", 1, 1)), []) == {}


def test_a_standstill():
    said = told(("acknowledged", 0, 10), ("unknown", 1, 60), ("acknowledged", 2, 100))

    assert standstill(said, 0, 110) == 90
    assert standstill(said, 0, 500) == 400
    assert standstill(told(("unknown", 0, 5)), 0, 70) == 70
    assert STANDSTILL_S > 60


def test_a_transaction_stores_nothing_twice_whatever_happened():
    said = told(("aborted", "0-1", 1), ("committed", "2-3", 2))

    assert found(sent_by(TRANSACTIONAL), said, stored(2, 3, 3)) == {"stored twice": 1}


@pytest.mark.parametrize("kind", [IDEMPOTENT, TRANSACTIONAL])
def test_records_out_of_order(kind):
    account = judge(sent_by(kind), acknowledged(0, 1, 2), stored(0, 2, 1))

    assert account.findings == {"out of order": 1}


def test_order_is_that_of_a_partition_and_of_a_run():
    there = [*stored(2, 3), *stored(0, 1, partition=1), *stored(1, run=2)]

    assert found(sent_by(IDEMPOTENT), Told(), there[:4]) == {}
    assert found(sent_by(IDEMPOTENT), Told(), [*stored(2), *stored(1, run=2)]) == {}
    assert found(sent_by(IDEMPOTENT), Told(), stored(3, 2)) == {"out of order": 1}


def test_the_first_time_counts_for_the_order():
    said = told(("unknown", 9, 0), *(("acknowledged", number, 1) for number in (0, 1, 2)))

    assert found(sent_by(IDEMPOTENT), said, stored(0, 1, 2, 0, 1, 2)) == {}


def test_a_plain_producer_has_no_order():
    assert found(sent_by(PLAIN), acknowledged(0, 1), stored(1, 0)) == {}


def test_an_aborted_record_that_is_seen():
    problems = found(sent_by(TRANSACTIONAL), told(("aborted", "0-1", 1)), stored(1))

    assert problems == {"aborted, and seen by a reader of committed records": 1}


def test_what_is_unknown_may_be_stored_or_not():
    for there in (stored(0), []):
        assert found(sent_by(IDEMPOTENT), told(("unknown", 0, 1)), there) == {}


@pytest.mark.parametrize(("there", "problems"), [
    (stored(0, 2), {}), ([], {}), (stored(2), {"a transaction stored in part": 1}),
])  # fmt: skip
def test_a_transaction_of_which_nobody_knows(there, problems):
    producer = sent_by(TRANSACTIONAL, "gd", TRANSACTIONS)

    assert found(producer, told(("unknown", "0-2", 1)), there) == problems


def test_a_record_of_another_run_than_was_told():
    assert found(sent_by(PLAIN), acknowledged(0), stored(0, run=2)) == {
        "stored under another run than was told": 1
    }


def test_what_was_not_told_is_counted():
    assert judge(GOOD, acknowledged(0), stored(0, 1)).counts["not told"] == 1


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
    assert found(sent, told(("refused", 1, 1)), []) == {"refused though nothing is bad": 1}


def test_bad_records_that_are_marked_are_stored():
    sent = sent_by(IDEMPOTENT, "gb", MARKED)
    assert found(sent, acknowledged(0, 1), stored(0) + stored(1, letter="b")) == {}
    assert found(sent, acknowledged(0, 1), stored(0)) == {"acknowledged and lost": 1}
