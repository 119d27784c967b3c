"""What becomes of a test in one way to Kafka, and what is found where the ways are compared."""

from collections.abc import Mapping, Sequence
from enum import StrEnum


class Outcome(StrEnum):
    """What a suite says of one of its tests."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Finding(StrEnum):
    """What a test shows in one way through the gateway, beside what it shows directly."""

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
    """Return what the runs of one test show.

    Args:
        directly: Its outcomes without a gateway; none where the suite did not have it.
        through: Its outcomes through the gateway; none if the suite ended before it.
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


def count(outcomes: Attempts, wanted: Outcome) -> int:
    """Return how many tests ended so in their last run."""
    return sum(1 for runs in outcomes.values() if runs and runs[-1] is wanted)
