r"""Which regular expressions take time in proportion to the text, even if an engine backtracks.

Such a pattern means the same to every engine, too: it has characters, classes of them, `\d`,
counts, alternatives without counts, and the anchors at its two ends. One count without an
upper bound may be in it if it is anchored at its start; all others are bounded, and there are
few ways to divide a text among them.
"""

from __future__ import annotations

import re
from typing import Final

_MAX_LENGTH: Final = 1000
_MAX_COUNT: Final = 1000
_MAX_WAYS: Final = 64
_ONE: Final = re.compile(
    r"""(?P<atom>
        [A-Za-z0-9\ _\-:/@\#,;=!%&'"<>~`]                  # a character
      | \\[.\-/\\*+?^$|()\[\]{}]                            # an escaped one
      | \\d                                                 # a digit
      | \[\^?(?:(?:[A-Za-z0-9\ _.,:;@\#/+*?=!%&~$()]|\\[.\-/\\\[\]^])
              (?:-(?:[A-Za-z0-9]))?)+-?\]                    # a class
    )
    (?:(?P<count>[*+?])|\{(?P<least>[0-9]{1,4})(?P<range>,(?P<most>[0-9]{1,4})?)?\})?(?![*+?{])""",
    re.VERBOSE,
)


def is_linear(pattern: str) -> bool:
    """Return whether a pattern is one of those that every engine matches in linear time."""
    if len(pattern) > _MAX_LENGTH:
        return False
    anchored = pattern.startswith("^")
    body = pattern[1:] if anchored else pattern
    if body.endswith("$") and not body.endswith("\\$"):
        body = body[:-1]
    ways, unbounded = 1, 0
    for part, alternatives in _parts(body):
        counted = [_sequence(one) for one in (alternatives or [part])]
        if None in counted:
            return False
        ways *= sum(one[0] for one in counted if one)
        unbounded += sum(one[1] for one in counted if one)
    return ways <= _MAX_WAYS and unbounded <= (1 if anchored else 0)


def _parts(body: str) -> list[tuple[str, list[str]]]:
    """Split a pattern at its groups, which have no groups inside and no count behind them."""
    parts: list[tuple[str, list[str]]] = []
    rest = body
    while rest:
        group = re.match(r"\((?:\?:)?([^()\[\]\\{}*+?]*)\)(?![*+?{])", rest)
        if group:
            parts.append(("", group[1].split("|")))
            rest = rest[group.end() :]
            continue
        one = _ONE.match(rest)
        if one is None:
            return [("(", [])]  # no sequence
        parts.append((one[0], []))
        rest = rest[one.end() :]
    return parts


def _sequence(text: str) -> tuple[int, int] | None:
    """Return how many ways there are to share a text among counts, and how many have no bound."""
    ways, unbounded = 1, 0
    position = 0
    while position < len(text):
        one = _ONE.match(text, position)
        if one is None:
            return None
        position = one.end()
        if one["count"] == "?":
            ways *= 2
        elif one["count"] or (one["range"] and not one["most"]):
            unbounded += 1
        if one["least"]:
            least = int(one["least"])
            most = int(one["most"]) if one["most"] else least
            if not least <= most <= _MAX_COUNT:
                return None
            ways *= most - least + 1
    return ways, unbounded
