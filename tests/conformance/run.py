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

ShowLine = Callable[[str], None]


def run_suite(suite: Suite, folder: Path, result: Result, show_line: ShowLine) -> None:
    """Run a suite directly and in each way through the gateway, and add to its result.

    A test that passes directly and fails through a gateway is run up to twice more there; where
    it never passes, it is run as often directly, to find out whether the test itself is unsteady.

    Args:
        suite: It is prepared.
        folder: The folder for output and logs; it is created.
        result: Findings are added as soon as they are known.
        show_line: Called with each line of progress.
    """
    for way in WAYS:
        _run_way(suite, way, folder / way.replace(" ", "-"), result, show_line)
    directly = result.ways[DIRECTLY]
    doubtful = sorted({
        test
        for name, way in result.ways.items()
        if name != DIRECTLY
        for test in suspects(directly.attempts, way.attempts)
    })  # fmt: skip
    if doubtful:
        show_line(f"{suite.name} {DIRECTLY}, again: {', '.join(doubtful)}")
        _run_again(suite, folder / f"{DIRECTLY}-again", directly, doubtful)


def attempt(
    suite: Suite, address: str, output: Path, tests: Sequence[str] | None = None
) -> dict[str, Outcome]:
    """Run a suite once; if it cannot start, none of its tests has passed.

    Args:
        suite: It is prepared.
        address: The bootstrap address.
        output: The folder for its output; it is created.
        tests: Only these, or all.
    """
    output.mkdir()
    try:
        return suite.run(address, output, tests)
    except Exception:
        (output / "failure.txt").write_text(traceback.format_exc())
        return {}


def _run_way(suite: Suite, name: str, folder: Path, result: Result, show_line: ShowLine) -> None:
    show_line(f"{suite.name} {name}")
    began = time.monotonic()
    way = Way()
    with world(name, folder, suite.broker) as made:
        way.add(attempt(suite, made.address, folder / "run-1"))
        result.ways[name] = way
        if name != DIRECTLY:
            _run_suspects(suite, made.address, folder, result, name, show_line)
    way.judged, way.faults = made.judged, made.faults
    way.seconds = time.monotonic() - began
    passed = sum(runs[-1] is Outcome.PASSED for runs in way.attempts.values())
    show_line(f"{suite.name} {name}: {passed} of {len(way.attempts)} passed in {way.seconds:.0f} s")


def _run_suspects(
    suite: Suite, address: str, folder: Path, result: Result, name: str, show_line: ShowLine
) -> None:
    """Run again what passed directly and did not pass here."""
    way = result.ways[name]
    for number in range(2, 2 + _MORE_RUNS):
        again = suspects(result.ways[DIRECTLY].attempts, way.attempts)
        if not again:
            return
        show_line(f"{suite.name} {name}, again: {', '.join(again)}")
        way.add(attempt(suite, address, folder / f"run-{number}", again))


def _run_again(suite: Suite, folder: Path, directly: Way, tests: Sequence[str]) -> None:
    """Run tests directly as often as the others."""
    with world(DIRECTLY, folder, suite.broker) as made:
        for number in range(1, 1 + _MORE_RUNS):
            directly.add(attempt(suite, made.address, folder / f"run-{number}", tests))
