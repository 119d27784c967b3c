"""Evaluates a test of CEL's specification with Penstock's evaluation of CEL."""

import math
from typing import Any

from google.protobuf import wrappers_pb2

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.rules.program import Language
from penstock.policies.schema_policy.rules.values import EvaluationError
from penstock.policies.schema_policy.rules.variables import Variables
from tests.suites.cel_spec import Case, Specification

_EXPECTED = "expected_"


class TypeName(str):
    """A type as a value, by what expressions call it."""

    __slots__ = ()


class UnsupportedCaseError(Exception):
    """What a test needs is nothing that rules have."""


def outcome(case: Case, specification: Specification) -> str:
    """Return the difference from the expected result; empty if there is none."""
    test = case.test
    try:
        wants_error, expected = _expected(test, specification)
        names = [*test.bindings, _EXPECTED]
        values = {name: _value(bound.value, specification) for name, bound in test.bindings.items()}
        values[_EXPECTED] = expected
    except UnsupportedCaseError as error:
        return str(error)
    text = test.expr if wants_error else _condition(test.expr, expected)
    try:
        language = Language(names, specification.pool, test.container or None)
        program = language.compile(text)
        result = program.holds(Variables(values))
    except InvalidSchemaError as error:
        return "" if wants_error else str(error)
    except EvaluationError as error:
        return "" if wants_error else str(error)
    if wants_error:
        return f"gives {result} instead of an error"
    return "" if result is True else "gives another value"


def _condition(text: str, expected: Any) -> str:
    text = f"({text}\n)"
    if expected is True:
        return text
    if isinstance(expected, TypeName):
        return f"{text} == {expected}"
    if isinstance(expected, float) and math.isnan(expected):
        return f"{text} != {text} && type({text}) == double"
    if expected is None:
        return f"{text} == null"
    return f"dyn({text}) == {_EXPECTED} && type(dyn({text})) == type({_EXPECTED})"


def _expected(test: Any, specification: Specification) -> tuple[bool, Any]:
    """Return whether an error is expected, and otherwise which value."""
    if test.check_only:
        raise UnsupportedCaseError("is about the type alone")
    if test.disable_macros:
        raise UnsupportedCaseError("is without macros")
    kind = test.WhichOneof("result_matcher")
    if kind in ("eval_error", "any_eval_errors"):
        return True, None
    if kind is None:
        return False, True
    if kind == "value":
        return False, _value(test.value, specification)
    if kind == "typed_result":
        return False, _value(test.typed_result.result, specification)
    raise UnsupportedCaseError("is about what is unknown")


def _value(value: Any, specification: Specification) -> Any:
    kind = value.WhichOneof("kind")
    held = None if kind is None else getattr(value, kind)
    if kind is None:
        raise UnsupportedCaseError("has no value")
    if kind == "null_value":
        return None
    if kind == "uint64_value":
        return wrappers_pb2.UInt64Value(value=held)
    if kind == "list_value":
        return [_value(item, specification) for item in held.values]
    if kind == "map_value":
        return {
            _key(entry.key): _value(entry.value, specification) for entry in held.entries
        }  # fmt: skip
    if kind == "object_value":
        message = specification.message(held.type_url.rpartition("/")[2])()
        message.ParseFromString(held.value)
        return message
    if kind == "enum_value":
        raise UnsupportedCaseError("has an enum with its own type")
    if kind == "type_value":
        return TypeName(held)
    return held


def _key(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "uint64_value":
        raise UnsupportedCaseError("has a map with unsigned keys as a value")
    return getattr(value, kind)
