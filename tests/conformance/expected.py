"""Differences that have a reason: `expected.toml`."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.conformance.worlds import DIRECTLY, WAYS

_FILE: Final = Path(__file__).parent / "expected.toml"


@dataclass(frozen=True)
class Expected:
    """A test that need not pass through the gateway.

    Attributes:
        suite: The suite's name.
        test: The test's name.
        ways: Those in which it differs.
        reason: Why that is right, or cannot be otherwise.
    """

    suite: str
    test: str
    ways: tuple[str, ...]
    reason: str


def read(text: str | None = None) -> list[Expected]:
    """Return what `expected.toml` has, or a text like it.

    Raises:
        ValueError: A way is unknown, or a reason is missing.
    """
    found = tomllib.loads(_FILE.read_text() if text is None else text).get("expected", [])
    made = [
        Expected(
            difference["suite"],
            difference["test"],
            tuple(difference["ways"]),
            difference.get("reason", "").strip(),
        )
        for difference in found
    ]
    for difference in made:
        unknown = set(difference.ways) - (set(WAYS) - {DIRECTLY})
        if unknown or not difference.ways:
            raise ValueError(
                f"{difference.suite} {difference.test}: {sorted(unknown)} are not valid ways"
            )
        if not difference.reason:
            raise ValueError(f"{difference.suite} {difference.test} has no reason")
    return made


def reason(expected: Iterable[Expected], suite: str, test: str, way: str) -> str:
    """Return why a test may differ, or nothing."""
    for difference in expected:
        if difference.suite == suite and difference.test == test and way in difference.ways:
            return difference.reason
    return ""
