"""The differences that are expected: `expected.toml`, and what docs/schemas.md shows of it."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple


class Difference(NamedTuple):
    """Cases of a suite that end otherwise, and why.

    Attributes:
        suite: Which suite.
        cases: A pattern of their names, as of files; `*` is anything.
        by: The implementation whose cases they are; `all` for each.
        reason: Why.
    """

    suite: str
    cases: str
    by: str
    reason: str


def read(suite: str) -> list[Difference]:
    """Return the differences of a suite."""
    found = tomllib.loads((Path(__file__).parent / "expected.toml").read_text())
    return [Difference(suite, **one) for one in found.get(suite, [])]


def unexplained(suite: str, by: str, failed: list[str]) -> tuple[list[str], list[str]]:
    """Return what failed without a reason, and the patterns that nothing failed of."""
    known = [one.cases for one in read(suite) if one.by in {by, "all"}]
    wrong = [name for name in failed if not any(fnmatchcase(name, one) for one in known)]
    idle = [one for one in known if not any(fnmatchcase(name, one) for name in failed)]
    return wrong, idle


def table(suite: str) -> str:
    """Return the differences of a suite as docs/schemas.md has them."""
    rows = [f"| `{one.cases}` | {one.by} | {one.reason} |" for one in read(suite)]
    return "\n".join(("| cases | by | why |", "|---|---|---|", *rows))
