"""How often the paths of policies, such as those of `RedactJsonFields`, lead to a field.

Policies with paths are `penstock.policy.path_counts.CountsPaths`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

VALUES_READ: Final = "json_values_read"
PATH_FOUND: Final = "json_path_found"
"""Events of workers, with the policy, or with the policy and the path."""
_BETWEEN: Final = ": "


class PathCount(NamedTuple):
    """How often a path of a policy led to a field.

    Attributes:
        path: The path, as it is configured.
        values: How many values the policy read.
        found: In how many of them the path led to a field.
    """

    policy: str
    path: str
    values: int
    found: int

    def __str__(self) -> str:
        return f"{self.policy}: {self.path} is in none of {self.values:,} JSON values"


@dataclass
class PathTally:
    """The sums of what several processes counted.

    Attributes:
        values: How many values each policy read.
        hits: In how many of them it found each path, by policy and path.
    """

    values: Counter[str] = field(default_factory=Counter)
    hits: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, counts: Iterable[PathCount]) -> None:
        """Add the counts of one process."""
        for event in events_of(counts):
            self.add_event(*event)

    def add_event(self, event: str, result: str, amount: int) -> None:
        """Add an event of `events_of`; ignore any other event."""
        if event == VALUES_READ:
            self.values[result] += amount
        elif event == PATH_FOUND:
            policy, _, path = result.partition(_BETWEEN)
            self.hits[policy, path] += amount

    def merge(self, other: PathTally) -> None:
        """Add other sums."""
        self.values.update(other.values)
        self.hits.update(other.hits)

    def counts(self) -> list[PathCount]:
        """Return the sums, in the order of policies and paths."""
        return [
            PathCount(policy, path, self.values[policy], count)
            for (policy, path), count in sorted(self.hits.items())
        ]

    def unfound(self) -> list[PathCount]:
        """Return the paths that led to no field of any value."""
        return [count for count in self.counts() if not count.found]


def events_of(counts: Iterable[PathCount]) -> list[tuple[str, str, int]]:
    """Return counts of one process as events: event, result, amount."""
    counts = list(counts)
    values_by_policy = {count.policy: count.values for count in counts}
    return [
        *((VALUES_READ, policy, values) for policy, values in values_by_policy.items()),
        *((PATH_FOUND, f"{count.policy}{_BETWEEN}{count.path}", count.found) for count in counts),
    ]
