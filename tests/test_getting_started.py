"""docs/getting-started.md does what it says: its blocks are run as a new user would."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_a_project_a_rule_and_its_test(tmp_path):
    folder = tmp_path
    for line in blocks("console")[0].splitlines():
        command = line.removeprefix("$ ")
        if command.startswith("cd "):
            folder /= command.removeprefix("cd ")
            continue
        done = run(folder, command)
        assert done.returncode == 0, (command, done.stdout + done.stderr)

    test, rule = blocks("python")
    (folder / "test_currency.py").write_text(test)
    assert run(folder, "pytest").returncode == 1
    with (folder / "orders_policy.py").open("a") as policy:
        policy.write(rule)
    done = run(folder, "pytest -q")
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout

    with (folder / "penstock.properties").open("a") as file:
        file.write(blocks("properties")[0])
    assert "topics orders, observed" in run(folder, "penstock check penstock.properties").stdout


def test_what_a_refusal_looks_like(tmp_path):
    """The lines of the page are those of the program."""
    from kio.schema.errors import ErrorCode

    from penstock.local.produce import lines_of
    from tests.local.test_produce import answer

    [shown] = [one for one in blocks("console") if "refused: " in one]
    command, *expected = shown.splitlines()
    value = re.search(r"'(.*)'", command)[1]
    reason = expected[-1].partition(": ")[2]
    assert lines_of(value, answer(ErrorCode.invalid_record, reason)) == expected
    assert reason in blocks("python")[0]
