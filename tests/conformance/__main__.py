"""Runs clients' own suites: `python -m tests.conformance [--short]`; see `make conformance`.

Ends with 0 if no test passes directly and fails through the gateway, with 1 if one does, or if a
suite was not run that was not excluded, with 130 when it was interrupted.
"""

import argparse
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Final

from penstock.kafka.artifacts import ArtifactError, cache_folder
from tests.conformance import table
from tests.conformance.commands import BuildError
from tests.conformance.expected import read
from tests.conformance.franz_go import FranzGo
from tests.conformance.kafka_streams import KafkaStreams
from tests.conformance.librdkafka import Librdkafka
from tests.conformance.results import Result
from tests.conformance.rskafka import Rskafka
from tests.conformance.run import run_suite
from tests.conformance.suite import Suite
from tests.guard import end_with_this_process
from tests.soak.processes import adopt_orphans, descendants, kill

SUITES: Final[tuple[type[Suite], ...]] = (Rskafka, FranzGo, KafkaStreams, Librdkafka)
"""The quick suites first."""


def main() -> int:
    """Read the command line, run, print the results."""
    arguments = _arguments()
    seed = random.SystemRandom().randrange(1_000_000) if arguments.seed is None else arguments.seed
    cache = cache_folder() / "conformance"
    folder = cache / "runs" / f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}"
    folder.mkdir(parents=True)
    _print_line(f"{'the selection' if arguments.short else 'everything'}, seed {seed}; in "
         f"{os.path.relpath(folder)}")  # fmt: skip
    signal.signal(signal.SIGTERM, _interrupt)
    adopt_orphans()
    results = []
    try:
        for kind in SUITES:
            suite = kind(cache, short=arguments.short, seed=seed)
            result = Result(suite.name, suite.version, suite.least_passed)
            results.append(result)
            if suite.name in arguments.without:
                result.not_run, result.left_out = "left out", True
            else:
                _run(suite, folder / suite.name, result)
    except KeyboardInterrupt:
        _print_line("interrupted; everything is ended")
        return 130
    finally:
        for pid in descendants(os.getpid()):
            kill(pid)
    return _print_table(results, folder)


def _run(suite: Suite, folder: Path, result: Result) -> None:
    """Run a suite; the reason why it cannot run is in its result."""
    if missing := suite.missing():
        result.not_run = f"needs {', '.join(missing)}"
        _print_line(f"{suite.name} is not run: it {result.not_run}")
        return
    try:
        _print_line(f"{suite.name} {suite.version}: fetching and building, unless that is done")
        suite.prepare()
    except (BuildError, ArtifactError) as error:
        result.not_run = str(error)
        _print_line(f"{suite.name} is not run: {error}")
        return
    try:
        run_suite(suite, folder, result, _print_line)
    except Exception as error:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "failure.txt").write_text(traceback.format_exc())
        result.not_run = f"it could not be run to its end: {type(error).__name__}: {error}"
        _print_line(f"{suite.name}: {result.not_run}")


def _print_table(results: list[Result], folder: Path) -> int:
    """Print and write the results; return the exit code."""
    expected = read()
    cells = table.rows(results, expected)
    listing = table.listing(results, expected)
    (folder / "results.json").write_text(table.document(results, expected))
    (folder / "results.md").write_text(f"{table.markdown(cells)}\n\n```\n{listing}\n```\n")
    print(f"\n{table.text(cells)}\n\n{listing}\n", flush=True)
    lacking = [line for result in results for line in result.shortcomings(expected)]
    left_out = [result.suite for result in results if result.left_out]
    if left_out:
        print(f"WITHOUT {', '.join(left_out)}: they were not tested")
    if not lacking:
        print("no test passes directly and fails through the gateway")
        return 0
    print(f"NOT WELL, {len(lacking)} findings (what was printed is in {os.path.relpath(folder)}):")
    for line in lacking:
        print(f"- {line}")
    return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    names = [kind.name for kind in SUITES]
    parser.add_argument("--short", action="store_true", help="a selection: a quarter of an hour")
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed unless given")
    parser.add_argument("--without", action="append", default=[], choices=names, metavar="SUITE",
                        help=f"leave one out: {', '.join(names)}; may be repeated")  # fmt: skip
    return parser.parse_args()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _print_line(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


if __name__ == "__main__":
    end_with_this_process()
    sys.exit(main())
