"""Exactly once, while brokers, gateways and connections go and come back.

Two milder rounds are part of `make test`; `make chaos` runs 50 with everything.
"""

import pytest

from penstock.artifacts import cache_folder
from tests.chaos.rounds import keep, run

KEPT = cache_folder() / "chaos"
LONGEST_ROUND_S = 1800
"""What can hang in a round has a limit of its own; a busy machine takes ten minutes."""


@pytest.mark.slow
@pytest.mark.kips("B47")
@pytest.mark.timeout(LONGEST_ROUND_S)
def test_nothing_acknowledged_is_lost(world, results, round_seed, mild, tmp_path, say):
    result = run(world, round_seed, mild=mild, logs=tmp_path)

    results.append(result)
    say(f"round {len(results)}, --chaos-seed={round_seed}: {result.summary}")
    if result.is_remarkable:
        say(f"kept in {keep(world, result, tmp_path, KEPT)}")
    assert not result.broken, result.facts()


@pytest.mark.parametrize("what", ["doubled", "disordered", "failed"])
def test_nothing_happens_that_does_not_happen_without_penstock(results, what):
    """A client may store a record twice by itself: then the control does so in the same rounds."""
    seen = {
        (producer.client, producer.kind, producer.through_penstock)
        for result in results
        for producer, account in result.accounts.items()
        if account.has(what)
    }
    ours = {(client, kind) for client, kind, through in seen if through}
    theirs = {(client, kind) for client, kind, through in seen if not through}
    assert ours <= theirs
