"""The findings of the runs of a test."""

import pytest

from tests.conformance.outcomes import Finding, Outcome, compare, count, suspects

P, F, S = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


@pytest.mark.parametrize(
    ("directly", "through", "finding"),
    [
        ([P], [P], Finding.SAME),
        ([S], [S], Finding.SAME),
        ([], [P], Finding.SAME),
        ([F], [F], Finding.FAILS_DIRECTLY),
        ([F], [P], Finding.FAILS_DIRECTLY),
        ([P], [F, P], Finding.UNSTEADY),
        ([P], [F, F, P], Finding.UNSTEADY),
        ([P, F, P], [F, F, F], Finding.UNSTEADY),
        ([P, P, P], [F, F, F], Finding.DIFFERENT),
        # What a client finds to be missing through the gateway differs like what fails.
        ([P], [S], Finding.DIFFERENT),
        ([P], [], Finding.DIFFERENT),
    ],
)
def test_the_finding_of_runs(directly, through, finding):
    assert compare(directly, through) is finding


def test_a_difference_with_a_reason_is_expected():
    assert compare([P], [F], is_expected=True) is Finding.EXPECTED
    assert compare([P], [P], is_expected=True) is Finding.SAME


def test_only_tests_that_pass_directly_and_never_here_are_suspected():
    directly = {"a": [P], "b": [P], "c": [F], "d": [P], "e": [P]}
    through = {"a": [P], "b": [F], "c": [F], "d": [F, P]}

    assert suspects(directly, through) == ["b", "e"]


def test_the_last_run_counts():
    assert count({"a": [F, P], "b": [P], "c": [F]}, P) == 2
