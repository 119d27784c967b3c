"""Lines of a `.properties` file that Java reads in another way than many authors mean them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.configuration.values import may_be_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

_ESCAPE: Final = re.compile(r"\\(\n[ \t\f]*|.)", re.DOTALL)
_KEPT: Final = frozenset("\\tnrfu:=#! \t\f\"'")
"""With a backslash before it, each of these is what its author means."""
_BEFORE_VALUE: Final = re.compile(r"[ \t\f]*[^=: \t\f\n]*[ \t\f]*[=:]?[ \t\f]*")
_QUOTED: Final = re.compile(r"""(["'])[^"']*\1(?:\s*,\s*\1[^"']*\1)*""")
"""A value in quotes, or a list whose items are."""
_JSON: Final = ".replacement"
"""What ends the keys whose value can be JSON, where quotes are no part of the text."""
_COMMENT: Final = re.compile(r"\A#(?=[ \t\f])|(?<=[ \t\f])#")


def misreadings(key: str, value: str, source: str, line: int) -> Iterator[str]:
    """Yield a sentence for each lost backslash, and for quotes and a comment within the value.

    Args:
        source: Its lines as they are written.
        line: The number of the first of them.
    """
    escapes: dict[str, int] = {}
    for escape in _ESCAPE.finditer(source):
        if not escape[1].startswith("\n") and escape[1] not in _KEPT:
            escapes.setdefault(escape[0], escape.start())
    for text, position in escapes.items():
        where = f"line {_line_of(position, source, line)}: {key}"
        if may_be_secret(key):
            yield f"{where}: a backslash is lost, as in Java: write two for one"
            break
        yield f"{where}: {text} loses its backslash, as in Java: write \\{text}"
    if _QUOTED.fullmatch(value.strip()) and not key.endswith(_JSON):
        yield f"line {line}: {key}: the quotes belong to the value: write it without them"
    comment = _comment_in(source)
    if comment is not None:
        yield (
            f"line {_line_of(comment, source, line)}: {key}: the # and all that follows belong to "
            "the value: give the comment a line of its own, or write \\# for a # of the value"
        )


def _comment_in(source: str) -> int | None:
    """Return the position of a `#` that looks like the beginning of a comment; None without one."""
    plain = _ESCAPE.sub(_without_escape, source)
    prefix_match = _BEFORE_VALUE.match(plain)
    assert prefix_match is not None
    comment_match = _COMMENT.search(plain[prefix_match.end() :])
    return None if comment_match is None else prefix_match.end() + comment_match.start()


def _without_escape(escape: re.Match[str]) -> str:
    """Return a text as long as an escape: blanks where a line is continued."""
    return (" " if escape[1].startswith("\n") else "x") * len(escape[0])


def _line_of(position: int, source: str, line: int) -> int:
    return line + source.count("\n", 0, position)
