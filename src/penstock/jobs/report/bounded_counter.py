"""A counter of many different keys in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, ItemsView

Key = TypeVar("Key", bound="Hashable")


@dataclass
class BoundedCounter(Generic[Key]):
    """Counts by key; the rarest are counted together when there are too many keys.

    The sum of all counts and `left_out` is always exact. A count is exact as long as nothing
    was left out; after that it is never too high, and may lack counts that were left out.

    Attributes:
        limit: How many keys are kept at least; up to twice as many are held.
        left_out: The counts of keys that are no longer held.
    """

    limit: int
    left_out: int = 0
    _counts: dict[Key, int] = field(default_factory=dict)

    def __contains__(self, key: Key) -> bool:
        return key in self._counts

    def __getitem__(self, key: Key) -> int:
        return self._counts.get(key, 0)

    def __len__(self) -> int:
        return len(self._counts)

    def items(self) -> ItemsView[Key, int]:
        """Return the keys that are held, and their counts."""
        return self._counts.items()

    def add(self, key: Key, count: int = 1) -> bool:
        """Count a key; return whether other keys, or this key, were left out for it."""
        self._counts[key] = self._counts.get(key, 0) + count
        if len(self._counts) <= 2 * self.limit:
            return False
        top_counts, rest = self.most_common(self.limit)
        self._counts = dict(top_counts)
        self.left_out = rest
        return True

    def merge(self, other: BoundedCounter[Key]) -> None:
        """Add the counts of another counter."""
        self.left_out += other.left_out
        for key, count in other.items():
            self.add(key, count)

    def total(self) -> int:
        """Return the sum of all counts, with those that were left out."""
        return sum(self._counts.values()) + self.left_out

    def most_common(self, most: int) -> tuple[list[tuple[Key, int]], int]:
        """Return the most frequent keys with their counts, and the sum of all others.

        Keys of the same count are in the order of their texts, so that the same counts always
        result in the same list.

        Args:
            most: How many keys are returned at most.
        """
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], str(item[0])))
        return ordered[:most], sum(count for _, count in ordered[most:]) + self.left_out
