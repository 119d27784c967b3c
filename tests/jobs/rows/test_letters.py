"""Rows as dead letters."""

from penstock.engine.modes.dead_letters import PartialOrigin
from penstock.engine.verdict import refused
from penstock.jobs.rows.judged_rows import JudgedRow
from penstock.jobs.rows.letters import DeadLetters, place_of
from penstock.jobs.rows.records import RecordRow
from penstock.policy import Header

BAD = refused(87, "bad", "p.NoBad")
ROW = RecordRow("t", 3, 9, 5, 0, b"k", b"bad", (Header("own", b"1"),))


def headers_of(row):
    return {key: value for key, value in row.headers if key.startswith("__")}


def test_a_letter_has_its_place_and_its_reason_once():
    letter = DeadLetters().first(ROW, BAD)
    assert letter.headers[0] == ("own", b"1")
    assert headers_of(letter)["__dlq.errors.partition"] == b"3"
    assert headers_of(letter)["__penstock.message"] == b"bad"
    moved = letter._replace(topic="dead", partition=0, offset=1, timestamp=6)
    again = DeadLetters().first(moved, refused(87, "worse", "p.NoBad"))
    assert headers_of(again) == headers_of(letter) | {
        "__dlq.errors.message": b"worse", "__penstock.message": b"worse",
    }  # fmt: skip
    assert len(again.headers) == len(letter.headers)


def test_a_letter_that_is_refused_again_goes_back_to_its_place():
    letter = DeadLetters().first(ROW, BAD)._replace(topic="dead", partition=0, offset=1)
    judged = JudgedRow(ROW._replace(topic="back", partition=3), BAD, b"new", b"new")
    again = DeadLetters().again(judged, letter, PartialOrigin("t", 3, 9, 5, 2))
    assert (again.topic, again.partition, again.key, again.value) == ("dead", 0, b"k", b"bad")
    assert headers_of(again)["__penstock.replays"] == b"3"


def test_places_may_be_unknown():
    nowhere = RecordRow(None, None, None, None, None, None, None, ())
    assert place_of(nowhere) == PartialOrigin(None, None, None, None)
