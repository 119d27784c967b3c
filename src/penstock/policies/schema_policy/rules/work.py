"""How much work an expression may be for a value, estimated before it is evaluated.

CEL has no loop without an end, and Google's C++ ends loops after 10,000 steps of an evaluation. One
step can still be expensive: it may copy, search or compare a large value, and a text that is
replaced by another may fill the memory. A process that is out of memory cannot be ended in order,
so such an evaluation is not begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.policies.schema_policy.rules import decimals
from penstock.policies.schema_policy.rules.checked import (
    Call,
    Collection,
    Constant,
    Loop,
    Name,
    Part,
)
from penstock.policies.schema_policy.rules.declared import PREFIX
from penstock.policies.schema_policy.rules.patterns import size_of
from penstock.policies.schema_policy.rules.whole_match import FUNCTION as MATCHES_WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.policies.schema_policy.rules.checked import Tree

MOST: Final = 500_000_000
"""Nanoseconds, about, that an evaluation may take."""
LARGEST: Final = 64 * 1024 * 1024
"""Characters, bytes and items; no value has more."""
_STEPS_MOST: Final = 10_000
_NESTED_MOST: Final = 4
"""Loops in loops whose items are smaller than the whole; deeper items count as the whole."""

# Nanoseconds, measured with cel-expr-python 0.1.3.
_LOOK: Final = 2.0
"""For a character or item that is read."""
_COPY: Final = 8.0
"""For each new value: 16 bytes of memory, which are freed after the evaluation."""
_GROW: Final = 40.0
"""For an item of a list that is copied since an item comes to it."""
_SPLIT: Final = 50.0
_STATE: Final = 16.0
"""For a character in each state that RE2's machine may be in."""
_SMALL_PATTERN: Final = 20
"""States with which that machine is made once."""
_REPEATED_MOST: Final = 1000
"""RE2 repeats no part of a pattern oftener."""
_STEPS_BACK: Final = 300_000.0
"""For a text and a pattern that looks around, at most."""
_PYTHON: Final = 6_000.0
"""For a call of a function that is written in Python."""
_DIGIT: Final = 80.0
"""For a digit of a decimal that is calculated with; `decimals` takes 1,000 at most."""
_DIGITS_OF_DECIMAL: Final = 1000
_ESCAPED: Final = 10
_DIGITS: Final = 100
"""The most that `format` writes for a number after its point."""


class Size(NamedTuple):
    """How large a value is.

    Attributes:
        weight: Characters, bytes and items altogether.
        longest: Items of the longest list or map in it.
        steps: The steps of a loop over it. If it represents several values, whose lists are
            looped over one after the other, more than the longest of them.
    """

    weight: float
    longest: float
    steps: float

    @classmethod
    def of_text(cls, weight: float) -> Size:
        """Return the size of a text of so many characters."""
        return cls(weight, 1, 1)


class Estimate(NamedTuple):
    """The cost and the result size of a part of an expression.

    Attributes:
        cost: Nanoseconds.
        size: Of the result.
    """

    cost: float
    size: Size


_SCALAR: Final = Size(1, 1, 1)
_NOTHING: Final = Size(0, 0, 0)


def work_of(tree: Tree, size: Size) -> float:
    """Return about how many nanoseconds an expression takes at most.

    Args:
        size: Of the values of all its variables.
    """
    return _Estimator(size).of(tree, {}).cost


def always_allowed(tree: Tree) -> float:
    """Return up to which weight values may have any form."""
    weight = float(LARGEST)
    while weight > 1 and work_of(tree, Size(weight, weight, weight)) > MOST:
        weight /= 2
    return weight


class _Estimator:
    def __init__(self, size: Size) -> None:
        self._whole = size
        self._depth = 0

    def of(self, tree: Tree, local: Mapping[str, Size]) -> Estimate:
        if isinstance(tree, Constant):
            long = isinstance(tree.value, (str, bytes))
            return Estimate(0, Size.of_text(len(tree.value)) if long else _SCALAR)  # type: ignore[arg-type]
        if isinstance(tree, Name):
            return Estimate(0, local.get(tree.name, self._whole))
        if isinstance(tree, Part):
            return self.of(tree.whole, local)
        if isinstance(tree, Loop):
            return self._loop(tree, local)
        parts = [self.of(part, local) for part in self._parts(tree)]
        cost = sum(part.cost for part in parts)
        sizes = [part.size for part in parts]
        if isinstance(tree, Collection):
            together = _together(sizes)
            weight, count = together.weight + len(sizes), len(sizes)
            return Estimate(cost, Size(weight, max(together.longest, count), count))
        more, size = _called(tree, sizes)
        return Estimate(cost + more, _SCALAR if tree.is_scalar else size)

    @staticmethod
    def _parts(tree: Call | Collection) -> Sequence[Tree]:
        return tree.arguments if isinstance(tree, Call) else tree.parts

    def _loop(self, loop: Loop, local: Mapping[str, Size]) -> Estimate:
        over = self.of(loop.collection, local)
        start = self.of(loop.start, local)
        if loop.collection == Collection(()):  # what cel.bind becomes
            end = self.of(loop.result, {**local, loop.result_name: start.size})
            return Estimate(start.cost + end.cost, end.size)
        steps = min(over.size.steps, _STEPS_MOST)
        self._depth += 1
        each, rest = self._steps(loop, local, over.size, steps)
        self._depth -= 1
        cost = over.cost + start.cost + steps * each.cost + rest.cost
        weight = start.size.weight + steps * each.size.weight + rest.size.weight
        if isinstance(loop.start, Collection):  # a list that each step adds to
            cost += steps * min(over.size.longest, _STEPS_MOST) / 2 * _GROW + weight * _COPY
        size = Size(weight, max(each.size.longest, rest.size.longest, steps), steps)
        end = self.of(loop.result, {**local, loop.result_name: size})
        return Estimate(cost + end.cost, end.size)

    def _steps(
        self, loop: Loop, local: Mapping[str, Size], over: Size, steps: float
    ) -> tuple[Estimate, Estimate]:
        """Return the steps for an empty item, and the additional steps for all items.

        The items together are not larger than the value. Steps that grow faster than their item are
        most if one item is everything; those that grow more slowly, if all have one size.
        """
        if self._depth > _NESTED_MOST:
            return self._step(loop, local, over), Estimate(0, _NOTHING)
        weight = over.weight / max(steps, 1)
        least = self._step(loop, local, _NOTHING)
        equal = self._step(loop, local, Size(weight, min(over.longest, weight), weight))
        most = self._step(loop, local, Size(over.weight, over.longest, over.weight))
        return least, Estimate(
            most.cost - least.cost + steps * (equal.cost - least.cost),
            Size(
                most.size.weight - least.size.weight
                + steps * (equal.size.weight - least.size.weight),
                most.size.longest,
                most.size.steps,
            ),
        )  # fmt: skip

    def _step(self, loop: Loop, local: Mapping[str, Size], item: Size) -> Estimate:
        names = {**local, **dict.fromkeys(loop.names, item), loop.result_name: _NOTHING}
        condition = self.of(loop.condition, names)
        step = self.of(loop.step, names)
        return Estimate(condition.cost + step.cost, step.size)


def _together(sizes: Sequence[Size]) -> Size:
    return Size(
        sum(size.weight for size in sizes),
        max((size.longest for size in sizes), default=0),
        max((size.steps for size in sizes), default=0),
    )


def _called(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    if not sizes:
        return 0, _SCALAR
    rule = _BY_FUNCTION.get(call.function)
    return _summed(call, sizes) if rule is None else rule(call, sizes)


def _summed(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    """Reads all its arguments, and returns a result that is not larger than they are together."""
    del call
    size = _together(sizes)
    return size.weight * _LOOK, size


def _looked(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    return _summed(call, sizes)[0], _SCALAR


def _compared(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    """Two values, which are no longer equal where the smaller one ends."""
    del call
    least = min(size.weight for size in sizes)
    return least * _LOOK + min(least, max(size.longest for size in sizes)) * _COPY, _SCALAR


def _found(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    """An item of a list, which is compared with each."""
    del call
    size = _together(sizes)
    return size.weight * _LOOK + size.longest * _COPY, _SCALAR


def _chosen(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    del call
    size = _together(sizes)
    return 0, Size(max(size.weight for size in sizes), size.longest, size.steps)


def _indexed(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    del call
    return sizes[-1].weight * _LOOK, sizes[0]


def _copied(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    cost, size = _summed(call, sizes)
    return cost + size.weight * _COPY, size


def _added(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    if call.is_scalar:
        return 0, _SCALAR
    weight, _, _ = _together(sizes)
    longest, steps = sum(size.longest for size in sizes), sum(size.steps for size in sizes)
    return weight * _COPY, Size(weight, longest, steps)


def _searched(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    """A text in a text: at worst each character of one meets each of the other."""
    del call
    text, part = sizes[0].weight, sizes[1].weight
    return text * _LOOK + text * part / 16, _SCALAR


def _replaced(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    del call
    text, new = sizes[0].weight, sizes[min(2, len(sizes) - 1)].weight
    return _made((text + 1) * (new + 1))


def _joined(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    del call
    items = sizes[0].longest
    between = sizes[1].weight if len(sizes) > 1 else 0
    cost, size = _made(sizes[0].weight + items * between)
    return cost + items * _SPLIT, size


def _split(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    del call
    weight = sizes[0].weight
    return weight * _SPLIT, Size(2 * weight + 1, weight + 1, weight + 1)


def _quoted(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    del call
    return _made(sizes[0].weight * _ESCAPED + 2)


def _formatted(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    del call
    return _made(_DIGITS * sizes[0].weight + _ESCAPED * _together(sizes).weight)


def _made(weight: float) -> tuple[float, Size]:
    return weight * _COPY, Size.of_text(weight)


def _matched(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    text = sizes[0].weight
    pattern = call.arguments[-1]
    if isinstance(pattern, Constant) and isinstance(pattern.value, str):
        states = float(size_of(pattern.value))
    else:
        states = sizes[-1].weight * _REPEATED_MOST
    each = _LOOK if states <= _SMALL_PATTERN else states * _STATE
    return text * each + states * _SPLIT, _SCALAR


def _matched_whole(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    del call
    return sizes[0].weight * _SPLIT + _STEPS_BACK, _SCALAR


def _text_function(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    """One of Confluent's functions about texts."""
    del call
    return sizes[0].weight * _SPLIT, _SCALAR


def _calculated(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    """One of the functions about decimals and instants, which Python evaluates."""
    del call
    size = _together(sizes)
    digits = sum(min(size.weight, _DIGITS_OF_DECIMAL) for size in sizes)
    return _PYTHON + digits * _DIGIT, size


def _free(call: Call, sizes: Sequence[Size]) -> tuple[float, Size]:
    del call, sizes
    return 0, _SCALAR


_BY_FUNCTION: Final[Mapping[str, Callable[[Call, Sequence[Size]], tuple[float, Size]]]] = {
    **dict.fromkeys(
        ("_&&_", "_||_", "!_", "@not_strictly_false", "__not_strictly_false__", "-_",
         "_-_", "_*_", "_/_", "_%_", "int", "uint", "double", "bool", "type", "timestamp",
         "duration"),
        _free,
    ),
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _compared),
    **dict.fromkeys(("contains", "indexOf", "lastIndexOf"), _searched),
    **dict.fromkeys(("startsWith", "endsWith", "size"), _looked),
    **dict.fromkeys(
        ("isEmail", "isHostname", "isIpv4", "isIpv6", "isUri", "isUriRef", "isUuid"), _text_function
    ),
    **dict.fromkeys(
        ("string", "bytes", "lowerAscii", "upperAscii", "substring", "trim", "reverse", "charAt"),
        _copied,
    ),
    **dict.fromkeys(
        ("decimal", "decimals.sign", "timestamp.of",
         *(f"{PREFIX}{name}" for name in ("timestamp", "string", "double")),
         *decimals.COMPARISONS, *decimals.OF_TWO, *decimals.OF_ONE),
        _calculated,
    ),
    **dict.fromkeys(("quote", "strings.quote"), _quoted),
    "@in": _found,
    "_?_:_": _chosen,
    "_[_]": _indexed,
    "_+_": _added,
    "dyn": _chosen,
    "replace": _replaced,
    "join": _joined,
    "format": _formatted,
    "split": _split,
    "matches": _matched,
    MATCHES_WHOLE: _matched_whole,
}  # fmt: skip
"""The costs of functions; those of others are `_summed`."""
