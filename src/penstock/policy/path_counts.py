"""Counts how often the paths of a policy lead to a field, to find those that never do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableSequence, Sequence


class CountsPaths:
    """A policy with paths that are counted."""

    _counted_paths: Sequence[str] = ()
    _values_read = 0
    _times_found: MutableSequence[int] = []  # noqa: RUF012 - never changed

    def count_paths(self, paths: Sequence[str]) -> None:
        """Begin to count paths, which are given as they are configured."""
        self._counted_paths = tuple(paths)
        self._values_read = 0
        self._times_found = [0] * len(self._counted_paths)

    def add_found(self, path_numbers: Iterable[int]) -> None:
        """Count a JSON value.

        Args:
            path_numbers: The numbers of the paths that lead to a field of it, each once.
        """
        self._values_read += 1
        for number in path_numbers:
            self._times_found[number] += 1

    def take_path_counts(self) -> tuple[int, dict[str, int]]:
        """Return how many values were read, and in how many each path was found.

        Count from 0 again.
        """
        counts = self._values_read, dict(zip(self._counted_paths, self._times_found, strict=True))
        self.count_paths(self._counted_paths)
        return counts
