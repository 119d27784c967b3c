"""CEL expressions, compiled once and evaluated for each record, by Google's C++."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.rules.checked import (
    names_in,
    patterns_in,
    read_tree,
    rewritten,
    texts_in,
)
from penstock.policies.schema_policy.rules.constants import check_constants
from penstock.policies.schema_policy.rules.declared import PREFIX, declared, pool_with_decimals
from penstock.policies.schema_policy.rules.mixed_numbers import with_mixed_numbers
from penstock.policies.schema_policy.rules.options import REGEX_ENGINE, RegexEngine
from penstock.policies.schema_policy.rules.values import EvaluationError
from penstock.policies.schema_policy.rules.whole_match import FUNCTION as MATCHES_WHOLE
from penstock.policies.schema_policy.rules.whole_match import (
    is_pattern,
    rewrite,
    whole,
)
from penstock.policies.schema_policy.rules.work import MOST, always_allowed, work_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.policies.schema_policy.rules.checked import Tree
    from penstock.policies.schema_policy.rules.variables import Variables

_LONGEST: Final = 4096
"""Bytes of an expression."""
_ERROR: Final = re.compile(r"ERROR: .*")
_TWO_NUMBERS: Final = r"(?:int|uint|double), (?:int|uint|double)"
_IS_COMPARISON: Final = re.compile(
    rf"overload for '_(?:<|<=|>|>=|==|!=)_' applied to '\({_TWO_NUMBERS}\)'"
)
_IS_ABOUT_NUMBERS: Final = re.compile(
    rf"overload for (?:'_(?:<|<=|>|>=|==|!=|\+|-|\*|/)_' applied to '\({_TWO_NUMBERS}\)'"
    rf"|'_\?_:_' applied to '\(bool, {_TWO_NUMBERS}\)'"
    r"|'math\.(?:ceil|floor|round|trunc|isFinite|isInf|isNaN)' applied to '\(u?int\)')"
)
"""What CEL's check refuses and mixed numbers allow."""
_TEXT_OR_FRACTION: Final = re.compile(
    r"""[rRbB]{0,2}(?:\"{3}.*?\"{3}|'{3}.*?'{3})|//[^\n]*"""
    r"""|(?<![rR])"(?:\\.|[^"\\])*"|(?<![rR])'(?:\\.|[^'\\])*'|"[^"]*"|'[^']*'"""
    r"""|(?P<fraction>(?<![\w.)\]])(?:\d*\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+))""",
    re.DOTALL,
)
_IS_FOR_OURS: Final = re.compile(
    r"ERROR: [^:]*:(\d+):(\d+): (?:undeclared reference to 'timestamp'"
    r"|found no matching overload for '(?:string|double)' applied to "
    r"'\(confluent\.type\.Decimal\)')"
)
_NAME_AT_END: Final = re.compile(r"(?<![\w.])(?:string|double|timestamp)\s*$")
_EXPLANATION_LONGEST: Final = 200
_NO_OVERLOAD: Final = "No matching overloads found"
_OF_ANOTHER_TYPE: Final = (_NO_OVERLOAD, "SELECT to non-message type")
_TOO_LARGE: Final = "integer overflow"
_BY_ZERO: Final = ("divide by zero", "modulus by zero")
_NO_TIMESTAMP: Final = "String to Timestamp conversion failed"
TEXTS: Final = "texts"
"""The type of a map from texts to texts, which `cel.Type` has no name for."""
_NEITHER: Final = "it gives neither true nor false"
_NOT_FOUND: Final = ("NOT_FOUND", "no_such_field", "Key not found")


class Language:
    """CEL with Confluent's functions, for expressions that read some variables.

    Args:
        variables: Their names. Each may have any type, which is found when it is evaluated.
        types: The types of some of them, by the names that `cel.Type` has for them, or
            `TEXTS`.
        messages: The full names of the Protobuf messages that some of them are.
        pool: The descriptors of Protobuf messages that the expressions meet.
        container: The package whose messages may be named without it.
        of_file: Whether the expressions are in the configuration: arithmetic takes whole
            numbers and fractions together, as `mixed_numbers` describes, and constants without a
            result are refused. Rules of a schema registry are as CEL has them.

    Raises:
        ValueError: The package that evaluates CEL is not installed.
    """

    def __init__(
        self,
        variables: Sequence[str],
        pool: Any = None,
        container: str | None = None,
        *,
        types: Mapping[str, str] = MappingProxyType({}),
        messages: Mapping[str, str] = MappingProxyType({}),
        of_file: bool = False,
    ) -> None:
        try:
            from cel_expr_python import cel  # noqa: PLC0415
            from cel_expr_python.ext import ext_math, ext_strings  # noqa: PLC0415
        except ImportError:
            raise ValueError("rules in CEL need: pip install 'penstock-kafka[rules]'") from None
        of_names: dict[str, Any] = dict.fromkeys(variables, cel.Type.DYN)
        texts = cel.Type.Map(cel.Type.STRING, cel.Type.STRING)
        of_names |= {
            name: texts if kind == TEXTS else getattr(cel.Type, kind)
            for name, kind in types.items()
        }
        of_names |= {name: cel.Type(message) for name, message in messages.items()}
        of_names["now"] = cel.Type.TIMESTAMP
        self.cel = cel
        self._of_file = of_file
        self._more = "it has no look-around" if of_file else f"{REGEX_ENGINE}=pcre supports more"
        self._environment = cel.NewEnv(
            pool_with_decimals(pool),
            variables=of_names,
            functions=declared(cel),
            extensions=[ext_strings.ExtStrings(), ext_math.ExtMath()],
            container=container,
        )

    def compile(
        self,
        text: str,
        *,
        may_be_text: bool = False,
        only_bool: bool = False,
        engine: RegexEngine = RegexEngine.RE2,
    ) -> Program:
        """Compile an expression.

        Args:
            engine: The engine of `matches` in it.
            only_bool: Whether a string is never a valid result.
            may_be_text: Whether the result may be a string: the fault, empty if there is none.

        Raises:
            InvalidSchemaError: It is no CEL, or has another result. The text completes "its
                expression".
        """
        if len(text.encode("utf-8", "replace")) > _LONGEST:
            raise InvalidSchemaError(f"has more than {_LONGEST} bytes")
        expression, returned, compiled_text = self._compiled(text)
        kinds = self.cel.Type
        expected = [kinds.BOOL, kinds.DYN, *([kinds.STRING] if may_be_text else [])]
        if returned not in expected:
            raise InvalidSchemaError("does not return true or false")
        serialized = expression.serialize()
        if engine is RegexEngine.PCRE:
            serialized = self._of_whole_texts(serialized)
            expression = self._environment.deserialize(serialized)
        tree = read_tree(serialized)
        for pattern in patterns_in(tree, "matches"):
            if not self._takes(pattern):
                raise InvalidSchemaError(
                    f"has a pattern that is not a regular expression of RE2; {self._more}"
                )
        return Program(
            self.cel,
            self._environment,
            Evaluable.of(expression, tree),
            self._mixed(compiled_text),
            is_bool=returned == kinds.BOOL,
            only_bool=only_bool,
        )

    def _compiled(self, text: str) -> tuple[Any, Any, str]:
        """Compile, with what Confluent's clients have and CEL's own check does not.

        These are comparisons between kinds of numbers, which CEL's evaluation supports
        nevertheless, and more arguments for functions of CEL, which are other functions here.

        Returns:
            The expression, the type of its result, and the text that CEL compiled.
        """
        try:
            expression = self._environment.compile(text)
            return expression, expression.return_type(), text
        except Exception as error:
            error_text = str(error)
        wrong = _ERROR.findall(error_text)
        allowed = _IS_ABOUT_NUMBERS if self._of_file else _IS_COMPARISON
        if wrong and all(allowed.search(line) for line in wrong):
            expression = self._environment.compile(text, disable_check=True)
            return expression, self._returned(text) or expression.return_type(), text
        amended = _amended(text, wrong)
        if amended == text:
            others = [line for line in wrong if not allowed.search(line)]
            raise InvalidSchemaError(
                f"is not valid: {_first_line(others[0] if others else error_text)}"
            )
        return self._compiled(amended)

    def _returned(self, text: str) -> Any:
        """Return the type of an expression's result where its fractions are of any type.

        Returns:
            None where that is not known.

        Raises:
            InvalidSchemaError: CEL's check finds a fault that has nothing to do with numbers.
        """
        if not self._of_file:
            return None
        try:
            return self._environment.compile(_with_any_numbers(text)).return_type()
        except Exception as error:
            wrong = _ERROR.findall(str(error))
        for line in wrong:
            if not _IS_ABOUT_NUMBERS.search(line):
                raise InvalidSchemaError(f"is not valid: {_first_line(line)}")
        return None

    def _mixed(self, text: str) -> Evaluable | None:
        """Return an expression whose arithmetic mixes numbers; None without arithmetic.

        Raises:
            InvalidSchemaError: A constant of it has no result.
        """
        if not self._of_file:
            return None
        parsed = self._environment.compile(text, disable_check=True).serialize()
        check_constants(self.cel, self._environment, parsed)
        serialized = with_mixed_numbers(parsed)
        if serialized is None:
            return None
        return Evaluable.of(self._environment.deserialize(serialized), read_tree(serialized))

    def _of_whole_texts(self, serialized: bytes) -> bytes:
        """Return an expression in which `matches` is about complete texts."""
        expression = rewritten(
            serialized, "matches", lambda call: rewrite(call, lambda text: self._takes(whole(text)))
        )
        for pattern in patterns_in(read_tree(expression), MATCHES_WHOLE):
            if not is_pattern(pattern):
                raise InvalidSchemaError("has a pattern that is not a regular expression")
        return expression

    def _takes(self, pattern: str) -> bool:
        """Return whether RE2 takes a pattern."""
        cel = self.cel
        environment = cel.NewEnv(variables={"pattern": cel.Type.STRING})
        result = environment.compile("''.matches(pattern)").eval(data={"pattern": pattern})
        return bool(result.type() == cel.Type.BOOL)


class Evaluable(NamedTuple):
    """An expression of CEL.

    Attributes:
        tree: What it consists of.
        always_allowed: Values that weigh no more are never too much work.
    """

    expression: Any
    tree: Tree
    always_allowed: float

    @classmethod
    def of(cls, expression: Any, tree: Tree) -> Evaluable:
        """Return an expression with its bound."""
        return cls(expression, tree, always_allowed(tree))


class Program:
    """A compiled expression.

    Attributes:
        reads: The variables that it reads, without `now`.
        tree: What it consists of.
        always_allowed: Values that weigh no more are never too much work.
    """

    __slots__ = (
        "_environment",
        "_evaluable",
        "_is_typed",
        "_kinds",
        "_mixed_program",
        "_only_bool",
        "_reads_now",
        "_texts",
        "always_allowed",
        "reads",
        "tree",
    )

    def __init__(
        self,
        cel: Any,
        environment: Any,
        evaluable: Evaluable,
        mixed: Evaluable | None,
        *,
        is_bool: bool,
        only_bool: bool,
    ) -> None:
        self._kinds = cel.Type
        self._environment = environment
        self._evaluable = evaluable
        self._mixed_program = mixed
        self.tree = tree = evaluable.tree
        self.always_allowed = evaluable.always_allowed
        names = names_in(tree)
        self._reads_now = "now" in names
        self.reads = names - {"now"}
        self._texts = texts_in(tree)
        self._is_typed = is_bool
        self._only_bool = only_bool

    def holds(self, variables: Variables) -> bool | str:
        """Evaluate.

        Args:
            variables: What the variables hold.

        Returns:
            True if the condition holds. False, or a text that explains why, if it does not:
            the text is a constant of the expression, so it holds nothing of a record.

        Raises:
            EvaluationError: There is no result.
        """
        result = self._result(self._evaluable, variables)
        if self._is_typed:  # the type of a true result is known
            value = result.value()
            if value is True or value is False:
                return value
        kind, kinds = result.type(), self._kinds
        if kind == kinds.ERROR and self._mixed_program is not None and _may_be_numbers(result):
            # Where there is no error, mixed numbers give the same result, in more time.
            result = self._result(self._mixed_program, variables)
            kind = result.type()
        if kind == kinds.BOOL:
            return bool(result.value())
        if kind == kinds.STRING and not self._only_bool:
            text = result.value()
            if not text:
                return True
            return text if text in self._texts and len(text) <= _EXPLANATION_LONGEST else False
        if kind == kinds.ERROR:
            raise EvaluationError(reason_of(str(result.value())))
        raise EvaluationError(_NEITHER)

    def _result(self, evaluable: Evaluable, variables: Variables) -> Any:
        values, weight = variables.read(self.reads, now=self._reads_now)
        if (
            weight > evaluable.always_allowed
            and work_of(evaluable.tree, variables.size(self.reads)) > MOST
        ):
            raise EvaluationError("it would be too much work for a value of this size")
        shared = variables.activation(self._environment)
        try:
            if shared is not None:
                return evaluable.expression.eval(shared)
            return evaluable.expression.eval(data=values)
        except Exception as error:
            raise EvaluationError(reason_of(str(error))) from None


def _may_be_numbers(result: Any) -> bool:
    text = str(result.value())
    return _NO_OVERLOAD in text or _TOO_LARGE in text


def _with_any_numbers(text: str) -> str:
    """Return an expression in which CEL's check takes a fraction for a value of any type."""
    return _TEXT_OR_FRACTION.sub(
        lambda match: f"dyn({match[0]})" if match["fraction"] else match[0], text
    )


def _amended(text: str, errors: Sequence[str]) -> str:
    """Return an expression that calls functions of ours where its calls have no overload of CEL's.

    Args:
        errors: Its faults, each with the line and the column.
    """
    lines = text.split("\n")
    places = (_IS_FOR_OURS.match(error) for error in errors)
    positions = sorted({(int(place[1]), int(place[2])) for place in places if place}, reverse=True)
    for line, column in positions:
        head, tail = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
        name = _NAME_AT_END.search(head)
        if name is not None:
            lines[line - 1] = f"{head[: name.start()]}{PREFIX}{name[0]}{tail}"
    return "\n".join(lines)


def reason_of(text: str) -> str:
    """Return why there is no result. CEL's text may show the value: only its kind is shown."""
    if "budget" in text:
        return "it takes more than 10000 steps"
    if "outputs an unexpected type" in text:
        return _NEITHER
    if any(sign in text for sign in _NOT_FOUND):
        return "a field or key that it reads is not there"
    if _TOO_LARGE in text:
        return "a whole number is beyond 64 bits"
    if any(sign in text for sign in _BY_ZERO):
        return "it divides by zero"
    if any(sign in text for sign in _OF_ANOTHER_TYPE):
        return "a value is null, or has a type that it cannot be used with"
    if _NO_TIMESTAMP in text:
        return "timestamp() reads a time with a zone, such as 2026-01-31T00:00:00Z"
    return "it ends with an error"


def _first_line(text: str) -> str:
    line = text.partition("\n")[0]
    return line.removeprefix("INVALID_ARGUMENT: ").removeprefix("ERROR: ")[:_EXPLANATION_LONGEST]
