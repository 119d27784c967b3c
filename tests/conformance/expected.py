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
        Expected(one["suite"], one["test"], tuple(one["ways"]), one.get("reason", "").strip())
        for one in found
    ]
    for one in made:
        unknown = set(one.ways) - (set(WAYS) - {DIRECTLY})
        if unknown or not one.ways:
            raise ValueError(f"{one.suite} {one.test}: {sorted(unknown)} are no ways")
        if not one.reason:
            raise ValueError(f"{one.suite} {one.test} has no reason")
    return made


def reason(expected: Iterable[Expected], suite: str, test: str, way: str) -> str:
    """Return why a test may differ, or nothing."""
    for one in expected:
        if one.suite == suite and one.test == test and way in one.ways:
            return one.reason
    return ""
