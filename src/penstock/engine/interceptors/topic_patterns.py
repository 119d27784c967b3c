"""Whether the pattern of an interceptor can be found in the name of a topic."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration.globs import LEGAL

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Sequence

# Python does not publish how it parses a pattern.
_CODES: Final[Any] = import_module("re._constants")
_PARSER: Final[Any] = import_module("re._parser")
_CATEGORIES: Final[dict[Any, Callable[[str], bool]]] = {
    _CODES.CATEGORY_DIGIT: str.isdigit,
    _CODES.CATEGORY_NOT_DIGIT: lambda character: not character.isdigit(),
    _CODES.CATEGORY_SPACE: str.isspace,
    _CODES.CATEGORY_NOT_SPACE: lambda character: not character.isspace(),
    _CODES.CATEGORY_WORD: lambda character: character.isalnum() or character == "_",
    _CODES.CATEGORY_NOT_WORD: lambda character: not (character.isalnum() or character == "_"),
}
_FOLDED: Final = frozenset(map(ord, "\u0130\u0131\u017f\u212a"))
"""Without regard to case, these equal letters of ASCII."""
_REPEATS: Final = frozenset({_CODES.MAX_REPEAT, _CODES.MIN_REPEAT, _CODES.POSSESSIVE_REPEAT})
_GROUPS: Final = frozenset({_CODES.SUBPATTERN, _CODES.ATOMIC_GROUP, _CODES.ASSERT})


def may_be_in_names(pattern: re.Pattern[str]) -> bool:
    """Return whether a pattern can be found in a topic's name; False only if it is certain.

    It is certain where the pattern needs a character that no topic's name has, like a comma.
    """
    try:
        return _is_possible(_PARSER.parse(pattern.pattern, pattern.flags))
    except RecursionError:
        return True


def _is_possible(steps: Iterable[tuple[Any, Any]]) -> bool:
    return all(_is_step_possible(code, value) for code, value in steps)


def _is_step_possible(code: Any, value: Any) -> bool:
    if code is _CODES.LITERAL:
        return _is_of_names(value)
    if code is _CODES.IN:
        return _is_set_possible(value)
    if code is _CODES.BRANCH:
        return any(map(_is_possible, value[1]))
    if code in _REPEATS:
        least, _, steps = value
        return least == 0 or _is_possible(steps)
    if code in _GROUPS:
        return _is_possible(value if code is _CODES.ATOMIC_GROUP else value[-1])
    return True


def _is_of_names(code_point: int) -> bool:
    """Whether a character is in topics' names, or equals one there without regard to case."""
    return chr(code_point) in LEGAL or code_point in _FOLDED


def _is_set_possible(items: Sequence[tuple[Any, Any]]) -> bool:
    is_negated = any(code is _CODES.NEGATE for code, _ in items)
    if not is_negated and any(code is _CODES.LITERAL and value in _FOLDED for code, value in items):
        return True
    return any(is_negated is not _is_in(character, items) for character in LEGAL)


def _is_in(character: str, items: Iterable[tuple[Any, Any]]) -> bool:
    return any(
        (code is _CODES.LITERAL and ord(character) == value)
        or (code is _CODES.RANGE and value[0] <= ord(character) <= value[1])
        or (code is _CODES.CATEGORY and _CATEGORIES[value](character))
        for code, value in items
    )
