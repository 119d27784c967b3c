"""`matches` as in Confluent's client for Java: the pattern matches the complete text.

Source: `CelUtils.pcreMatches`, which is `java.util.regex.Pattern.matches`. What RE2 takes, RE2
matches, in time that grows with the text. Patterns with look-around or back-references are matched
by fancy-regex (in jsonschema-rs), which gives up after so many steps back.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs

if TYPE_CHECKING:
    from collections.abc import Callable

FUNCTION: Final = "penstock.matchesWhole"
"""What `matches` becomes where RE2 does not take its pattern."""
_BACK_MOST: Final = 20_000


def whole(pattern: str) -> str:
    """Return a pattern of RE2 that only matches if another pattern matches the complete text."""
    return rf"\A(?:{pattern})\z"


def is_pattern(pattern: str) -> bool:
    """Return whether `matches_whole` takes a pattern."""
    try:
        _validator(pattern)
    except jsonschema_rs.ValidationError:
        return False
    return True


def matches_whole(text: str, pattern: str) -> bool:
    """Return whether a pattern matches a complete text.

    Raises:
        ValueError: It is not a pattern, or to decide takes too long.
    """
    try:
        validator = _validator(pattern)
    except jsonschema_rs.ValidationError:
        raise ValueError("no pattern") from None
    for error in validator.iter_errors(text):
        if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded):
            raise ValueError("the pattern takes too many steps")  # noqa: TRY004 - no type is wrong
        return False
    return True


@lru_cache(1000)
def _validator(pattern: str) -> Any:
    return jsonschema_rs.Draft7Validator(
        {"pattern": f"^(?:{pattern})$"},
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACK_MOST),
    )


def rewrite(call: Any, takes: Callable[[str], bool]) -> None:
    """Make a call of `matches` a call that matches the complete text.

    Args:
        call: `cel.expr.Expr.Call`, which is changed.
        takes: Returns whether RE2 accepts a pattern.
    """
    pattern = call.args[-1]
    if pattern.const.WhichOneof("kind") == "string" and takes(pattern.const.string):
        pattern.const.string = whole(pattern.const.string)
    else:
        call.function = FUNCTION
