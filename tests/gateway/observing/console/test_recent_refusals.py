"""The table of recent refusals stays bounded, whatever clients send."""

import pytest

from penstock.engine.verdict import RecordError, failed, refused, refused_records
from penstock.gateway.observing.console.recent_refusals import (
    MINUTES_MAX,
    NEW_MAX,
    ROWS_MAX,
    TEXT_MAX,
    RecentRefusals,
    shown,
)
from penstock.gateway.refusal_log import Refused


class Clock:
    at = 1000.0

    def __call__(self):
        return self.at


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def recent(clock):
    return RecentRefusals(clock)


def refusal(message="no", topic="orders", client="app", policy="a.V", *, observed=False, **more):
    verdict = refused(87, message, policy)
    return Refused(topic, 3, client, verdict, is_observed=observed, **{"records": 5, **more})


def test_rows_of_quarantined_records_have_their_dead_letter_topic(recent):
    recent.put(refusal(dead_letter_topic="orders.\u202edead"))
    (row,) = recent.rows()
    assert row.as_json()["dead_letter_topic"] == "orders.\ufffddead"


def test_refusals_with_the_same_reason_share_a_row(recent, clock):
    recent.put(refusal(address="10.0.0.1"))
    clock.at = 1003
    recent.put(refusal(address="10.0.0.2"))
    changed = recent.look()
    recent.put(refusal(principal="User:app"))
    clock.at = 1009
    again = recent.look()

    assert [row.as_json() for row in recent.rows()] == [row.as_json() for row in again]
    assert changed == again
    (row,) = recent.rows()
    assert row.as_json() == {
        "id": 1, "observed": False, "outcome": "refused", "topic": "orders", "partition": 3,
        "policy": "a.V", "code": 87, "message": "no", "client": "app", "principal": "User:app",
        "address": None, "dead_letter_topic": None, "detail": "", "count": 3, "records": 15, "first": 1000.0,
        "last": 1009.0, "minutes": [[16, 3]],
    }  # fmt: skip


def test_a_row_has_the_counts_of_the_last_minutes(recent, clock):
    for minute in range(10):
        clock.at = 1200.0 + 60 * minute
        for _ in range(minute):
            recent.put(refusal())
        recent.look()
    clock.at += 30
    recent.put(refusal())
    recent.look()
    (row,) = recent.rows()
    assert row.as_json()["minutes"] == [[24, 4], [25, 5], [26, 6], [27, 7], [28, 8], [29, 10]]
    assert row.count == 46


def test_minutes_stay_few_when_the_clock_is_set_back(recent, clock):
    for minute in (*range(10), *range(10)):
        clock.at = 1200.0 + 60 * minute
        recent.put(refusal())
        recent.look()
    (row,) = recent.rows()
    assert len(row.minutes) == MINUTES_MAX
    assert list(row.minutes)[-1] == 29


def test_a_row_of_a_broken_policy_has_the_place_of_its_error(recent):
    verdict = failed(
        "a.V", "failed: KeyError", detail="/p/policies.py:7 in validate < \x1b" + "x" * 999
    )
    recent.put(Refused("t", 0, None, verdict))
    (row,) = recent.rows()
    assert row.as_json()["detail"].startswith("/p/policies.py:7 in validate < \ufffdxx")
    assert len(row.as_json()["detail"]) == TEXT_MAX


@pytest.mark.parametrize(
    "other",
    [
        {"message": "yes"},
        {"topic": "x"},
        {"client": None},
        {"policy": "b.V"},
        {"observed": True},
    ],
)
def test_another_reason_is_another_row(recent, other):
    recent.put(refusal())
    recent.put(refusal(**other))

    assert [row.count for row in recent.look()] == [1, 1]


def test_the_reason_of_a_batch_is_that_of_its_first_record(recent):
    errors = [RecordError(4, "too low", "a.V"), RecordError(5, "too high", "a.V")]
    recent.put(Refused("t", 0, None, refused_records(errors)))

    (row,) = recent.rows()
    assert (row.message, row.client_id) == ("too low", None)


def test_rows_are_sorted_by_the_latest_refusal(recent):
    for topic in "abc":
        recent.put(refusal(topic=topic))
    recent.look()
    recent.put(refusal(topic="a"))
    recent.look()

    assert [row.topic for row in recent.rows()] == ["a", "c", "b"]


def test_without_new_refusals_there_are_no_changes(recent):
    recent.put(refusal())
    assert recent.look()
    assert not recent.look()


def test_a_flood_of_reasons_fills_the_rows_and_counts_the_rest(recent):
    for number in range(10_000):
        recent.put(refusal(f"amount {number}"))

    assert len(recent.rows()) == NEW_MAX
    assert recent.others == 10_000 - NEW_MAX
    recent.put(refusal("amount 1"))
    assert [row.count for row in recent.look()][:3] == [1, 2, 1]


def test_a_new_reason_replaces_the_least_recently_seen_reason(recent):
    for number in range(ROWS_MAX):
        recent.put(refusal(str(number)))
        recent.look()
    recent.put(refusal("0"))
    recent.look()
    recent.put(refusal("new"))

    texts = {row.message for row in recent.rows()}
    assert len(texts) == ROWS_MAX
    assert {"0", "new"} <= texts
    assert "1" not in texts


def test_recently_seen_rows_are_not_replaced(recent):
    for number in range(ROWS_MAX):
        recent.put(refusal(str(number)))
        recent.look()
    for number in range(ROWS_MAX):
        recent.put(refusal(str(number)))
    recent.put(refusal("new"))

    assert len(recent.rows()) == ROWS_MAX
    assert recent.others == 1


def test_texts_are_bounded_and_escaped():
    assert shown("x" * 1000) == "x" * (TEXT_MAX - 3) + "..."
    assert shown("a\x1b[2J\u202eb\nc") == "a\ufffd[2J\ufffdb c"
    assert shown("<script>alert(1)</script>") == "<script>alert(1)</script>"


def test_the_memory_of_a_row_is_small(recent):
    errors = [RecordError(number, "x" * 1000, "a.V") for number in range(500)]
    verdict = refused_records(errors)
    recent.put(Refused("t", 0, None, verdict))
    recent.look()

    import gc

    assert not [referrer for referrer in gc.get_referrers(verdict) if isinstance(referrer, Refused)]


def test_texts_that_clients_choose_are_truncated(recent):
    """A client id, and the name of a topic to be created, may have 32,767 bytes each."""
    long = "x" * 30_000
    recent.put(Refused(long, None, long, refused(44, "no", "a.V"), principal=long))
    recent.put(Refused(long, None, long, refused(44, "no", "a.V"), principal=long))

    ((reason, row),) = recent._rows.items()
    kept = [text for text in (*reason, row.principal) if isinstance(text, str)]
    assert max(map(len, kept)) <= TEXT_MAX + 1
    assert row.count == 2
    assert row.client_id == "x" * (TEXT_MAX - 3) + "..."
