"""The result of a suite: findings, rows, and shortcomings."""

import json

import pytest

from tests.conformance import table
from tests.conformance.expected import Expected, read, reason
from tests.conformance.outcomes import Finding, Outcome
from tests.conformance.results import Result, Way
from tests.conformance.worlds import DIRECTLY, WAYS

P, F, S = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED
THROUGH = [way for way in WAYS if way != DIRECTLY]


def result(least=1, **tests):
    """A suite with runs of tests in every way: those directly, and those through each gateway."""
    made = Result("client", "1.2", least)
    for way in WAYS:
        runs = {name: list(two[way != DIRECTLY]) for name, two in tests.items()}
        made.ways[way] = Way(runs, {"accepted": 1200.0} if way != DIRECTLY else {}, seconds=90)
    return made


def test_equal_results_are_green():
    sound = result(a=([P], [P]), b=([F], [F]), c=([P], [F, P]))

    assert sound.shortcomings([]) == []
    assert {finding for _, _, finding in sound.found([])} == {
        Finding.SAME,
        Finding.FAILS_DIRECTLY,
        Finding.UNSTEADY,
    }


def test_a_difference_is_named_for_each_way():
    found = result(a=([P, P, P], [F, F, F])).shortcomings([])

    assert len(found) == len(THROUGH)
    assert all("client a" in line and way in line for line, way in zip(found, THROUGH, strict=True))


def test_a_difference_with_a_reason_is_green_in_its_way_alone():
    expected = [Expected("client", "a", ("accepting",), "it counts requests")]

    found = result(a=([P], [F])).shortcomings(expected)

    assert len(found) == len(THROUGH) - 1
    assert not any("accepting" in line for line in found)


def test_a_suite_that_is_not_run_is_not_green():
    missing = Result("client", "1.2", not_run="needs go")

    assert missing.shortcomings([]) == ["client is not run: needs go"]


def test_a_suite_that_is_left_out_on_purpose_is_green():
    assert Result("client", "1.2", not_run="left out", left_out=True).shortcomings([]) == []


def test_a_suite_without_tests_that_pass_directly_is_not_green():
    (line,) = result(least=2, a=([P], [P]), b=([F], [F])).shortcomings([])

    assert "only 1" in line


def test_a_way_that_was_not_run_is_not_green():
    cut = result(a=([P], [P]))
    del cut.ways["rewriting"]

    assert cut.shortcomings([]) == ["client rewriting is not run"]


def test_unexpected_log_lines_of_gateways_are_not_green():
    loud = result(a=([P], [P]))
    loud.ways["accepting"].faults = ['{"event": "policy failed"}']

    assert loud.shortcomings([]) == ['client accepting: {"event": "policy failed"}']


def test_rows_count_each_way():
    made = result(a=([P], [P]), b=([F], [F]), c=([P], [F, P]), d=([P] * 3, [F] * 3), e=([S], [S]))

    head, *rows = table.rows([made, Result("other", "3", not_run="needs go")], [])

    by_way = {row[1]: dict(zip(head, row, strict=True)) for row in rows}
    assert by_way[DIRECTLY]["passed"] == "3"
    assert by_way[DIRECTLY]["different"] == by_way[DIRECTLY]["records judged"] == ""
    for way in THROUGH:
        assert by_way[way] == {
            "suite": "client 1.2", "way": way, "passed": "2", "failed": "2", "skipped": "1",
            "fail directly": "1", "unsteady": "1", "expected": "0", "different": "1",
            "records judged": "1,200", "minutes": "1.5",
        }  # fmt: skip
    assert by_way["not run"]["suite"] == "other 3"


def test_tables_have_every_row():
    cells = table.rows([result(a=([P], [P]))], [])

    assert len(table.text(cells).splitlines()) == len(cells)
    assert len(table.markdown(cells).splitlines()) == len(cells) + 1


def test_differences_are_listed_once_with_their_runs():
    made = result(a=([P], [P]), b=([F], [F]), d=([P, P, P], [F, F, F]))
    expected = [Expected("client", "d", tuple(THROUGH), "it counts requests")]

    listing = table.listing([made], expected)

    assert "client d: directly passed/passed/passed, no policy failed/failed/failed" in listing
    assert "it counts requests" in listing
    assert listing.count("client d") == listing.count("client b") == 1
    assert "client a" not in listing


def test_the_document_has_every_test():
    made = json.loads(table.document([result(a=([P], [F, P]))], []))

    tests = made["suites"][0]["ways"]["accepting"]["tests"]
    assert tests == {"a": {"outcomes": ["failed", "passed"], "finding": "unsteady", "reason": ""}}


def test_expected_differences_have_ways_and_a_reason():
    text = '[[expected]]\nsuite = "s"\ntest = "t"\nways = ["accepting"]\nreason = "so"\n'

    assert reason(read(text), "s", "t", "accepting") == "so"
    assert reason(read(text), "s", "t", "no policy") == ""
    assert reason(read(text), "s", "other", "accepting") == ""


@pytest.mark.parametrize(
    "text",
    [
        '[[expected]]\nsuite = "s"\ntest = "t"\nways = ["directly"]\nreason = "so"\n',
        '[[expected]]\nsuite = "s"\ntest = "t"\nways = []\nreason = "so"\n',
        '[[expected]]\nsuite = "s"\ntest = "t"\nways = ["accepting"]\nreason = " "\n',
    ],
)
def test_an_expected_difference_without_a_way_or_a_reason_is_an_error(text):
    with pytest.raises(ValueError, match="s t"):
        read(text)


def test_the_file_of_expected_differences_can_be_read():
    read()
