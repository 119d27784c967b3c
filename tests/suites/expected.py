"""Differences that have a reason: `expected.toml`, which docs/schemas.md shows."""

import tomllib
from collections import Counter
from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).parent / "expected.toml"


def reasons(suite: str) -> dict[str, str]:
    """Return the differences that a suite may find, each with its reason.

    Raises:
        ValueError: One has no reason.
    """
    found = {
        one["difference"]: one.get("reason", "").strip()
        for one in tomllib.loads(_FILE.read_text())["expected"]
        if one["suite"] == suite
    }
    for difference, reason in found.items():
        if not reason:
            raise ValueError(f"{suite}: {difference} has no reason")
    return found


def table(counted: Counter[str], expected: dict[str, str]) -> str:
    """Return what was found, to be printed: how often, and why."""
    lines = (
        f"{count:>7,}  {difference}: {expected.get(difference, 'UNEXPLAINED')}"
        for difference, count in counted.most_common()
    )
    return "\n".join(lines)
