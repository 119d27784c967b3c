"""The outcome of a test in a way to Kafka, and the finding when ways are compared."""

from collections.abc import Mapping, Sequence
from enum import StrEnum


class Outcome(StrEnum):
    """What a suite says of one of its tests."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Finding(StrEnum):
    """The outcome of a test in a way through the gateway, compared with the direct outcome."""

    SAME = "same"
    UNSTEADY = "unsteady"
    """It does not end in the same way each time, or passes directly only sometimes."""
    FAILS_DIRECTLY = "fails directly"
    EXPECTED = "expected"
    DIFFERENT = "different"


Attempts = Mapping[str, Sequence[Outcome]]
"""The outcomes of each test, in the order of its runs."""


def compare(
    directly: Sequence[Outcome], through: Sequence[Outcome], *, is_expected: bool = False
) -> Finding:
    """Return the finding of the runs of a test.

    Args:
        directly: Its outcomes without a gateway; empty if the suite did not have it.
        through: Its outcomes through the gateway; empty if the suite ended before it.
        is_expected: Whether a difference has a reason.
    """
    if Outcome.PASSED not in directly:
        return Finding.FAILS_DIRECTLY if Outcome.FAILED in directly else Finding.SAME
    if Outcome.PASSED in through:
        steady = set(directly) | set(through) == {Outcome.PASSED}
        return Finding.SAME if steady else Finding.UNSTEADY
    if Outcome.FAILED in directly:
        return Finding.UNSTEADY
    return Finding.EXPECTED if is_expected else Finding.DIFFERENT


def suspects(directly: Attempts, through: Attempts) -> list[str]:
    """Return the tests that have passed directly, and not through the gateway."""
    return sorted(
        name
        for name, outcomes in directly.items()
        if Outcome.PASSED in outcomes and Outcome.PASSED not in through.get(name, ())
    )


def count(outcomes: Attempts, outcome: Outcome) -> int:
    """Return how many tests ended so in their last run."""
    return sum(1 for runs in outcomes.values() if runs and runs[-1] is outcome)
