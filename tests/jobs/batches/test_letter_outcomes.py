"""What becomes of a dead letter that is judged again."""

import pytest

from penstock.engine.modes.dead_letters import Attempts
from penstock.engine.verdict import Outcome
from penstock.jobs.batches.letter_outcomes import AGAIN, DROPPED, PARKED, RETURNED, sink_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("maximum", [1, 2, 5])
@pytest.mark.parametrize("is_parked", [False, True])
def test_a_letter_is_parked_after_its_last_attempt(maximum, is_parked):
    attempts = Attempts(maximum, is_parked)
    for replays in range(maximum + 3):
        last = replays >= maximum - 1
        for outcome in (Outcome.REFUSED, Outcome.FAILED):
            assert sink_of(outcome, replays, attempts) == (PARKED if last else AGAIN)
        # Accepted, and refused elsewhere after it had returned too often: it stays parked.
        returns = is_parked or replays < maximum
        assert sink_of(Outcome.ACCEPTED, replays, attempts) == (RETURNED if returns else PARKED)
        assert sink_of(Outcome.DROPPED, replays, attempts) == DROPPED
