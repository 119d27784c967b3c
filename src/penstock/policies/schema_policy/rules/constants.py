"""Constants of an expression that never have a result, such as `duration("7d")`.

CEL finds them when it evaluates the expression: each record would be refused.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import any_pb2

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.rules.checked import PARSED, expressions_in, read_tree
from penstock.policies.schema_policy.rules.mixed_numbers import with_mixed_numbers
from penstock.policies.schema_policy.rules.work import MOST, Size, work_of

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMESPACES: Final = frozenset({"math", "decimals", "strings", "timestamp"})
_OF_INSTANT: Final = re.compile(
    "get(?:FullYear|Month|DayOfYear|DayOfMonth|Date|DayOfWeek|Hours|Minutes|Seconds|Milliseconds)"
)
_CLAUSE: Final = re.compile(r"%(?:%|(?:\.\d+)?[sdfeboxX])?")
_HINTS: Final = {
    "duration": "its units are h, m, s, ms, us and ns, like 168h",
    "timestamp": "it takes a time of RFC 3339, like 2024-01-31T12:00:00Z",
    "format": "its clauses are %s, %d, %f, %e, %b, %o, %x and %X",
    "of": "its units are seconds, millis, micros and nanos, and its texts of RFC 3339",
}


def check_constants(cel: Any, environment: Any, serialized: bytes) -> None:
    """Look whether each constant of an expression has a result.

    Args:
        cel: The module `cel_expr_python.cel`.
        environment: What it was compiled in.
        serialized: What `Expression.serialize` returns of it, unchecked.

    Raises:
        InvalidSchemaError: One has none; the text completes "its expression".
    """
    packed = any_pb2.Any.FromString(serialized)
    expression = PARSED.FromString(packed.value).expr

    def fails(part: Any) -> bool:
        packed.value = PARSED(expr=part).SerializeToString()
        alone = bytes(packed.SerializeToString())
        alone = with_mixed_numbers(alone) or alone
        if work_of(read_tree(alone), Size(0, 0, 0)) > MOST:
            return False
        try:
            result = environment.deserialize(alone).eval(data={})
        except Exception:
            return True
        return bool(result.type() == cel.Type.ERROR)

    for part in reversed(list(expressions_in(expression))):  # the innermost first
        if _never_has_a_result(part, environment, fails):
            name = part.call.function
            hint = f": {_HINTS[name]}" if name in _HINTS else ""
            raise InvalidSchemaError(f"has {_shown(part)}, which never has a result{hint}")


def _never_has_a_result(part: Any, environment: Any, fails: Callable[[Any], bool]) -> bool:
    kind = part.WhichOneof("kind")
    if kind not in {"call", "select"}:
        return False
    if _is_constant(part):
        return fails(part)
    if kind == "select" or not part.call.args:
        return False
    last = part.call.args[-1]
    if part.call.function == "format":
        return "%" in _CLAUSE.findall(part.call.target.const.string)
    instead = _with_some_instant(part.call, last.const.string)
    if last.const.WhichOneof("kind") != "string" or instead is None:
        return False
    parsed = environment.compile(instead, disable_check=True).serialize()
    return fails(PARSED.FromString(any_pb2.Any.FromString(parsed).value).expr)


def _with_some_instant(call: Any, constant: str) -> str | None:
    """Return a call about an instant with an instant that CEL knows; None for any other call."""
    if _OF_INSTANT.fullmatch(call.function):
        return f'timestamp("2024-01-31T12:00:00Z").{call.function}({json.dumps(constant)})'
    if call.function == "of" and call.target.ident.name == "timestamp" and len(call.args) > 1:
        return f"timestamp.of(0, {json.dumps(constant)})"
    return None


def _is_constant(part: Any) -> bool:
    """Return whether a part of an expression reads no variable."""
    parts = [part]
    while parts:
        expression = parts.pop()
        kind = expression.WhichOneof("kind")
        if kind == "call":
            call = expression.call
            parts += [call.target] if call.HasField("target") and not _is_in_namespace(call) else []
            parts += call.args
        elif kind == "select":
            parts.append(expression.select.operand)
        elif kind == "list":
            parts += expression.list.elements
        elif kind == "struct":
            parts += [
                inner
                for entry in expression.struct.entries
                for inner in (entry.key, entry.value)
                if inner.WhichOneof("kind")
            ]
        elif kind != "const":
            return False
    return True


def _is_in_namespace(call: Any) -> bool:
    """Return whether a call is one such as `math.ceil(1)`; `timestamp` is a variable, too."""
    return call.target.ident.name in _NAMESPACES and not _OF_INSTANT.fullmatch(call.function)


def _shown(part: Any) -> str:
    """Return a part of an expression as it was written, about."""
    kind = part.WhichOneof("kind")
    if kind == "const":
        constant = part.const.WhichOneof("kind")
        value = None if constant == "null" else getattr(part.const, constant)
        return str(value) if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)
    if kind == "ident":
        return str(part.ident.name)
    if kind == "select":
        return f"{_shown(part.select.operand)}.{part.select.field}"
    if kind == "list":
        return f"[{', '.join(map(_shown, part.list.elements))}]"
    if kind != "call":
        return "{…}"
    arguments = [_shown(argument) for argument in part.call.args]
    if part.call.function == "_[_]":
        return f"{arguments[0]}[{arguments[1]}]"
    name = part.call.function.strip("_")
    if part.call.function.startswith("_") and len(arguments) > 1:
        return f"{arguments[0]} {name} {arguments[1]}"
    target = f"{_shown(part.call.target)}." if part.call.HasField("target") else ""
    return f"{target}{name}({', '.join(arguments)})"
