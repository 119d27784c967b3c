"""`penstock check`: what it prints of a backtest, and the times it takes."""

from datetime import UTC, datetime

import pytest

from penstock.backtest.stored_batches import ReadBatch
from penstock.backtest.tally import TopicTally
from penstock.cli.check import moment
from penstock.cli.checks.check_since import lines_of
from penstock.configuration import ConfigurationError
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, RecordError, refused_records

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
PLAN = TopicPlan(topic="orders", validators=("a.V",), mode="observe")
BATCH = ReadBatch("orders", 3, b"", 4, 100, range(50, 54))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1h", "2026-01-31T11:00:00+00:00"),
        ("90m", "2026-01-31T10:30:00+00:00"),
        ("30s", "2026-01-31T11:59:30+00:00"),
        ("7d", "2026-01-24T12:00:00+00:00"),
        ("2026-01-31T10:00:00", "2026-01-31T10:00:00+00:00"),
        ("2026-01-31T10:00:00+02:00", "2026-01-31T10:00:00+02:00"),
        ("2026-01-30", "2026-01-30T00:00:00+00:00"),
    ],
)
def test_times(text, expected):
    assert moment(text, NOW).isoformat() == expected


@pytest.mark.parametrize(
    "text", ["", "1", "h", "-1h", "1.5h", "1w", "yesterday", "999999999d", "2026-02-01T00:00:00"]
)
def test_what_is_no_time_of_the_past_is_wrong_use(text):
    with pytest.raises(ConfigurationError, match="--since"):
        moment(text, NOW)


def shown(*verdicts, plan=PLAN):
    tally = TopicTally()
    for one in verdicts:
        tally.add(plan, BATCH, one)
    return list(lines_of("orders", plan, tally))


def test_a_topic_of_which_nothing_would_be_refused_says_so():
    assert shown(ACCEPTED) == [
        "topic orders, observed: 4 records in 1 batch",
        "            4 would be stored as they are (100.00%)",
        "            0 would be refused (0.00%)",
    ]


def test_what_would_be_refused_by_whom_and_why():
    verdict = refused_records([RecordError(2, "no", "a.V")])
    assert shown(ACCEPTED, ACCEPTED, ACCEPTED, verdict) == [
        "topic orders, observed: 16 records in 4 batches",
        "           12 would be stored as they are (75.00%)",
        "            4 would be refused (25.00%), in 1 batch",
        "            4   by a.V",
        "  reasons, and the records to blame",
        "            1 a.V: no  (the first seen at 3:52)",
    ]


def test_a_message_cannot_write_to_the_terminal():
    text = "\n".join(shown(refused_records([RecordError(0, "\x1b[2J\rok\nok", "a.V")])))
    assert "\x1b" not in text
    assert "\r" not in text
    assert "ok\n" not in text


def test_there_is_an_end_to_reasons():
    errors = [RecordError(n, f"no {n}", "a.V") for n in range(50)]
    lines = shown(refused_records(errors))
    assert lines[-1] == "           40 for other reasons"
    assert len(lines) < 20
