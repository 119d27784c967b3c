"""`make slow-suites`: suites one after another, and the table of their results."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.gateways import is_running, wait_until
from tests.slow_suites import HEADING, TOO_LONG, Results, commit_of_tree, run_all, run_suite

COMMIT = "0123456789abcdef"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "results.tsv"


class Suites:
    """Suites that end with listed codes, and the order in which they ran."""

    def __init__(self, **codes: int) -> None:
        self.codes = codes
        self.ran: list[str] = []

    def run(self, suite: str) -> int:
        self.ran.append(suite)
        return self.codes[suite]


def test_a_failure_does_not_end_the_others(table):
    suites = Suites(slow=0, chaos=2, kills=0)
    assert run_all(list(suites.codes), COMMIT, Results(table), suites.run) == ["chaos"]
    assert suites.ran == ["slow", "chaos", "kills"]


def test_the_table_has_seconds_and_exit_codes(table):
    run_all(["slow", "chaos"], COMMIT, Results(table), Suites(slow=0, chaos=2).run)
    heading, *lines = table.read_text().splitlines(keepends=True)
    assert heading == HEADING
    assert lines == [f"{COMMIT}\tslow\t0\t0\n", f"{COMMIT}\tchaos\t0\t2\n"]


def test_a_suite_that_has_passed_on_the_commit_is_not_run_again(table, capsys):
    run_all(["slow", "chaos"], COMMIT, Results(table), Suites(slow=0, chaos=2).run)
    again = Suites(slow=0, chaos=0)
    assert run_all(list(again.codes), COMMIT, Results(table), again.run) == []
    assert again.ran == ["chaos"]
    assert "slow: has passed on 0123456789ab" in capsys.readouterr().out


@pytest.mark.parametrize("other", ["fedcba", f"{COMMIT}+"], ids=["commit", "changes"])
def test_it_is_run_again_on(table, other):
    run_all(["slow"], other, Results(table), Suites(slow=0).run)
    again = Suites(slow=0)
    run_all(["slow"], COMMIT, Results(table), again.run)
    assert again.ran == ["slow"]


def test_changed_files_never_count_as_passed(table):
    for _ in range(2):
        suites = Suites(slow=0)
        run_all(["slow"], f"{COMMIT}+", Results(table), suites.run)
        assert suites.ran == ["slow"]


@pytest.mark.system
def test_the_commit_of_a_tree_with_changes_ends_with_a_plus(tmp_path):
    (tmp_path / "file").write_text("1")
    for command in ("init", "add file", "commit --message First"):
        author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *author, *command.split()], cwd=tmp_path, check=True)
    commit = commit_of_tree(tmp_path)
    assert len(commit) == 40
    (tmp_path / "file").write_text("2")
    assert commit_of_tree(tmp_path) == f"{commit}+"


@pytest.mark.system
def test_a_suite_ends_with_its_exit_code():
    assert run_suite([sys.executable, "-c", "raise SystemExit(3)"], 60) == 3


@pytest.mark.system
def test_a_suite_that_takes_too_long_ends_with_its_processes(tmp_path):
    pid = tmp_path / "pid"
    command = ["sh", "-c", f"sleep 600 & echo $! > {pid}; wait"]
    began = time.monotonic()
    assert run_suite(command, 2) == TOO_LONG
    assert time.monotonic() - began < 60
    wait_until(lambda: not is_running(int(pid.read_text())), 60)


@pytest.mark.system
def test_make_knows_nothing_of_the_make_that_runs_it(tmp_path, monkeypatch):
    """With the flag `-n` of the other make, a suite would only print its commands."""
    monkeypatch.setenv("MAKEFLAGS", "n")
    (tmp_path / "Makefile").write_text("slow:\n\ttouch $(CURDIR)/ran\n")
    assert run_suite(["make", "--quiet", "-C", str(tmp_path), "slow"], 60) == 0
    assert (tmp_path / "ran").exists()
