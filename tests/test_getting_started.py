"""The blocks of docs/getting-started.md are run like by a new user."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.policies import Rules
from penstock.policy.testing import judge

PAGE = (Path(__file__).parents[1] / "docs" / "getting-started.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
pytestmark = pytest.mark.system


def blocks(kind):
    return [text for found, text in BLOCKS if found == kind]


def run(folder, command):
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip


def test_a_project_with_a_rule_and_its_test_works(tmp_path):
    folder = tmp_path
    for line in blocks("console")[0].splitlines():
        command = line.removeprefix("$ ")
        if command.startswith("cd "):
            folder /= command.removeprefix("cd ")
            continue
        done = run(folder, command)
        assert done.returncode == 0, (command, done.stdout + done.stderr)

    test, rule, _ = blocks("python")
    (folder / "test_currency.py").write_text(test)
    assert run(folder, "python -m pytest").returncode == 1
    with (folder / "orders_policy.py").open("a") as policy:
        policy.write(rule)
    done = run(folder, "python -m pytest -q")
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout

    file = folder / "penstock.properties"
    before = file.read_text()
    observed, quarantined = blocks("properties")
    file.write_text(before + observed)
    assert "topics orders, observed" in run(folder, "penstock check penstock.properties").stdout
    file.write_text(before + quarantined)
    checked = run(folder, "penstock check penstock.properties").stdout
    assert "topics orders, in quarantine: bad records go to orders.dead" in checked
    assert "limits" in checked


def test_the_policies_accept_a_repaired_record():
    names = {"__name__": "repair"}
    exec(blocks("python")[2], names)
    [keys] = [block for block in blocks("properties") if "quarantine" in block]
    rule = re.search(r"rules\.top=(.*)", keys)[1]
    [sent] = [
        re.search(r"'(.*)'", block)[1]
        for block in blocks("console")
        if "without an offset" in block
    ]
    configs = {"rules.top": rule}
    [before] = judge(Rules, [sent], configs=configs)
    [repaired] = judge(names["Cents"], [sent], topic="orders")
    [after] = judge(Rules, [repaired.value], configs=configs)
    assert (before.outcome, after.outcome) == ("refused", "accepted")


def test_the_shown_refusal_is_that_of_the_program(tmp_path):
    """The lines of the page are the output of the program."""
    from kio.schema.errors import ErrorCode

    from penstock.kafka.local.produce import lines_of
    from tests.kafka.local.produce_answers import answer

    [shown] = [block for block in blocks("console") if "refused: " in block]
    [elsewhere] = [block for block in blocks("console") if "without an offset" in block]
    value = re.search(r"'(.*)'", elsewhere)[1]
    assert lines_of(value, answer(ErrorCode.none, offset=-1)) == elsewhere.splitlines()[1:]
    command, *expected = shown.splitlines()
    value = re.search(r"'(.*)'", command)[1]
    reason = expected[-1].partition(": ")[2]
    assert lines_of(value, answer(ErrorCode.invalid_record, reason)) == expected
    assert reason in blocks("python")[0]
