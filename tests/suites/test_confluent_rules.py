"""Rules beside Confluent's client for Python, which is asked to send each value.

Run by `make suites`.
"""

import json
import subprocess
from pathlib import Path

import pytest

from tests.suites.environment import python
from tests.suites.expected import compare, expected
from tests.suites.penstock_rules import answer
from tests.suites.rule_cases import cases

pytestmark = [pytest.mark.suites, pytest.mark.timeout(1200)]

_DIFFERENCES_MOST = 100


def test_verdicts_are_those_of_confluents_client():
    script = Path(__file__).with_name("confluent_rules.py")
    done = subprocess.run([python(), script], capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout)
    ours = {case.name: answer(case) for case in cases()}
    assert ours.keys() == theirs.keys()
    different = {
        name: f"Penstock: {ours[name] or 'passes'}; Confluent: {theirs[name] or 'passes'}"
        for name in ours
        if bool(ours[name]) != bool(theirs[name])
    }
    print(f"Confluent's rules: {len(ours) - len(different)} of {len(ours)}")
    assert compare(different, expected("confluent-rules")) == ([], [])
    assert len(different) < _DIFFERENCES_MOST
