"""The rules of a data contract: which of them are conditions that records are judged by.

Source: `ruleSet` of Confluent's data contracts; `AbstractKafkaSchemaSerDe.executeRules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.rules.options import (
    REGEX_ENGINE,
    RegexEngine,
    regex_engine,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_RULES_MOST: Final = 200
_LONGEST_SHOWN: Final = 200
_NO_GUARD: Final = "cel.ignore.guard.separator"


class RuleCondition(NamedTuple):
    """A condition that records are judged by.

    Attributes:
        failure_text: What it demands, for the person who runs the producer: its doc, or its
            expression.
        guard: Only if this holds, the condition is evaluated; may be empty.
        by_field: Whether it is about each field of the tags (CEL_FIELD), not the message (CEL).
        tags: Those tags; none of them means every field of a primitive type.
        engine: What `matches` means in it; None where the rule does not say so.
    """

    name: str
    failure_text: str
    guard: str
    expression: str
    by_field: bool
    tags: frozenset[str]
    engine: RegexEngine | None = None


class RuleSet(NamedTuple):
    """The rules of a data contract.

    Attributes:
        conditions: The conditions for records, in order.
        not_run: The rules that are not applied, and why, one line each.
        transformed_by: The name of a rule that changes values before they are sent, if any.
    """

    conditions: tuple[RuleCondition, ...]
    not_run: tuple[str, ...]
    transformed_by: str | None


def read_rule_set(rule_set: Mapping[str, Any], properties: Mapping[str, Any]) -> RuleSet:
    """Read the rules of a schema.

    Conditions before a rule that transforms the written value are about another value than
    the value that arrives: they are not applied.

    Args:
        rule_set: As from the registry.
        properties: `metadata.properties`, which may have parameters of rules, too.

    Raises:
        InvalidSchemaError: It does not follow the registry's API.
    """
    rules = _rules_of(rule_set, "domainRules")
    enabled_at = rule_set.get("enableAt") or "ALL"
    transforms = [
        position
        for position, rule in enumerate(rules)
        if enabled_at in ("ALL", "CLIENT") and _transforms(rule)
    ]
    conditions = []
    not_run = []
    for position, rule in enumerate(rules):
        reason = _why_not_run(rule, enabled_at)
        if reason is None and transforms and position < transforms[-1]:
            reason = f"the value is changed after it, by rule {_quoted(rules[transforms[-1]])}"
        if reason is None:
            conditions.append(_condition(rule, properties))
        else:
            not_run.append(f"rule {_quoted(rule)}: {reason}")
    not_run.extend(
        f"rule {_quoted(rule)}: it is for consumers that read by another version"
        for rule in _rules_of(rule_set, "migrationRules")
    )
    encodings = [rule for rule in _rules_of(rule_set, "encodingRules") if not rule.get("disabled")]
    not_run.extend(
        f"rule {_quoted(rule)}: type {rule.get('type')} changes payloads" for rule in encodings
    )
    change = rules[transforms[-1]] if transforms else None
    return RuleSet(tuple(conditions), tuple(not_run), None if change is None else _quoted(change))


def _rules_of(rule_set: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    rules = rule_set.get(key) or []
    if not isinstance(rules, list) or len(rules) > _RULES_MOST:
        raise InvalidSchemaError(f"ruleSet.{key} is not a list of at most {_RULES_MOST} rules")
    for rule in rules:
        if not isinstance(rule, dict) or not isinstance(rule.get("name"), str):
            raise InvalidSchemaError(f"ruleSet.{key} has a rule without a name")
    return rules


def _transforms(rule: Mapping[str, Any]) -> bool:
    return (
        _upper(rule, "kind") == "TRANSFORM"
        and _upper(rule, "mode") in ("WRITE", "WRITEREAD")
        and rule.get("disabled") is not True
    )


def _why_not_run(rule: Mapping[str, Any], enabled_at: Any) -> str | None:
    kind, mode, of_type = (_upper(rule, key) for key in ("kind", "mode", "type"))
    if rule.get("disabled") is True:
        return "it is disabled"
    if mode not in ("WRITE", "WRITEREAD"):
        return f"its mode is {mode or 'not given'}"
    if kind == "TRANSFORM":
        return f"type {of_type} changes values"
    if enabled_at == "CLIENT":
        return "its rule set is enabled at clients only"
    if enabled_at == "NONE":
        return "its rule set is enabled nowhere"
    if kind != "CONDITION":
        raise InvalidSchemaError(f"rule {_quoted(rule)} is neither a CONDITION nor a TRANSFORM")
    if _action(rule, mode) == "NONE":
        return "its onFailure is NONE"
    if of_type not in ("CEL", "CEL_FIELD"):
        raise InvalidSchemaError(
            f"rule {_quoted(rule)} has the type {of_type or 'null'}, which is not known"
        )
    return None


def _action(rule: Mapping[str, Any], mode: str) -> str | None:
    """Return the action for a failed rule.

    Source: `getRuleActionName`, by which a pair (of writing, and of reading) is one only in
    rules for both. An action of another name ends in an error, and so does `DLQ`.
    """
    action = rule.get("onFailure")
    if not isinstance(action, str):
        return None
    return action.partition(",")[0] if mode == "WRITEREAD" else action


def _condition(rule: Mapping[str, Any], properties: Mapping[str, Any]) -> RuleCondition:
    expression = rule.get("expr")
    if not isinstance(expression, str) or not expression.strip():
        raise InvalidSchemaError(f"rule {_quoted(rule)} has no expression")
    doc = rule.get("doc")
    shown = doc if isinstance(doc, str) and doc else expression.strip()
    guard = ""
    parameters = {**properties, **(rule.get("params") or {})}
    if ";" in expression and str(parameters.get(_NO_GUARD)).lower() != "true":
        guard, _, expression = expression.partition(";")
    engine = parameters.get(REGEX_ENGINE)
    try:
        chosen = regex_engine(engine) if isinstance(engine, str) and engine else None
    except ValueError as error:
        raise InvalidSchemaError(f"rule {_quoted(rule)}: {error}") from None
    tags = rule.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidSchemaError(f"rule {_quoted(rule)} has no list of tags")
    return RuleCondition(
        rule["name"],
        shorten(shown),
        guard.strip(),
        expression.strip(),
        _upper(rule, "type") == "CEL_FIELD",
        frozenset(tags),
        chosen,
    )


def _upper(rule: Mapping[str, Any], key: str) -> str:
    value = rule.get(key)
    return value.upper() if isinstance(value, str) else ""


def _quoted(rule: Mapping[str, Any]) -> str:
    return f'"{shorten(rule["name"])}"'


def shorten(text: str) -> str:
    """Return a text of a schema as it is shown: on one line, and not longer than that."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_SHOWN else line[: _LONGEST_SHOWN - 1] + "…"
