"""Arithmetic of whole numbers with fractions, which CEL leaves out and JSON needs.

JSON has one type of numbers. Here an operator takes any two numbers: whole numbers give a whole
number, which is exact, and a fraction makes both numbers doubles (IEEE 754), as in JavaScript. `/`
of two whole numbers, and `%`, which is for whole numbers only, keep CEL's meaning.

The call `a + b` of an expression becomes, in CEL's own terms,

    cel.bind(@a, a, cel.bind(@b, b,
        both are numbers ? (one is a double ? double(@a) + double(@b) : penstock.sum(@a, @b))
                         : @a + @b))
"""

from __future__ import annotations

import operator
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import any_pb2
from google.protobuf.message import DecodeError

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.rules.checked import PARSED, expressions_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1


def _divided(dividend: int, divisor: int) -> int:
    if not divisor:
        raise ZeroDivisionError("divide by zero")
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _remainder(dividend: int, divisor: int) -> int:
    return dividend - divisor * _divided(dividend, divisor)


_OF_WHOLE: Final[Mapping[str, tuple[str, Callable[[int, int], int]]]] = {
    "_+_": ("penstock.sum", operator.add),
    "_-_": ("penstock.difference", operator.sub),
    "_*_": ("penstock.product", operator.mul),
    "_/_": ("penstock.quotient", _divided),
    "_%_": ("penstock.remainder", _remainder),
}
"""For each operator, the name of the function of two whole numbers, and the function."""
_ROUNDING: Final = frozenset({"ceil", "floor", "round", "trunc"})
"""Functions of `math` that only take doubles; of a whole number, the number itself."""
_OF_DOUBLES: Final = _ROUNDING | {"isFinite", "isInf", "isNaN"}
"""Functions of `math` that only take doubles."""
_OPERANDS: Final = 2
_NEGATION: Final = "-_"


def of_whole_numbers() -> Iterator[tuple[str, Callable[[int, int], int]]]:
    """Yield the functions of two whole numbers, with their names."""
    for name, calculate in _OF_WHOLE.values():
        yield name, _within_64_bits(calculate)


def _within_64_bits(calculate: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def calculated(first: int, second: int) -> int:
        result = calculate(first, second)
        if not _LEAST <= result <= _MOST:
            raise OverflowError("integer overflow")
        return result

    return calculated


def with_mixed_numbers(serialized: bytes) -> bytes | None:
    """Return an expression whose operators take whole numbers and fractions together.

    Args:
        serialized: What `Expression.serialize` returns of an expression that is not checked.

    Returns:
        None for an expression without such an operator.

    Raises:
        InvalidSchemaError: It is nested too deeply; the text completes "its expression".
    """
    packed = any_pb2.Any.FromString(serialized)
    try:
        parsed = PARSED.FromString(packed.value)  # keeps unknown fields
        if not _Rewriter(parsed.expr).rewrite():
            return None
    except DecodeError:
        raise InvalidSchemaError("is nested too deeply") from None
    packed.value = parsed.SerializeToString()
    return bytes(packed.SerializeToString())


class _Rewriter:
    """Rewrites an expression in place; each new part gets an unused id."""

    def __init__(self, expression: Any) -> None:
        self._all = list(expressions_in(expression))
        self._ids = count(max(part.id for part in self._all) + 1)
        self._make = type(expression)

    def rewrite(self) -> bool:
        """Rewrite; return whether there was anything to rewrite."""
        calls = [node for node in self._all if node.WhichOneof("kind") == "call"]
        is_changed = False
        for node in reversed(calls):  # parts first: they are copied into what contains them
            if node.call.function in _OF_WHOLE and len(node.call.args) == _OPERANDS:
                self._mix(node)
            elif node.call.function == _NEGATION:
                self._negate(node)
            elif _is_of_doubles(node.call):
                self._convert(node)
            else:
                continue
            is_changed = True
        return is_changed

    def _mix(self, node: Any) -> None:
        function = node.call.function
        first_operand, second_operand = (
            self._make.FromString(part.SerializeToString()) for part in node.call.args
        )
        number = next(self._ids)
        first, second = f"@a{number}", f"@b{number}"

        def call(name: str, *kinds: str) -> Any:
            parts = [self._name(first), self._name(second)]
            if kinds:
                parts = [self._call(kind, part) for kind, part in zip(kinds, parts, strict=True)]
            return self._call(name, *parts)

        in_doubles = call(function, "double", "double")
        if function == "_%_":  # CEL has none of doubles
            in_doubles = call(function)
        of_numbers = self._choice(
            self._call("_||_", self._is(first, "double"), self._is(second, "double")),
            in_doubles,
            call(_OF_WHOLE[function][0]),
        )
        result = self._choice(
            self._call("_&&_", self._is_number(first), self._is_number(second)),
            of_numbers,
            call(function),
        )
        bound = [(first, first_operand), (second, second_operand)]
        bound.sort(key=lambda pair: _depth(pair[1]))  # the result within is one level more
        for name, value in bound:
            result = self._bound(name, value, result)
        self._replace(node, result)

    def _convert(self, node: Any) -> None:
        """Let a function of doubles take a whole number."""
        name = f"@a{next(self._ids)}"
        (operand,) = (self._make.FromString(part.SerializeToString()) for part in node.call.args)
        of_double, of_whole = (self._make.FromString(node.SerializeToString()) for _ in range(2))
        for call, argument in (
            (of_double, self._name(name)),
            (of_whole, self._call("double", self._name(name))),
        ):
            call.id = next(self._ids)
            del call.call.args[:]
            call.call.args.append(argument)
        if node.call.function in _ROUNDING:
            of_whole = self._name(name)
        self._choose(node, name, operand, of_whole, of_double)

    def _negate(self, node: Any) -> None:
        """Let `-` take a whole number that CEL has without a sign, such as 2 to the power of 63."""
        name = f"@a{next(self._ids)}"
        (operand,) = (self._make.FromString(part.SerializeToString()) for part in node.call.args)
        zero = self._make(id=next(self._ids))
        zero.const.int = 0
        of_whole = self._call(_OF_WHOLE["_-_"][0], zero, self._name(name))
        self._choose(node, name, operand, of_whole, self._call(_NEGATION, self._name(name)))

    def _choose(self, node: Any, name: str, operand: Any, of_whole: Any, other: Any) -> None:
        """Replace a call by what depends on whether its argument is a whole number."""
        is_whole = self._call("_||_", self._is(name, "int"), self._is(name, "uint"))
        self._replace(node, self._bound(name, operand, self._choice(is_whole, of_whole, other)))

    @staticmethod
    def _replace(node: Any, replacement: Any) -> None:
        number = node.id
        node.CopyFrom(replacement)
        node.id = number

    def _name(self, name: str) -> Any:
        node = self._make(id=next(self._ids))
        node.ident.name = name
        return node

    def _call(self, function: str, *arguments: Any) -> Any:
        node = self._make(id=next(self._ids))
        node.call.function = function
        node.call.args.extend(arguments)
        return node

    def _choice(self, condition: Any, if_true: Any, if_false: Any) -> Any:
        return self._call("_?_:_", condition, if_true, if_false)

    def _is(self, name: str, kind: str) -> Any:
        return self._call("_==_", self._call("type", self._name(name)), self._name(kind))

    def _is_number(self, name: str) -> Any:
        of_whole = self._call("_||_", self._is(name, "int"), self._is(name, "uint"))
        return self._call("_||_", of_whole, self._is(name, "double"))

    def _bound(self, name: str, value: Any, result: Any) -> Any:
        """Return what `cel.bind(name, value, result)` becomes."""
        node = self._make(id=next(self._ids))
        loop = node.loop
        loop.iter_var = "#unused"
        loop.iter_range.id = next(self._ids)
        loop.iter_range.list.SetInParent()
        loop.accu_var = name
        loop.accu_init.CopyFrom(value)
        loop.loop_condition.id = next(self._ids)
        loop.loop_condition.const.bool = False
        loop.loop_step.CopyFrom(self._name(name))
        loop.result.CopyFrom(result)
        return node


def _is_of_doubles(call: Any) -> bool:
    """Return whether a call is one such as `math.ceil(x)`, whose name is not resolved."""
    return call.target.ident.name == "math" and len(call.args) == 1 and call.function in _OF_DOUBLES


def _depth(expression: Any) -> int:
    """Return how many parts are within each other."""
    most = 0
    nodes = [(expression, 0)]
    while nodes:
        node, depth = nodes.pop()
        most = max(most, depth)
        for field, value in node.ListFields():
            if field.message_type is not None:
                inner = value if hasattr(value, "extend") else (value,)
                nodes.extend((part, depth + 1) for part in inner)
    return most
