"""Differences from the suites of others that are known, with their reasons: `expected.toml`."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_name("expected.toml")


class Expected(NamedTuple):
    """A row of the file.

    Attributes:
        cases: Names, in which `*` stands for any text.
        reason: Why they differ.
        by: The implementation that differs (`native`, `library`), or `all`.
    """

    cases: tuple[str, ...]
    reason: str
    by: str = "all"


def expected(suite: str) -> tuple[Expected, ...]:
    """Return the rows about a suite."""
    rows = tomllib.loads(FILE.read_text("utf-8")).get(suite, [])
    return tuple(Expected(tuple(row["cases"]), row["reason"], row.get("by", "all")) for row in rows)


def reasons(suite: str) -> dict[str, str]:
    """Return why each case of a suite differs, where all of them are named in full."""
    return {case: row.reason for row in expected(suite) for case in row.cases}


def table(counted: Counter[str], known: Mapping[str, str]) -> str:
    """Return the differences that were found, to be printed: how often, and why."""
    return "\n".join(
        f"{count:>7,}  {case}: {known.get(case, 'UNEXPLAINED')}"
        for case, count in counted.most_common()
    )


def compare(found: Mapping[str, str], rows: Iterable[Expected]) -> tuple[list[str], list[str]]:
    """Compare the differences with the expected differences.

    Args:
        found: The differences by the name of the case.
        rows: The expected differences.

    Returns:
        Differences of cases without a row, and patterns of rows without a case.
    """
    patterns = [pattern for row in rows for pattern in row.cases]
    names = {pattern: [name for name in found if _fits(pattern, name)] for pattern in patterns}
    known = {name for fitting in names.values() for name in fitting}
    unknown = [f"{name}: {text}" for name, text in found.items() if name not in known]
    return unknown, [pattern for pattern, fitting in names.items() if not fitting]


def unexplained(suite: str, by: str, failed: Iterable[str]) -> tuple[list[str], list[str]]:
    """Compare the cases that an implementation fails with those that are known; see `compare`."""
    rows = (row for row in expected(suite) if row.by in {by, "all"})
    return compare(dict.fromkeys(failed, by), rows)


def _fits(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
