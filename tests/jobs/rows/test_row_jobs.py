"""Jobs over rows: the sink and the headers of each record."""

from collections import Counter

import pytest

from penstock.configuration import ConfigurationError
from penstock.engine.chain import RecordVerdicts
from penstock.engine.modes.dead_letters import Attempts
from penstock.engine.verdict import dropped, refused
from penstock.jobs.batches.letter_topics import LetterTopics
from penstock.jobs.rows import judged_rows
from penstock.jobs.rows.judged_rows import runs
from penstock.jobs.rows.records import RecordRow
from penstock.jobs.rows.row_jobs import (
    counted,
    find_letters,
    redact_rows,
    redrive_rows,
    split_rows,
)
from penstock.policy import Header
from tests.jobs.batches.letters import spring

BAD = refused(87, "bad", "p.NoBad")


class Upper:
    """Refuses `bad`, drops `drop`, and writes others in capitals."""

    def __init__(self):
        self.seen = []

    def digest(self, topic):
        return "0123456789ab"

    def judge_records(self, topic, partition, columns):
        self.seen += [
            (topic, partition, timestamp, headers)
            for timestamp, headers in zip(columns.timestamps, columns.headers, strict=True)
        ]
        verdicts = {b"bad": BAD, b"drop": dropped("p.Upper")}
        found = [
            (index, verdicts[value])
            for index, value in enumerate(columns.values)
            if value in verdicts
        ]
        return RecordVerdicts(found, (columns.keys, [value.upper() for value in columns.values]))


def row(value, partition=0, offset=0, headers=(), topic="t", timestamp=5):
    return RecordRow(topic, partition, offset, timestamp, 0, b"k", value, tuple(headers))


def headers_of(record):
    return {key: value for key, value in record.headers if key not in {"own", "__penstock.policy"}}


def test_split():
    counts = Counter()
    rows = [row(b"a"), row(b"bad", 1, 7, [Header("own", b"1")]), row(b"drop"), row(b"b", 2)]
    found = list(counted(split_rows(rows, Upper()), counts))
    assert [(sink, record.value, record.partition) for sink, record in found] == [
        ("accepted", b"A", 0),
        ("rejected", b"bad", 1),
        ("accepted", b"B", 2),
    ]
    assert counts == {"accepted": 2, "refused": 1, "dropped": 1}
    assert headers_of(found[1][1]) == {
        "__dlq.errors.topic": b"t", "__dlq.errors.partition": b"1", "__dlq.errors.offset": b"7",
        "__dlq.errors.message": b"bad", "__penstock.message": b"bad", "__penstock.code": b"87",
        "__penstock.outcome": b"refused", "__penstock.timestamp": b"5", "__penstock.replays": b"0",
        "__dlq.plan": b"0123456789ab",
    }  # fmt: skip


def test_missing_columns_of_a_file_are_null_in_headers():
    unknown = row(b"bad", None, None, topic=None, timestamp=None)
    [(_, letter)] = counted(split_rows([unknown], Upper()), Counter())
    headers = headers_of(letter)
    names = ("__dlq.errors.topic", "__dlq.errors.partition", "__dlq.errors.offset",
             "__penstock.timestamp")  # fmt: skip
    assert [headers[name] for name in names] == [None] * 4


def test_redact_leaves_out_what_was_not_accepted():
    counts = Counter()
    rows = redact_rows([row(b"a"), row(b"bad"), row(b"drop")], Upper())
    found = list(counted(rows, counts))
    assert [record.value for _, record in found] == [b"A"]
    assert counts == {"accepted": 1, "refused": 1, "dropped": 1}


def letter(value, replays=0):
    return row(value, 3, 9, [
        Header("own", b"1"), Header("__dlq.errors.topic", b"first"),
        Header("__dlq.errors.partition", b"1"), Header("__dlq.errors.offset", b"77"),
        Header("__penstock.timestamp", b"1000"), Header("__penstock.replays", b"%d" % replays),
    ])  # fmt: skip


@pytest.mark.parametrize("timestamp", [-(2**62), 2**63 - 1])
def test_redrive_returns_a_record_with_its_timestamp_whatever_it_is(timestamp):
    far = letter(b"a")
    headers = [
        Header(name, b"%d" % timestamp if name == "__penstock.timestamp" else value)
        for name, value in far.headers
    ]
    policies = Upper()
    [(_, outcome, returned)] = redrive_rows(
        [far._replace(headers=tuple(headers))], policies, target="back",
        topics=LetterTopics(), others_to=None, attempts=Attempts.of("dead", 2),
    )  # fmt: skip
    assert outcome == "returned"
    assert returned.timestamp == timestamp
    assert policies.seen == [("back", 1, timestamp, (Header("own", b"1"),))]


@pytest.mark.parametrize(("target", "judged_as"), [("back", "back"), (None, "first")])
def test_redrive(target, judged_as):
    counts, policies = Counter(), Upper()
    letters = [letter(b"a"), letter(b"bad"), letter(b"bad", 1), letter(b"drop"), letter(b"a", 2)]
    rows = redrive_rows(
        letters,
        policies,
        target=target,
        topics=LetterTopics(("first",)),
        others_to=None,
        attempts=Attempts.of("dead", 2),
    )
    found = list(counted(rows, counts))
    assert set(policies.seen) == {(judged_as, 1, 1000, (Header("own", b"1"),))}
    assert [(sink, record.value) for sink, record in found] == [
        ("returned", b"A"), ("again", b"bad"), ("parked", b"bad"), ("parked", b"a"),
    ]  # fmt: skip
    assert counts == {"returned": 1, "again": 1, "parked": 2, "dropped": 1}
    returned, again = found[0][1], found[1][1]
    assert (returned.topic, returned.partition, returned.timestamp) == (judged_as, 1, 1000)
    assert returned.headers == (
        Header("own", b"1"), Header("__penstock.replays", b"1"),
        Header("__penstock.timestamp", b"1000"),
    )  # fmt: skip
    assert (again.partition, again.timestamp) == (3, 1000)
    headers = headers_of(again)
    assert headers["__dlq.errors.topic"] == b"first"
    assert headers["__dlq.errors.partition"] == b"1"
    assert headers["__dlq.errors.offset"] == b"77"
    assert headers["__penstock.replays"] == b"1"


@pytest.mark.parametrize("others_to", ["again", None])
def test_letters_of_other_topics_and_records_that_are_none_stay(others_to):
    counts, policies = Counter(), Upper()
    other = spring("payments", 2, 7, 1000, b"k", b"bad")
    rows = [
        letter(b"a"), row(b"bad", headers=other.headers), row(b"none"), letter(b"drop"),
        row(b"b", headers=spring("first", 2, 7, 2000, b"k", b"b").headers, timestamp=9),
    ]  # fmt: skip
    topics = LetterTopics(("fir*",))
    outgoing = redrive_rows(
        rows, policies, target="back", topics=topics, others_to=others_to,
        attempts=Attempts.of("dead", 2),
    )  # fmt: skip
    found = list(counted(outgoing, counts))
    stay = [(sink, record) for sink, record in found if sink != "returned"]
    assert stay == ([] if others_to is None else [("again", rows[1]), ("again", rows[2])])
    assert counts == {"returned": 2, "dropped": 1}
    last = found[-1][1]
    assert (last.value, last.partition, last.timestamp) == (b"B", 2, 2000)
    assert [header.key for header in last.headers] == ["own", "own", "__penstock.replays",
                                                       "__penstock.timestamp"]  # fmt: skip
    letters = find_letters(rows, topics)
    assert (letters.returning, letters.others, letters.strangers) == (3, {"payments": 1}, 1)
    with pytest.raises(
        ConfigurationError, match=r"1 records are not dead letters .* t-0, offset 0"
    ):
        letters.check("--from dead")


def test_runs_are_of_one_partition_and_bounded(monkeypatch):
    monkeypatch.setattr(judged_rows, "_ROWS_MAX", 3)
    monkeypatch.setattr(judged_rows, "_BYTES_MAX", 100)
    some = [row(b"a")] * 4 + [row(b"a", 1)] + [row(b"x" * 60)] * 3 + [row(b"a", topic="u")]
    assert [(run[0].topic, run[0].partition, len(run)) for run in runs(some)] == [
        ("t", 0, 3), ("t", 0, 1), ("t", 1, 1), ("t", 0, 2), ("t", 0, 1), ("u", 0, 1),
    ]  # fmt: skip
    assert list(runs([])) == []
