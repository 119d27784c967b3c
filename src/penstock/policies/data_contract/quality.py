"""The quality rules of a contract: which of them are about a single record.

Those that count records with a flaw and allow none of them are: `nullValues`, `missingValues` and
`invalidValues`. Any other is about a data set, or in a language of another tool.
"""

from __future__ import annotations

import difflib
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.policies.data_contract.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_RECORD_METRICS: Final = frozenset({"nullValues", "missingValues", "invalidValues"})
_METRICS: Final = (*sorted(_RECORD_METRICS), "duplicateValues", "rowCount")
_OF_BEFORE: Final = ("validValues", "duplicateCount")
"""Rules of ODCS 3.0, whose documentation uses them as examples instead of metrics."""
_TYPES: Final = ("library", "sql", "text", "custom")
_UNITS: Final = ("rows", "percent")
_CLOSE: Final = 0.8
_NAME_MAX: Final = 100
_PAIR: Final = 2
_PERCENT: Final = frozenset({"percent", "percentage", "%"})
OPERATORS: Final = (
    "mustBe", "mustNotBe", "mustBeGreaterThan", "mustBeGreaterOrEqualTo", "mustBeLessThan",
    "mustBeLessOrEqualTo", "mustBeBetween", "mustNotBeBetween",
)  # fmt: skip


_WITHOUT_EFFECT: Final = frozenset({"info", "warning"})
"""Severities of rules that are reported, and break nothing."""


class Concern(Enum):
    """What a rule is about that is not judged record by record."""

    DATA_SET = "data set"
    OTHER_TOOL = "other tool"
    UNKNOWN = "unknown"


class NotJudged(NamedTuple):
    """A rule of a contract that is not judged on the wire.

    Attributes:
        place: The object, or the property, that it is about.
        name: What it is called there.
        concern: What it is about.
        why: Why it is not judged.
    """

    place: str
    name: str
    concern: Concern
    why: str

    def __str__(self) -> str:
        """Return it as a line for people."""
        return f"{self.place}: {self.name}: {self.why}"


def schema_of_rule(
    rule: Mapping[str, Any], place: str, *, of_property: bool
) -> dict[str, Any] | NotJudged:
    """Return the JSON Schema of a rule for a value that is present, or why there is none.

    The key `required` of it is True where a value has to be there, and not null.

    Args:
        rule: As it is written.
        place: What it is about, for messages.
        of_property: Whether that is a property.

    Raises:
        ContractError: It is wrong.
    """
    metric = rule.get("metric") or rule.get("rule")
    kind = rule.get("type") or ("library" if metric else "text")
    name = name_of_rule(rule)
    check_spelling(str(kind), _TYPES, f"{place}: type of rule {name}")
    if kind != "library":
        why = f"a rule of type {kind} is not judged"
        return NotJudged(place, name, Concern.OTHER_TOOL, why)
    if not isinstance(metric, str):
        raise ContractError(f"{place}: rule {name} of type library has no metric")
    if metric not in _OF_BEFORE:
        check_spelling(metric, _METRICS, f"{place}: metric")
    check_spelling(str(rule.get("unit", "rows")), _UNITS, f"{place}: unit of rule {name}")
    if metric not in _RECORD_METRICS or not of_property:
        return NotJudged(place, name, Concern.DATA_SET, f"{metric} is about the data set")
    _check_thresholds(rule, place, name)
    if not is_error(rule):
        why = f"severity {severity_of(rule)} refuses no record"
        return NotJudged(place, name, Concern.DATA_SET, why)
    if not _allows_none(rule, place, name):
        why = f"{metric} has a threshold other than 0, which is about the data set"
        return NotJudged(place, name, Concern.DATA_SET, why)
    return schema_of_metric(metric, rule, place, name)


def check_spelling(name: str, valid_names: Collection[str], where: str) -> None:
    """Refuse a name that is close to a known one; others are not judged.

    Raises:
        ContractError: It is misspelt.
    """
    close = difflib.get_close_matches(name[:_NAME_MAX], valid_names, n=1, cutoff=_CLOSE)
    if close and name not in valid_names and name.lower() not in _PERCENT:
        raise ContractError(f"{where}: {name} is unknown; did you mean {close[0]}?")


def _check_thresholds(rule: Mapping[str, Any], place: str, name: str) -> None:
    """Refuse a threshold that is not a number.

    Raises:
        ContractError: It is wrong.
    """
    for operator in OPERATORS:
        limit = rule.get(operator)
        is_pair = operator.endswith("Between")
        numbers = limit if is_pair and isinstance(limit, list) else [limit]
        is_wrong = any(
            isinstance(number, bool) or not isinstance(number, (int, float)) for number in numbers
        )
        if limit is not None and (is_wrong or (is_pair and len(numbers) != _PAIR)):
            what = "two numbers" if is_pair else "a number"
            raise ContractError(f"{place}: {operator} of rule {name} must be {what}, not {limit!r}")


def name_of_rule(rule: Mapping[str, Any]) -> str:
    """Return the name of a rule."""
    metric = rule.get("metric") or rule.get("rule")
    kind = rule.get("type") or ("library" if metric else "text")
    return str(rule.get("name") or rule.get("id") or metric or kind)[:100]


def severity_of(rule: Mapping[str, Any]) -> str:
    """Return the severity of a rule; empty if it has none."""
    return str(rule.get("severity") or "").strip().lower()


def is_error(rule: Mapping[str, Any]) -> bool:
    """Return whether a rule that is broken is an error."""
    return severity_of(rule) not in _WITHOUT_EFFECT


def is_percent(rule: Mapping[str, Any]) -> bool:
    """Return whether a rule is about a share."""
    return str(rule.get("unit", "")).strip().lower() in _PERCENT


def schema_of_metric(
    metric: str, rule: Mapping[str, Any], place: str, name: str
) -> dict[str, Any] | NotJudged:
    """Return the JSON Schema that `nullValues`, `missingValues` or `invalidValues` means.

    Raises:
        ContractError: Its arguments are wrong.
    """
    if metric == "nullValues":
        return {"required": True}
    arguments = rule.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise ContractError(f"{place}: arguments of rule {name} must be a mapping")
    if metric == "missingValues":
        values = _values(arguments, "missingValues", place, name)
        schema: dict[str, Any] = {"not": {"enum": values}} if values else {}
        return {**schema, "required": True}
    valid = _values(arguments, "validValues", place, name)
    pattern = arguments.get("pattern")
    if valid is None and not isinstance(pattern, str):
        why = "invalidValues has neither validValues nor a pattern among its arguments"
        return NotJudged(place, name, Concern.UNKNOWN, why)
    schema = {} if valid is None else {"enum": [*valid, None]}
    return schema if pattern is None else {**schema, "pattern": str(pattern)}


def _values(arguments: Mapping[str, Any], key: str, place: str, name: str) -> list[Any] | None:
    values = arguments.get(key)
    if values is None:
        return None
    if not isinstance(values, list) or not all(
        value is None or isinstance(value, (str, int, float, bool)) for value in values
    ):
        raise ContractError(f"{place}: {key} of rule {name} must be a list of values")
    return values


def _allows_none(rule: Mapping[str, Any], place: str, name: str) -> bool:
    """Return whether the threshold of a rule is 0."""
    thresholds = {key: rule[key] for key in OPERATORS if rule.get(key) is not None}
    if not thresholds:
        raise ContractError(f"{place}: rule {name} has none of {', '.join(OPERATORS)}")
    if len(thresholds) > 1:
        return False
    ((operator, value),) = thresholds.items()
    if operator in {"mustBe", "mustBeLessOrEqualTo"}:
        return _is_zero(value)
    if operator == "mustBeLessThan":
        return not is_percent(rule) and isinstance(value, (int, float)) and 0 < value <= 1
    if operator == "mustBeBetween":
        return isinstance(value, list) and len(value) > 0 and all(map(_is_zero, value))
    return False


def _is_zero(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0
