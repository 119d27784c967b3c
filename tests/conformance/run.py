"""Runs a suite in every way, and again what seems to differ."""

import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.conformance.outcomes import Outcome, suspects
from tests.conformance.results import Result, Way
from tests.conformance.suite import Suite
from tests.conformance.worlds import DIRECTLY, WAYS, world

_MORE_RUNS: Final = 2

Say = Callable[[str], None]


def run_suite(suite: Suite, folder: Path, result: Result, say: Say) -> None:
    """Run a suite directly and in each way through the gateway, and add to its result.

    A test that passes directly and fails through a gateway is run up to twice more there; where
    it never passes, it is run as often directly, to find whether it is the test that is unsteady.

    Args:
        suite: It is prepared.
        folder: For what is printed and logged; it is made.
        result: It is added to as soon as something is known.
        say: Takes a line now and then.
    """
    for way in WAYS:
        _run_way(suite, way, folder / way.replace(" ", "-"), result, say)
    directly = result.ways[DIRECTLY]
    doubtful = sorted({
        test
        for name, way in result.ways.items()
        if name != DIRECTLY
        for test in suspects(directly.attempts, way.attempts)
    })  # fmt: skip
    if doubtful:
        say(f"{suite.name} {DIRECTLY}, again: {', '.join(doubtful)}")
        _run_again(suite, folder / f"{DIRECTLY}-again", directly, doubtful)


def attempt(
    suite: Suite, address: str, output: Path, tests: Sequence[str] | None = None
) -> dict[str, Outcome]:
    """Run a suite once; where it cannot even begin, none of its tests has passed.

    Args:
        suite: It is prepared.
        address: The bootstrap address.
        output: For what it prints; it is made.
        tests: Only these, or all.
    """
    output.mkdir()
    try:
        return suite.run(address, output, tests)
    except Exception:
        (output / "failure.txt").write_text(traceback.format_exc())
        return {}


def _run_way(suite: Suite, name: str, folder: Path, result: Result, say: Say) -> None:
    say(f"{suite.name} {name}")
    begun = time.monotonic()
    way = Way()
    with world(name, folder, suite.broker) as made:
        way.add(attempt(suite, made.address, folder / "run-1"))
        result.ways[name] = way
        if name != DIRECTLY:
            _run_suspects(suite, made.address, folder, result, name, say)
    way.judged, way.faults = made.judged, made.faults
    way.seconds = time.monotonic() - begun
    passed = sum(runs[-1] is Outcome.PASSED for runs in way.attempts.values())
    say(f"{suite.name} {name}: {passed} of {len(way.attempts)} passed in {way.seconds:.0f} s")


def _run_suspects(
    suite: Suite, address: str, folder: Path, result: Result, name: str, say: Say
) -> None:
    """Run again what passed directly and did not pass here."""
    way = result.ways[name]
    for number in range(2, 2 + _MORE_RUNS):
        again = suspects(result.ways[DIRECTLY].attempts, way.attempts)
        if not again:
            return
        say(f"{suite.name} {name}, again: {', '.join(again)}")
        way.add(attempt(suite, address, folder / f"run-{number}", again))


def _run_again(suite: Suite, folder: Path, directly: Way, tests: Sequence[str]) -> None:
    """Run tests directly as often as the others."""
    with world(DIRECTLY, folder, suite.broker) as made:
        for number in range(1, 1 + _MORE_RUNS):
            directly.add(attempt(suite, made.address, folder / f"run-{number}", tests))
