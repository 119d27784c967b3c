"""Conditions about JSON values that are judged natively, by a schema with the same meaning."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

from penstock.policies.json_schema.made import compile_made
from penstock.policies.rules.schemas import all_of, schema_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

    def __init__(
        self, schemas: Mapping[int, Schema], false_schemas: Mapping[int, Schema], longest: float
    ) -> None:
        """Compile the schemas of conditions.

        Args:
            schemas: By the positions of the conditions.
            false_schemas: Those of values for which conditions are false.
            longest: See the attribute.

        Raises:
            ValueError: They cannot be used.
        """
        self._schemas = schemas
        self._false_schemas = false_schemas
        self.conditions = frozenset(schemas)
        self.check = compile_made(all_of(list(schemas.values())))
        self.longest = longest

    def not_true(self, values: Sequence[bytes | None]) -> dict[int, dict[int, bool]]:
        """Return which conditions may not be true, by the positions of values.

        With each condition comes whether it is known to be false; if not, it has to be evaluated.
        """
        refused = self.check.unfit(values)
        not_true: dict[int, dict[int, bool]] = {}
        if refused:
            not_true = {position: {} for position in refused}
            texts = [values[position] for position in refused]
            for condition, check in self._checks.items():
                unfit = check.unfit(texts)
                flags = self._false(condition, [texts[index] for index in unfit])
                for index, is_false in zip(unfit, flags, strict=True):
                    not_true[refused[index]][condition] = is_false
        if self._longest_of(values) > self.longest:
            for position, value in enumerate(values):
                if value is not None and len(value) > self.longest:
                    not_true[position] = dict.fromkeys(self.conditions, False)
        return not_true

    def _false(self, condition: int, texts: Sequence[bytes | None]) -> Sequence[bool]:
        """Return for which values a condition is known to be false."""
        check = self._opposites.get(condition)
        if check is None or not texts:
            return [False] * len(texts)
        others = frozenset(check.unfit(texts))
        return [index not in others for index in range(len(texts))]

    @cached_property
    def _opposites(self) -> Mapping[int, Check]:
        """The judges of values for which single conditions are false, where there are such."""
        checks = {}
        for position, schema in self._false_schemas.items():
            with suppress(ValueError):
                checks[position] = compile_made(schema)
        return checks

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
    schemas, false_schemas = {}, {}
    for position, condition in enumerate(conditions):
        schema = schema_of(condition.tree) if condition.reads == {"value"} else None
        if schema is not None:
            schemas[position] = schema
            opposite = schema_of(condition.tree, holds=False)
            if opposite is not None:
                false_schemas[position] = opposite
    if not schemas:
        return None
    longest = min(conditions[position].always_allowed for position in schemas) / _BYTES_OF_WEIGHT
    try:
        return BySchema(schemas, false_schemas, longest)
    except ValueError:
        return None
