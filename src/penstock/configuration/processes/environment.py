"""Variables of the environment that would change what a policy means.

A policy gives one verdict, wherever it runs: workers do not get these variables, and who judges in
a process that has them refuses to.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPTIMIZE: Final = "PYTHONOPTIMIZE"
"""Removes `assert`."""
_INT_DIGITS: Final = "PYTHONINTMAXSTRDIGITS"
"""Which numbers can be read."""
_WARNINGS: Final = "PYTHONWARNINGS"
"""May turn warnings into exceptions; what only hides them changes nothing."""
_ERROR: Final = "error"


def changes_policies(name: str, value: str) -> bool:
    """Return whether a variable changes what a policy means."""
    if name == _WARNINGS:
        # As -W: an action may be abbreviated.
        actions = (entry.partition(":")[0].strip() for entry in value.split(","))
        return any(action and _ERROR.startswith(action) for action in actions)
    return bool(value) and name in {_OPTIMIZE, _INT_DIGITS}


def environment_of_policies() -> dict[str, str]:
    """Return the environment of this process without such variables."""
    return {name: value for name, value in os.environ.items() if not changes_policies(name, value)}


def what_changes_policies(environment: Mapping[str, str] | None = None) -> str:
    """Return what would change the meaning of policies in this process; empty if nothing does.

    Args:
        environment: The environment; by default that of the process.
    """
    if sys.flags.optimize:
        return f"{_OPTIMIZE}, or python -O"
    variables = os.environ if environment is None else environment
    return ", ".join(name for name, value in variables.items() if changes_policies(name, value))
