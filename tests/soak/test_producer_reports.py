"""Lines of the clients' programs."""

import pytest

from tests.soak.producer_reports import read_reports


def line(*fields):
    return "\t".join(map(str, fields)) + "\n"


def test_lines_are_read():
    found = read_reports(
        [
            line("a", 1, "acknowledged", 0, 1.5, ""),
            line("b", 1, "committed", "0-2", 1.5, ""),
            line("a", 1, "unknown", 1, 2.5, "TIMED_OUT"),
            line("a", 1, "dead", "", 3.5, "fatal"),
            line("a", 2, "ended", "", 4.5, ""),
        ],
        ["a", "b"],
    )

    assert {number: outcome.event for number, outcome in found["a"].outcomes.items()} == {
        0: "acknowledged", 1: "unknown"
    }  # fmt: skip
    assert found["a"].troubles == {1: [2.5, 3.5]}
    assert found["a"].why == {"TIMED_OUT": 1, "dead: fatal": 1}
    assert (found["a"].deaths, found["a"].ended) == (1, True)
    assert found["b"].transactions == [range(3)]
    assert len(found["b"].outcomes) == 3
    assert not found["b"].ended


def test_a_line_that_is_cut_off_is_ignored():
    found = read_reports(["a\t1\tacknowledged\t1"], ["a"])

    assert found["a"].outcomes == {}


def test_other_lines_are_ignored():
    with pytest.raises(ValueError, match="a line of a program is mixed"):
        read_reports(["a\t1\tack", line("a", 1, "acknowledged", 0, 1.5, "")], ["a"])


def test_an_unknown_event_is_an_error():
    with pytest.raises(ValueError, match="unknown event"):
        read_reports([line("a", 1, "stored", 1, 1, "")], ["a"])
