"""The outcomes of a dead letter that is judged again.

Values only: the commands that report them import no library that writes records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.verdict import Outcome

if TYPE_CHECKING:
    from penstock.engine.modes.dead_letters import Attempts

RETURNED, AGAIN, PARKED, DROPPED = "returned", "again", "parked", "dropped"
REFUSED = "refused"
"""A letter that policies accept and the target's broker refuses: it waits with the others."""
DOUBLE = "double"
"""A repeated letter, because its batch was retried at a gateway: it is taken once."""
OTHER = "other"
"""A letter of another topic, or a record that is no letter: it stays as it is."""


def sink_of(outcome: Outcome, replays: int, attempts: Attempts) -> str:
    """Return `RETURNED`, `AGAIN`, `PARKED` or `DROPPED`, for a letter that was judged.

    Args:
        outcome: Of the verdict.
        replays: How often it was redriven before.
        attempts: How often a letter is judged again before it is parked.
    """
    if outcome is Outcome.DROPPED:
        return DROPPED
    # A letter that is refused repeatedly after it returned keeps its count.
    if outcome is Outcome.ACCEPTED and (attempts.is_parked or replays < attempts.maximum):
        return RETURNED
    return PARKED if replays + 1 >= attempts.maximum else AGAIN
