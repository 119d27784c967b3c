"""Verdicts in messages of a worker are decoded as they were encoded."""

from dataclasses import replace

import pytest

from penstock.engine.verdict import (
    Diverted,
    FailureCause,
    Outcome,
    PolicyVerdict,
    RecordError,
    replaced,
)
from penstock.engine.workers.messages import PREFIX, RECORD_ERRORS_MAX, read_verdict, verdict

ERRORS = tuple(
    RecordError(index, (None, "no", "never")[index % 3], ("a.V", "a.W")[index % 2])
    for index in range(0, 100, 5)
)


def arrived(sent):
    attempt, found, took_s = read_verdict(verdict(7, sent, 0.5)[PREFIX.size :])
    assert (attempt, took_s) == (7, 0.5)
    return found


@pytest.mark.parametrize(
    "sent",
    [
        PolicyVerdict(outcome=Outcome.REFUSED, policy="a.V", code=87, message="no",
        record_errors=ERRORS), PolicyVerdict(outcome=Outcome.REFUSED, policy="a.V", code=44,
        message=None), PolicyVerdict(
            outcome=Outcome.FAILED, policy="a.V", code=-1, message="x", detail="line 1",
            cause=FailureCause.TIMED_OUT,
        ),
        replaced(
            b"data", [1, 2],
            (
                Diverted(PolicyVerdict(outcome=Outcome.QUARANTINED, code=87, record_errors=ERRORS),
                20), Diverted(PolicyVerdict(outcome=Outcome.MARKED, code=87,
                record_errors=ERRORS[:1]), 1),
            ),
            quarantined=[2], letters=b"letters",
        ),
    ],
)  # fmt: skip
def test_a_verdict_arrives_as_it_was(sent):
    found = arrived(sent)
    if found.replacement is not None:  # positions come as arrays
        made = found.replacement
        lists = {"dropped": [*made.dropped], "quarantined": [*made.quarantined]}
        found = replace(found, replacement=replace(made, **lists))
    assert found == sent


def test_the_first_of_very_many_errors_arrive():
    errors = tuple(RecordError(index, str(index), "a.V") for index in range(RECORD_ERRORS_MAX + 5))
    found = arrived(PolicyVerdict(outcome=Outcome.REFUSED, code=87, record_errors=errors))
    assert found.record_errors == errors[:RECORD_ERRORS_MAX]
