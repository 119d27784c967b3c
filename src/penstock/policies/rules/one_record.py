"""A record as conditions see it: each part is read when it is needed, and once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.policies.rules.errors import UnreadableError
from penstock.policies.rules.variables import instant, last_headers
from penstock.policies.schema_policy.rules.values import EvaluationError
from penstock.policies.schema_policy.rules.variables import Variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.policies.rules.condition import Condition
    from penstock.policies.rules.formats import Reader
    from penstock.policies.rules.paths import Fields
    from penstock.policy import BatchProxy

_PARTS: Final = ("key", "value", "headers", "timestamp")
_TOO_DEEP: Final = "the record is nested too deeply for the rules"


class Side(Protocol):
    """How keys or values are read, and which fields of them."""

    @property
    def reader(self) -> Reader: ...
    @property
    def fields(self) -> Fields | None: ...


class OneRecord:
    """A record of a batch."""

    def __init__(
        self,
        sides: Mapping[str, Side],
        headers: Fields | None,
        batch: BatchProxy,
        position: int,
        shared: Mapping[str, Any],
    ) -> None:
        """Remember where the record is.

        Args:
            sides: How `key` and `value` are read.
            headers: The names of headers that are read; None for all of them.
            batch: The batch that it is in.
            position: Its place there.
            shared: The variables that are the same for all records.
        """
        self._sides = sides
        self._headers = headers
        self._batch = batch
        self._position = position
        self._shared_values = shared
        self._parts: dict[str, Any] = {}

    def objection(self, conditions: Sequence[Condition]) -> str | None:
        """Return the first objection of a condition; None where all of them are true.

        A condition that reads the value is not evaluated without a value.
        """
        try:
            return next((text for _, text in self._objections(conditions)), None)
        except RecursionError:
            return _TOO_DEEP

    def objections(self, conditions: Sequence[Condition]) -> list[tuple[Condition, str]]:
        """Return the objections of all conditions, first that which `objection` returns."""
        try:
            return list(self._objections(conditions))
        except RecursionError:
            each = [(condition, self.objection((condition,))) for condition in conditions]
            texts = [(condition, text) for condition, text in each if text is not None]
            return sorted(texts, key=lambda objection: objection[1] != _TOO_DEEP)

    def _objections(self, conditions: Sequence[Condition]) -> Iterator[tuple[Condition, str]]:
        if "value" in self._read_by(conditions) and self._batch.values[self._position] is None:
            conditions = [condition for condition in conditions if "value" not in condition.reads]
        values, flaws = self._given(self._read_by(conditions))
        variables = Variables(values, is_shared=len(conditions) > 1)
        for condition in conditions:
            text = _without_part(condition, flaws) if flaws else None
            if text is None:
                text = condition.objection(variables)
            if text is not None:
                yield condition, text

    def _given(
        self, names: set[str]
    ) -> tuple[dict[str, Any], dict[str, UnreadableError | EvaluationError]]:
        """Return the variables that are read, and why others of these have no value."""
        values: dict[str, Any] = dict(self._shared_values)
        flaws: dict[str, UnreadableError | EvaluationError] = {}
        for name in _PARTS:
            if name not in names:
                continue
            if name not in self._parts:
                try:
                    self._parts[name] = self._part(name)
                except (UnreadableError, EvaluationError) as error:
                    self._parts[name] = error
            part = self._parts[name]
            if isinstance(part, (UnreadableError, EvaluationError)):
                flaws[name] = part
            else:
                values[name] = part
        return values, flaws

    def _read_by(self, conditions: Sequence[Condition]) -> set[str]:
        return {name for condition in conditions for name in condition.reads}

    def _part(self, name: str) -> Any:
        if name == "headers":
            return last_headers(self._batch.headers[self._position], self._headers)
        if name == "timestamp":
            return instant(self._batch.timestamps[self._position])
        column = self._batch.keys if name == "key" else self._batch.values
        data = column[self._position]
        if data is None:
            return None
        side = self._sides[name]
        return side.reader.read(data, side.fields, self._batch.headers[self._position])


def _without_part(
    condition: Condition, flaws: Mapping[str, UnreadableError | EvaluationError]
) -> str | None:
    """Return the objection of a condition that reads a part without a value; None if none has."""
    for name in sorted(condition.reads & flaws.keys()):
        flaw = flaws[name]
        return (
            f"the {name} {flaw}"
            if isinstance(flaw, UnreadableError)
            else condition.without_result(flaw)
        )
    return None
