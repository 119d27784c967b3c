"""CEL expressions, compiled once and evaluated for each record, by Google's C++."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.rules.functions import FUNCTIONS
from penstock.policies.schema_policy.rules.patterns import size_of
from penstock.policies.schema_policy.rules.weight import HEAVIEST, weighs_more_than

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.policies.schema_policy.rules.expression_tree import Facts

_LONGEST: Final = 4096
"""Bytes of an expression."""
_SMALL_PATTERN: Final = 20
"""States of regular expressions that any value may meet."""
_STATES_BY_WEIGHT: Final = 20_000_000
"""States, times characters of a value, of regular expressions with more states: RE2 then takes
up to a third of a second."""
_EXPLANATION_LONGEST: Final = 200
_NO_OVERLOAD: Final = "No matching overloads found"
_NOT_FOUND: Final = ("NOT_FOUND", "no_such_field", "Key not found")


class EvaluationError(Exception):
    """An expression has no result for a value; the text says why, and never what the value is."""


class Shared(dict[str, Any]):
    """Values of variables for several expressions of one language.

    CEL makes its own values of them once, when the first expression reads them.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._activation: Any = None

    def activation(self, environment: Any) -> Any:
        """Return them as a language's environment has them."""
        if self._activation is None:
            self._activation = environment.Activation({**self, "now": dt.datetime.now(dt.UTC)})
        return self._activation


class Language:
    """CEL with Confluent's functions, for expressions that read some variables.

    Args:
        variables: Their names. Each may have any type, which is found when it is evaluated.
        pool: The descriptors of Protobuf messages that the expressions meet.

    Raises:
        ValueError: The package that evaluates CEL is not installed.
    """

    def __init__(self, variables: Sequence[str], pool: Any = None) -> None:
        try:
            from cel_expr_python import cel  # noqa: PLC0415
            from cel_expr_python.ext import ext_math, ext_strings  # noqa: PLC0415
        except ImportError:
            raise ValueError("rules in CEL need: pip install 'penstock[rules]'") from None
        types: dict[str, Any] = dict.fromkeys(variables, cel.Type.DYN)
        types["now"] = cel.Type.TIMESTAMP
        functions = [
            cel.FunctionDecl(
                name,
                [
                    cel.Overload(
                        f"{name}_of_string",
                        return_type=cel.Type.BOOL,
                        parameters=[cel.Type.STRING],
                        is_member=True,
                        impl=function,
                    )
                ],
            )
            for name, function in FUNCTIONS.items()
        ]
        self.cel = cel
        self._environment = cel.NewEnv(
            pool,
            variables=types,
            functions=functions,
            extensions=[ext_strings.ExtStrings(), ext_math.ExtMath()],
        )

    def compile(self, text: str, *, may_be_text: bool = False) -> Program:
        """Compile an expression.

        Args:
            text: The expression.
            may_be_text: Whether the result may be a string: what is wrong, empty if nothing.

        Raises:
            InvalidSchemaError: It is no CEL, has another result, or could do more than is
                allowed. The text completes "its expression".
        """
        # Needs protobuf, which only the extra has.
        from penstock.policies.schema_policy.rules.expression_tree import (  # noqa: PLC0415
            examine,
        )

        if len(text.encode("utf-8", "replace")) > _LONGEST:
            raise InvalidSchemaError(f"has more than {_LONGEST} bytes")
        try:
            expression = self._environment.compile(text)
        except Exception as error:
            raise InvalidSchemaError(f"is not valid: {_first_line(error)}") from None
        kinds = self.cel.Type
        expected = [kinds.BOOL, kinds.DYN, *([kinds.STRING] if may_be_text else [])]
        if expression.return_type() not in expected:
            raise InvalidSchemaError("does not give true or false")
        facts = examine(expression.serialize())
        for pattern in facts.patterns:
            self._try_pattern(pattern)
        return Program(self.cel, self._environment, expression, facts)

    def _try_pattern(self, pattern: str) -> None:
        cel = self.cel
        environment = cel.NewEnv(variables={"pattern": cel.Type.STRING})
        result = environment.compile("''.matches(pattern)").eval(data={"pattern": pattern})
        if result.type() != cel.Type.BOOL:
            raise InvalidSchemaError("has a pattern that is no regular expression of RE2")


class Program:
    """A compiled expression."""

    __slots__ = (
        "_cel",
        "_environment",
        "_expression",
        "_heaviest",
        "_names",
        "_now",
        "_texts",
        "_typed",
    )

    def __init__(self, cel: Any, environment: Any, expression: Any, facts: Facts) -> None:
        self._cel = cel
        self._environment = environment
        self._expression = expression
        self._texts = facts.texts
        self._now = "now" in facts.names
        self._names = facts.names - {"now"}
        self._heaviest = _heaviest(facts)
        self._typed = expression.return_type() == cel.Type.BOOL

    def holds(self, data: Mapping[str, Any]) -> bool | str:
        """Evaluate.

        Args:
            data: The values of the variables; `Shared` where several programs read them.

        Returns:
            True if the condition holds. False, or a text that explains why, if it does not:
            the text is a constant of the expression, so it holds nothing of a record.

        Raises:
            EvaluationError: There is no result.
        """
        result = self._result(data)
        if self._typed:  # no need to ask for the type of what is true
            value = result.value()
            if value is True or value is False:
                return value
        kind, kinds = result.type(), self._cel.Type
        if kind == kinds.BOOL:
            return bool(result.value())
        if kind == kinds.STRING:
            text = result.value()
            if not text:
                return True
            return text if text in self._texts and len(text) <= _EXPLANATION_LONGEST else False
        if kind == kinds.ERROR:
            raise EvaluationError(_reason(str(result.value())))
        raise EvaluationError("it gives neither true nor false")

    def _result(self, data: Mapping[str, Any]) -> Any:
        read = {name: data[name] for name in self._names if name in data}
        if self._heaviest is not None:
            self._refuse_heavy(read, self._heaviest)
        try:
            if isinstance(data, Shared):
                return self._expression.eval(data.activation(self._environment))
            if self._now:
                read["now"] = dt.datetime.now(dt.UTC)
            return self._expression.eval(data=read)
        except Exception as error:
            raise EvaluationError(_reason(str(error))) from None

    @staticmethod
    def _refuse_heavy(read: Mapping[str, Any], heaviest: int) -> None:
        if weighs_more_than(list(read.values()), heaviest):
            raise EvaluationError(
                "it is too much work for a value of more than "
                f"{heaviest} characters, bytes and items"
            )


def _heaviest(facts: Facts) -> int | None:
    """Return the weight of the heaviest values that an expression is evaluated for."""
    states = sum(size_of(pattern) for pattern in facts.patterns)
    if facts.multiplies:
        return HEAVIEST // max(1, states // _SMALL_PATTERN)
    return None if states <= _SMALL_PATTERN else _STATES_BY_WEIGHT // states


def _reason(text: str) -> str:
    """Say why there is no result. CEL's own text may show the value: only its kind is told."""
    if "budget" in text:
        return "it takes more than 10000 steps"
    if any(sign in text for sign in _NOT_FOUND):
        return "a field or key that it reads is not there"
    if _NO_OVERLOAD in text:
        return "a value has a type that it cannot be used with"
    return "it ends with an error"


def _first_line(error: Exception) -> str:
    line = str(error).partition("\n")[0]
    return line.removeprefix("INVALID_ARGUMENT: ").removeprefix("ERROR: ")[:_EXPLANATION_LONGEST]
