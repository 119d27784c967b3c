"""A rule, compiled: evaluated over the variables of a record or of a batch."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from penstock.policies.rules.hints import hint_at
from penstock.policies.rules.paths import fields_read
from penstock.policies.rules.variables import OF_CLIENTS
from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.rules.program import Language
from penstock.policies.schema_policy.rules.values import EvaluationError
from penstock.policies.schema_policy.rules.variables import Variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.policies.rules.settings import RuleText
    from penstock.policies.schema_policy.rules.checked import Tree
    from penstock.policies.schema_policy.rules.program import Program


class Condition:
    """A rule that can be evaluated.

    Attributes:
        name: The rule's name.
        key: The key that declares it.
        fields: The fields of the value that it reads, at the top level; none if it reads all of it.
        reads: The variables that it reads, without `now`.
        tree: What it consists of.
        always_allowed: A value that weighs no more is never too much work for it.
    """

    __slots__ = (
        "_failure_text",
        "_program",
        "_title",
        "always_allowed",
        "fields",
        "key",
        "name",
        "reads",
        "tree",
    )

    def __init__(self, rule: RuleText, language: Language, variables: Mapping[str, str]) -> None:
        """Compile a rule.

        Raises:
            ValueError: Its condition cannot be used; the text names its key.
        """
        self._program = _compiled(rule, language, variables)
        self.name = rule.name
        self.key = rule.key
        self.reads = self._program.reads & variables.keys()
        self.tree: Tree = self._program.tree
        self.fields = tuple(sorted(fields_read([self.tree], "value") or ()))
        self.always_allowed = self._program.always_allowed
        self._title = f'rule "{rule.name}"'
        self._failure_text = rule.failure_text
        is_constant = not self._program.reads and fields_read([self.tree], "now") == {}
        closes = rule.expression.strip() == "false"  # written so, it is meant
        if is_constant and not closes and self.objection(Variables({})) is not None:
            raise ValueError(f"{rule.key}: its condition is never true for any record")
        fields = fields_read([self.tree], "client") or {}
        for name in fields.keys() - OF_CLIENTS:
            raise ValueError(
                f"{rule.key}: client has no {name}; it has {', '.join(sorted(OF_CLIENTS))}"
            )

    def objection(self, variables: Variables) -> str | None:
        """Return the message if the condition is not true, and None if it is."""
        try:
            result = self._program.holds(variables)
        except EvaluationError as error:
            return self.without_result(error)
        return None if result is True else self.failed_text

    @property
    def failed_text(self) -> str:
        """The message if the condition is false."""
        return f"{self._title} failed: {self._failure_text}"

    def without_result(self, error: EvaluationError) -> str:
        """Return the message for a condition that is neither true nor false."""
        return f"{self._title} has no result: {error}: {self._failure_text}"


class KnownFalse(Condition):
    """A condition, for records for which it is known to be false."""

    __slots__ = ("_text",)

    def __init__(self, condition: Condition) -> None:
        self.name, self.key, self.fields = condition.name, condition.key, condition.fields
        self.reads = frozenset()
        self._text = condition.failed_text

    def objection(self, variables: Variables) -> str:
        """Return the message."""
        del variables
        return self._text


def compile_conditions(
    rules: Sequence[RuleText],
    variables: Mapping[str, str],
    messages: Mapping[str, Any] = MappingProxyType({}),
) -> list[Condition]:
    """Compile rules that read the same variables.

    Args:
        variables: The variables, with their types.
        messages: The descriptors of variables that are Protobuf messages, all of one pool.

    Raises:
        ValueError: A rule cannot be used, or a package is missing.
    """
    if not rules:
        return []
    pool = next((message.file.pool for message in messages.values()), None)
    language = Language(tuple(variables), pool, types=variables, of_file=True)
    if messages:  # only here are fields and their types known before there is a record
        names = {name: message.full_name for name, message in messages.items()}
        checking = Language(tuple(variables), pool, types=variables, messages=names, of_file=True)
        for rule in rules:
            _compiled(rule, checking, variables)
    return [Condition(rule, language, variables) for rule in rules]


def _compiled(rule: RuleText, language: Language, variables: Mapping[str, str]) -> Program:
    try:
        return language.compile(rule.expression, only_bool=True)
    except InvalidSchemaError as error:
        hint = hint_at(str(error), rule.expression, variables)
        raise ValueError(f"{rule.key}: its condition {error}; {hint}") from None
