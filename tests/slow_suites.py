"""Runs suites of the Makefile one after another (`make slow-suites`), and keeps their results.

A suite that fails or takes too long does not end the others. The results are in a table with a
line for each run: the commit, the suite, its seconds and its exit code. A suite that has passed on
this commit is not run again, unless files of the work tree differ from it.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.guard import end_with_this_process

ROOT: Final = Path(__file__).parents[1]
TABLE: Final = ROOT / ".cache" / "slow-suites.tsv"
HEADING: Final = "commit\tsuite\tseconds\texit code\n"
TOO_LONG: Final = 124
"""The exit code of a suite that was ended, as of `timeout`."""
_ENDS_S: Final = 60
"""How long a suite may take to end after SIGTERM."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a suite took, and how it ended."""

    commit: str
    suite: str
    seconds: int
    code: int


class Results:
    """The table of runs."""

    def __init__(self, table: Path) -> None:
        self._table = table

    def runs(self) -> list[Run]:
        """Return all runs, in order."""
        if not self._table.exists():
            return []
        rows = [line.split("\t") for line in self._table.read_text().splitlines()[1:]]
        return [Run(row[0], row[1], int(row[2]), int(row[3])) for row in rows]

    def has_passed(self, commit: str, suite: str) -> bool:
        """Return whether the last run of a suite on a commit ended with 0."""
        codes = [run.code for run in self.runs() if (run.commit, run.suite) == (commit, suite)]
        return codes[-1:] == [0]

    def add(self, run: Run) -> None:
        """Append a run."""
        self._table.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self._table.exists()
        with self._table.open("a") as file:
            file.write(HEADING if is_new else "")
            file.write(f"{run.commit}\t{run.suite}\t{run.seconds}\t{run.code}\n")


def commit_of_tree(root: Path) -> str:
    """Return the commit that the work tree is at, with `+` where files differ from it."""
    commit = _git(root, "rev-parse", "HEAD")
    return f"{commit}+" if _git(root, "status", "--porcelain") else commit


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def run_suite(command: Sequence[str], limit_s: float) -> int:
    """Run a command with all its processes for a limited time; return its exit code."""
    # The flags of this make, as `-k` and `-j`, are not meant for that of the suite.
    flags = {"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"}
    environment = {name: value for name, value in os.environ.items() if name not in flags}
    process = subprocess.Popen(command, env=environment, cwd=ROOT, process_group=0)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return TOO_LONG
    finally:
        _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        deadline = time.monotonic() + _ENDS_S
        while number == signal.SIGTERM and time.monotonic() < deadline and _has_group(process):
            time.sleep(0.1)
    process.wait()


def _has_group(process: subprocess.Popen[bytes]) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def run_all(
    suites: Sequence[str], commit: str, results: Results, run: Callable[[str], int]
) -> list[str]:
    """Run the suites that have not passed on a commit; return those that failed."""
    failed = []
    for suite in suites:
        if not commit.endswith("+") and results.has_passed(commit, suite):
            print(f"{suite}: has passed on {commit[:12]}", flush=True)
            continue
        print(f"{suite}: begins", flush=True)
        began = time.monotonic()
        code = run(suite)
        seconds = round(time.monotonic() - began)
        results.add(Run(commit, suite, seconds, code))
        print(f"{suite}: {seconds} s, exit code {code}", flush=True)
        if code:
            failed.append(suite)
    return failed


def main(arguments: list[str]) -> int:
    """Run suites; return the exit code."""
    parser = argparse.ArgumentParser(prog="tests.slow_suites")
    parser.add_argument("suites", nargs="+")
    parser.add_argument("--limit", type=float, default=180, help="the minutes of each suite")
    options = parser.parse_args(arguments)
    failed = run_all(
        options.suites,
        commit_of_tree(ROOT),
        Results(TABLE),
        lambda suite: run_suite(["make", suite], options.limit * 60),
    )
    print(f"{TABLE.relative_to(ROOT)} has the results", flush=True)
    if failed:
        print(f"FAILED: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    end_with_this_process()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
