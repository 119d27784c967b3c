"""Exactly once, while brokers, gateways and connections stop and start.

Two milder rounds are part of `make test`; `make chaos` runs 50 with everything.
"""

import re

import pytest

from penstock.kafka.artifacts import cache_folder
from tests.chaos.rounds import keep, run

KEPT = cache_folder() / "chaos"
LONGEST_ROUND_S = 1800
"""All waits of a round have their own limits; a busy machine takes ten minutes."""
ENOUGH = 5
"""After this many rounds, some refusals of state writes must have occurred."""


@pytest.mark.slow
@pytest.mark.kips("B47")
@pytest.mark.timeout(LONGEST_ROUND_S)
def test_no_acknowledged_record_is_lost(world, results, round_seed, mild, tmp_path, show_line):
    result = run(world, round_seed, mild=mild, logs=tmp_path)

    results.append(result)
    show_line(f"round {len(results)}, --chaos-seed={round_seed}: {result.summary}")
    if result.is_remarkable:
        show_line(f"kept in {keep(world, result, tmp_path, KEPT)}")
    assert not result.broken, result.facts()


@pytest.mark.parametrize("problem", ["doubled", "disordered", "failed"])
def test_each_kind_of_fault_also_occurs_with_kafka_alone(results, problem):
    """If a client stores a record twice by itself, the control does so, too.

    A fault of which the client's statistics or a broker's log show the cause is not compared: it is
    too rare for the control.
    """
    seen = {
        (p.client, p.kind, p.through_penstock)
        for result in results
        for p, account in result.accounts.items()
        if account.has(problem) and not (p.through_penstock and account.is_of_client(problem))
    }
    ours = {(client, kind) for client, kind, through in seen if through}
    theirs = {(client, kind) for client, kind, through in seen if not through}
    assert ours <= theirs


def test_refusals_of_state_writes_occur(results):
    """Otherwise the proxies do not recognize the writes of gateways, and do not test them."""
    refusals = [
        line for result in results for line in result.happened if "state writes refused" in line
    ]
    met = [line for line in refusals if not re.search(r": 0 state writes", line)]
    assert met or len(refusals) < ENOUGH, "a single round may be slow, or have no such write"
