"""Rules against Confluent's client for Python, which tries to send each value.

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


def test_verdicts_equal_confluents_client():
    script = Path(__file__).with_name("confluent_rules.py")
    done = subprocess.run([python(), script], capture_output=True, text=True, check=True)
    by_confluent = json.loads(done.stdout)
    by_penstock = {case.name: answer(case) for case in cases()}
    assert by_penstock.keys() == by_confluent.keys()
    different = {
        name: f"Penstock: {by_penstock[name] or 'passes'}; Confluent: {by_confluent[name] or 'passes'}"
        for name in by_penstock
        if bool(by_penstock[name]) != bool(by_confluent[name])
    }
    print(f"Confluent's rules: {len(by_penstock) - len(different)} of {len(by_penstock)}")
    assert compare(different, expected("confluent-rules")) == ([], [])
    assert len(different) < _DIFFERENCES_MOST
