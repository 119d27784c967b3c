"""The conditions in CEL that a profile suggests: enumerations and ranges."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.jobs.suggestions.schema import types_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.jobs.suggestions.profile import Profile

_MANY: Final = 50
"""How often a place must occur for a condition about its values."""
_ENUMERATION_MOST: Final = 20
_TIMES_EACH: Final = 5
"""How often each text of an enumeration must occur, on average."""
_FAR: Final = 10
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED: Final = frozenset({
    "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in",
    "let", "loop", "namespace", "null", "package", "return", "true", "var", "void", "while",
})  # fmt: skip
"""Names that CEL does not take for a field."""
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")


class ProposedCondition(NamedTuple):
    """A condition.

    Attributes:
        name: For the key `rules.<name>`.
        expression: In CEL.
        basis: What it is made of, for a person.
    """

    name: str
    expression: str
    basis: str


def conditions_of(profile: Profile, tolerance: float) -> list[ProposedCondition]:
    """Return conditions about the fields of values, each with a unique name.

    Args:
        profile: The counts of the sample.
        tolerance: The share of values that may be mistakes.
    """
    conditions: dict[str, ProposedCondition] = {}
    for path, place in profile.places():
        if place.count < _MANY or not all(_NAME.fullmatch(step) for step in path):
            continue
        proposal = _enumeration(place, tolerance) or _range(place, tolerance)
        if proposal is None or any(step in _RESERVED for step in path):
            continue
        template, observation = proposal
        name = _NOT_IN_NAMES.sub("_", "_".join(path))[:90]
        while name in conditions:
            name += "_"
        guarded = _guarded(path, profile, template)
        conditions[name] = ProposedCondition(name, guarded, f"{'.'.join(path)}: {observation}")
    return list(conditions.values())


def _guarded(path: Sequence[str], root: Profile, template: str) -> str:
    """Return a condition that is about a field if it is present, and not null."""
    text = f"value.{'.'.join(path)}"
    condition = template.replace("{}", text)
    guards = []
    parent = root
    for number, step in enumerate(path, 1):
        inner = parent.fields[step]
        whole = f"value.{'.'.join(path[:number])}"
        if inner.count < parent.types["object"] or parent.types["object"] < parent.count:
            guards.append(f"!has({whole})")
        if inner.types["null"]:
            guards.append(f"{whole} == null")
        parent = inner
    return " || ".join([*guards, condition])


def _enumeration(place: Profile, tolerance: float) -> tuple[str, str] | None:
    if types_of(place, tolerance) not in (["string"], ["null", "string"]) or not place.texts:
        return None
    total = sum(place.texts.values())
    often = [text for text, count in place.texts.most_common() if count > total * tolerance / 2]
    if not 1 < len(often) <= _ENUMERATION_MOST or total < len(place.texts) * _TIMES_EACH:
        return None
    if sum(place.texts[text] for text in often) < total * (1 - tolerance):
        return None
    listed = ", ".join(map(_literal, sorted(often)))
    return f"{{}} in [{listed}]", f"{len(often)} texts"


def _literal(text: str) -> str:
    """Return a text in CEL, without what a file replaces (`${`), or `_guarded` (`{}`)."""
    literal = json.dumps(text, ensure_ascii=False)
    return literal.replace("$", "\\u0024").replace("{}", "\\u007b}")


def _range(place: Profile, tolerance: float) -> tuple[str, str] | None:
    kinds = set(types_of(place, tolerance)) - {"null"}
    numbers = sorted(place.numbers)
    if not kinds <= {"integer", "number"} or len(numbers) < _MANY:
        return None
    low, high = _bound(numbers, tolerance), -_bound([-n for n in reversed(numbers)], tolerance)
    observation = f"from {numbers[0]:g} to {numbers[-1]:g}"
    most, least = _limit(high), _limit(-low)
    if low > 0 or (low == 0 and numbers[0] >= 0):
        first = "{} > 0" if numbers[0] > 0 else "{} >= 0"
    else:
        first = "" if least is None else f"{{}} >= -{least}"
    sides = filter(None, (first, "" if most is None else f"{{}} <= {most}"))
    template = " && ".join(sides)
    return (template, observation) if template else None


def _bound(numbers: Sequence[float], tolerance: float) -> float:
    """Return the least of sorted numbers, or where most of them begin if it is far from that."""
    usual = numbers[int(len(numbers) * tolerance / 2)]
    least = numbers[0]
    is_far = abs(least - usual) > _FAR * max(abs(usual), abs(numbers[-1]) / 1000, 1e-9)
    return usual if is_far else least


def _limit(number: float) -> str | None:
    """Return a limit for values that reach a number: twice as much, with one digit.

    Shares of a whole reach 1. None where no number is as large: then there is no limit.
    """
    if number <= 0:
        return "0"
    far = Decimal(repr(number)) * (1 if number <= 1 else 2)
    unit = Decimal(1).scaleb(far.adjusted())
    limit = float(math.ceil(far / unit) * unit)
    return _written(limit) if math.isfinite(limit) else None


def _written(number: float) -> str:
    whole = round(number)
    return str(whole) if whole == number and abs(number) < 2**53 else repr(float(number))
