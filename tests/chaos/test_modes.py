"""Faults of topics with named policies are found."""

import pytest

from tests.chaos.modes import ENFORCE, MARK, QUARANTINE, is_bad, placement

GOOD, BAD = b"2", b"1"
MARKS = [("__mark.errors.policy", b"fifth"), ("__mark.errors.code", b"87"),
         ("__mark.errors.message", b"bad")]  # fmt: skip


def row(value, *headers, partition=0):
    return (partition, b"k", value, list(headers))


def letter(value, letter_id=b"t-0:7:0:1:5", partition=0):
    return row(
        value, ("__dlq.errors.topic", b"t"), ("__dlq.errors.partition", b"%d" % partition),
        ("__penstock.policy", b"fifth"), ("__dlq.id", letter_id), partition=partition,
    )  # fmt: skip


def test_some_batches_are_bad_as_a_whole():
    assert [number for number in range(12) if is_bad(b"%d" % number)] == [1, 6, 11]
    assert all(is_bad(b"%d" % number) for number in range(160, 200))


def test_a_dead_letter_written_twice_counts_once():
    found = placement(QUARANTINE, "t", [row(GOOD)], [letter(BAD), letter(BAD)])
    assert (found.kept, found.misplaced) == ([(b"k", GOOD), (b"dead 1", BAD)], [])
    assert found.repeated == [BAD]
    found = placement(QUARANTINE, "t", [], [letter(BAD), letter(BAD, b"t-0:7:1:1:5")])
    assert (found.kept, found.misplaced, found.repeated) == ([(b"dead 1", BAD)] * 2, [], [])


@pytest.mark.parametrize(
    ("stored", "letters"),
    [
        ([row(BAD)], []),
        ([row(GOOD, ("own", b""))], []),
        ([], [letter(GOOD)]),
        ([], [row(BAD)]),
        ([], [letter(BAD, b"")]),
        ([], [letter(BAD, partition=1)]),
        ([row(BAD)], [letter(BAD)]),
    ],
)
def test_records_in_the_wrong_place_are_found(stored, letters):
    assert set(placement(QUARANTINE, "t", stored, letters).misplaced) <= {GOOD, BAD}
    assert placement(QUARANTINE, "t", stored, letters).misplaced


def test_marked_records_are_recognized():
    right = placement(MARK, "t", [row(GOOD), row(BAD, *MARKS)], [])
    assert (right.kept, right.misplaced) == ([(b"k", GOOD), (b"k", BAD)], [])
    wrong = [row(GOOD, *MARKS), row(BAD), row(BAD, *MARKS[:2]), row(BAD, *MARKS, *MARKS)]
    assert len(placement(MARK, "t", wrong, []).misplaced) == 4
    assert placement(MARK, "t", [], [letter(BAD)]).misplaced == [BAD]


def test_all_records_are_accepted_unchanged_in_enforce():
    right = placement(ENFORCE, "t", [row(GOOD), row(BAD)], [])
    assert (right.kept, right.misplaced) == ([(b"k", GOOD), (b"k", BAD)], [])
    wrong = placement(ENFORCE, "t", [row(BAD, *MARKS)], [letter(BAD)])
    assert wrong.misplaced == [BAD, BAD]
