"""What would be right in a condition that CEL cannot read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_TEXT: Final = re.compile(r"""(['"]).*?(?<!\\)\1""")
_OF_OTHER_LANGUAGES: Final = (
    (re.compile(r"\bis\s+not\s+null\b", re.IGNORECASE), "IS NOT NULL is != null"),
    (re.compile(r"\bis\s+null\b", re.IGNORECASE), "IS NULL is == null"),
    (re.compile(r"\bnot\s+in\b", re.IGNORECASE), "NOT IN is !(value.x in ['a', 'b'])"),
    (re.compile(r"\bin\s*\(", re.IGNORECASE), "a list is ['a', 'b']"),
    (re.compile(r"\bIN\b"), "IN is in"),
    (re.compile(r"\bbetween\b", re.IGNORECASE), "BETWEEN is value.x >= 1 && value.x <= 2"),
    (re.compile(r"\blike\b", re.IGNORECASE), "LIKE is value.x.startsWith('a') or .matches('^a')"),
    (re.compile(r"\band\b", re.IGNORECASE), "and is &&"),
    (re.compile(r"\bor\b", re.IGNORECASE), "or is ||"),
    (re.compile(r"\bnot\b", re.IGNORECASE), "not is !"),
    (re.compile(r"<>"), "<> is !="),
    (re.compile(r"(?<![=!<>])=(?!=)"), "= is =="),
)
_NAME: Final = re.compile(r"undeclared reference to '(\w+)'")
_WORDS: Final = {
    "True": "write true", "False": "write false", "None": "write null", "NULL": "write null",
    "TRUE": "write true", "FALSE": "write false", "len": "write size(...)",
    "length": "write size(...)", "upper": "write upperAscii()", "lower": "write lowerAscii()",
    "startswith": "write startsWith()", "endswith": "write endsWith()",
}  # fmt: skip
_BRACKETS: Final = "a field whose name has other characters, or is a word of CEL, is value['a b']"


def hint_at(error: str, condition: str, variables: Iterable[str]) -> str:
    """Return what would be right, or which variables there are.

    Args:
        error: What CEL says.
        variables: Those that the condition may read.
    """
    names = f"it may read {', '.join(variables)}, now"
    if "Syntax error" in error:
        plain = _TEXT.sub("''", condition)
        hints = [hint for pattern, hint in _OF_OTHER_LANGUAGES if pattern.search(plain)]
        if any("null" in hint or "NOT IN" in hint for hint in hints):
            hints = [hint for hint in hints if not hint.startswith("not ")]
        if hints:
            return f"in CEL, {', '.join(hints)}"
        unread = "token recognition error" in error or "at input '." in error
        return _BRACKETS if unread or re.search(r"\w\s+\w", plain) else names
    undeclared = _NAME.search(error)
    if undeclared is None:
        return names
    name = undeclared[1]
    if name in _WORDS:
        return _WORDS[name]
    if re.search(rf"\b{name}\s*\(", condition) or "value" not in variables:
        return names
    return f"a field is value.{name}; {names}"
