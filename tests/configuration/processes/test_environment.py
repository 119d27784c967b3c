"""Variables that change what a policy means."""

import sys
from types import SimpleNamespace

import pytest

from penstock.configuration.processes.environment import (
    changes_policies,
    environment_of_policies,
    what_changes_policies,
)


@pytest.mark.parametrize(
    ("name", "value", "changes"),
    [
        ("PYTHONOPTIMIZE", "1", True),
        ("PYTHONOPTIMIZE", "x", True),
        ("PYTHONOPTIMIZE", "", False),
        ("PYTHONINTMAXSTRDIGITS", "0", True),
        ("PYTHONWARNINGS", "error", True),
        ("PYTHONWARNINGS", "ignore::UserWarning, err::DeprecationWarning", True),
        ("PYTHONWARNINGS", "ignore,default::ImportWarning", False),
        ("PYTHONWARNINGS", ",", False),
        ("PYTHONPATH", "/error", False),
        ("PYTHONHASHSEED", "0", False),
        ("PYTHONDONTWRITEBYTECODE", "1", False),
    ],
)
def test_workers_get_no_variable_that_changes_what_a_policy_means(
    monkeypatch, name, value, changes
):
    monkeypatch.setenv(name, value)
    assert changes_policies(name, value) is changes
    assert (name not in environment_of_policies()) is changes
    assert what_changes_policies({"HOME": "/", name: value}) == (name if changes else "")


def test_a_process_without_assertions_judges_nothing(monkeypatch):
    monkeypatch.setattr(sys, "flags", SimpleNamespace(optimize=1))
    assert what_changes_policies({}) == "PYTHONOPTIMIZE, or python -O"
