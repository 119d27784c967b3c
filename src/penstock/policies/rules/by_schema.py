"""Conditions about JSON values that are judged natively, by a schema with the same meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.policies.json_schema.made import compile_made
from penstock.policies.rules.schemas import all_of, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.policies.json_schema.check import Check
    from penstock.policies.rules.condition import Condition

_BYTES_OF_WEIGHT: Final = 8
"""The most that a value weighs, as a multiple of the bytes of its text."""


class BySchema(NamedTuple):
    """Conditions, and a schema: they are true for every value that fits it.

    Attributes:
        conditions: Their positions among the rules.
        longest: Only texts of no more bytes are judged by it: for longer texts, a condition may be
            too much work.
    """

    conditions: frozenset[int]
    check: Check
    longest: float

    def not_known(self, values: Sequence[bytes | None]) -> set[int]:
        """Return the positions of values for which the conditions have to be evaluated."""
        positions = {position for position, _ in self.check.refused(values)}
        if self._longest_of(values) > self.longest:
            for position, value in enumerate(values):
                if value is not None and len(value) > self.longest:
                    positions.add(position)
        return positions

    def all_fit(self, values: Sequence[bytes | None]) -> bool:
        """Return whether all conditions are known to be true for all values."""
        return self._longest_of(values) <= self.longest and self.check.all_fit(values)

    @staticmethod
    def _longest_of(values: Sequence[bytes | None]) -> int:
        return max(map(len, filter(None, values)), default=0)


def by_schema(conditions: Sequence[Condition]) -> BySchema | None:
    """Return a schema for those conditions that have a schema; None if none has.

    Args:
        conditions: Those of a policy whose values are JSON.
    """
    schemas = {}
    for position, condition in enumerate(conditions):
        schema = schema_of(condition.tree) if condition.reads == {"value"} else None
        if schema is not None:
            schemas[position] = schema
    if not schemas:
        return None
    try:
        check = compile_made(all_of(list(schemas.values())))
    except ValueError:
        return None
    longest = min(conditions[position].always_allowed for position in schemas) / _BYTES_OF_WEIGHT
    return BySchema(frozenset(schemas), check, longest)
