"""Conditions about JSON values that are judged natively, by a schema with the same meaning."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from penstock.policies.json_schema.made import compile_made
from penstock.policies.rules.schemas import all_of, schema_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.policies.json_schema.check import Check
    from penstock.policies.rules.condition import Condition
    from penstock.policies.rules.schemas import Schema

_BYTES_OF_WEIGHT: Final = 8
"""The most that a value weighs, as a multiple of the bytes of its text."""


class BySchema:
    """Conditions, and a schema: they are true for every value that fits it.

    Attributes:
        conditions: Their positions among the rules.
        check: Judges by the schema of all of them.
        longest: Only texts of no more bytes are judged by it: for longer texts, a condition may be
            too much work.
    """

    def __init__(self, schemas: Mapping[int, Schema], longest: float) -> None:
        """Compile the schemas of conditions.

        Args:
            schemas: By the positions of the conditions.

        Raises:
            ValueError: They cannot be used.
        """
        self._schemas = schemas
        self.conditions = frozenset(schemas)
        self.check = compile_made(all_of(list(schemas.values())))
        self.longest = longest

    def not_known(self, values: Sequence[bytes | None]) -> dict[int, Collection[int]]:
        """Return for which values which conditions have to be evaluated, by position."""
        refused = self.check.unfit(values)
        not_known: dict[int, Collection[int]] = {}
        if refused:
            not_known = {position: set() for position in refused}
            texts = [values[position] for position in refused]
            for condition, check in self._checks.items():
                for index in check.unfit(texts):
                    not_known[refused[index]].add(condition)  # type: ignore[attr-defined]
        if self._longest_of(values) > self.longest:
            for position, value in enumerate(values):
                if value is not None and len(value) > self.longest:
                    not_known[position] = self.conditions
        return not_known

    @cached_property
    def _checks(self) -> Mapping[int, Check]:
        """The judges of single conditions, which the first value needs that does not fit."""
        return {position: compile_made(schema) for position, schema in self._schemas.items()}

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
    longest = min(conditions[position].always_allowed for position in schemas) / _BYTES_OF_WEIGHT
    try:
        return BySchema(schemas, longest)
    except ValueError:
        return None
