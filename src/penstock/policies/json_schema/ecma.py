r"""Regular expressions of ECMA 262, in the syntax of the engines that judge by them.

Both engines read the syntax of Rust's `regex` and translate most of ECMA 262 themselves. Here
the others are replaced: what they do not know (`\0`, `[^]`, `[\b]`, `\k<name>`, surrogate
pairs), and what means something different to them (`.` beside some line ends, `\b` beside
letters that are not ASCII, and with look-around or references back `\d`, `\w` and `\s`).

Source: "Patterns" of ECMA 262, with the flag u, which JSON Schema recommends. An expression that
is not valid with it stays as it is.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.json_schema.dialects import MAPS_OF_ALL_DRAFTS, draft_of_uri
from penstock.policies.json_schema.reasons import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_DIGITS: Final = frozenset("0123456789")
_SYNTAX: Final = frozenset("^$\\.*+?()[]{}|")
_CONTROLS: Final = {"f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09, "v": 0x0B}
_RANGES: Final = {
    "d": ((0x30, 0x39),),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "s": ((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
          (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000),
          (0xFEFF, 0xFEFF)),
}  # fmt: skip
_OF_VALUES: Final = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose value is no schema."""
_LARGEST: Final = 0x10FFFF
_ESCAPE_LONGEST: Final = 300
"""Characters of an escape; a longer escape is not read."""
_WORD: Final = "[0-9A-Z_a-z]"
_BOUNDARY: Final = {
    "b": rf"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
    "B": rf"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))",
}
_NEVER: Final = r"[^\s\S]"
_ALWAYS: Final = r"[\s\S]"
_NO_LINE_END: Final = r"[^\n\r\u{2028}\u{2029}]"
_SURROGATES: Final = range(0xD800, 0xE000)
_HIGH: Final = range(0xD800, 0xDC00)
_LOW: Final = range(0xDC00, 0xE000)
_GROUP: Final = re.compile(r"\((?:\?(?::|=|!|<=|<!|<(?P<name>[^\W\d][\w$]*)>))?")
_QUANTIFIER: Final = re.compile(
    r"(?:[*+?]|\{(?P<least>\d{1,9})(?:,(?P<most>\d{0,9}))?\})\??", re.ASCII
)
_HEX: Final = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]+)\}")
_LOW_HALF: Final = re.compile(r"\\u([dD][c-fC-F][0-9A-Fa-f]{2})")
_PROPERTY: Final = re.compile(r"[pP]\{\w+(?:=\w+)?\}", re.ASCII)
_REFERENCE: Final = re.compile(r"[1-9][0-9]{0,8}|k<([^\W\d][\w$]*)>")


def _between(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of all characters between some ranges."""
    start = 0
    for first, last in ranges:
        yield start, first - 1
        start = last + 1
    yield start, _LARGEST


def _members(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(rf"\u{{{first:x}}}-\u{{{last:x}}}" for first, last in ranges)


_SETS: Final = {
    **{name: _members(ranges) for name, ranges in _RANGES.items()},
    **{name.upper(): _members(_between(ranges)) for name, ranges in _RANGES.items()},
}
"""What stands in brackets for a set: no engine needs brackets in brackets."""


def translated(pattern: str, *, is_native: bool, has_flags: bool = True) -> str:
    """Return an expression of ECMA 262 with the same meaning to an engine.

    Args:
        pattern: As it was written; it is returned unchanged where the engines know it, and
            where it is not valid with the flag u.
        is_native: Whether `native/` judges by it.
        has_flags: Whether the engine takes Rust's flags, which are not of ECMA 262.
    """
    try:
        reader = _Reader(pattern, is_native=is_native, has_flags=has_flags)
        translation = reader.read()
        if reader.looks_around:
            return _Reader(pattern, is_native=is_native, is_backtracking=True).read()
    except ValueError:
        return pattern
    return translation


class Translation:
    r"""The regular expressions of schemas, translated for an engine.

    In drafts 4 to 7, the library takes nothing that is not ECMA 262, and so `\b` as Rust has it.
    """

    def __init__(self, *, is_native: bool) -> None:
        self._is_native = is_native
        self._originals: dict[str, str] = {}

    def document(self, schema: Any) -> Any:
        """Return a copy of a schema with its regular expressions translated."""
        draft = draft_of_uri(schema.get("$schema")) if isinstance(schema, dict) else None
        has_flags = self._is_native or draft not in {4, 6, 7}
        copy = json.loads(json.dumps(schema))
        _translate_patterns(copy, partial(self._pattern, has_flags=has_flags))
        return copy

    def _pattern(self, pattern: str, *, has_flags: bool) -> str:
        translation = translated(pattern, is_native=self._is_native, has_flags=has_flags)
        if translation != pattern:
            self._originals[shown(translation)] = shown(pattern)
        return translation

    def as_written(self, text: str) -> str:
        """Return a reason or an error with the expressions as they were written."""
        for translation, pattern in self._originals.items():
            text = text.replace(translation, pattern)
        return text


def _translate_patterns(schema: Any, translate: Callable[[str], str]) -> None:
    """Translate the regular expressions of a schema in place.

    Args:
        schema: As it was parsed.
        translate: Returns the translation of an expression.
    """
    nodes = [(schema, False)]
    while nodes:
        node, has_names = nodes.pop()
        if isinstance(node, list):
            nodes += [(item, False) for item in node]
        if not isinstance(node, dict):
            continue
        for key, value in node.items():
            if has_names or key not in _OF_VALUES:
                is_map = not has_names and key in MAPS_OF_ALL_DRAFTS
                nodes.append((value, is_map))
            if not has_names and key == "pattern" and isinstance(value, str):
                node[key] = translate(value)
            elif not has_names and key == "patternProperties" and isinstance(value, dict):
                node[key] = {translate(pattern): inner for pattern, inner in value.items()}


class _Reader:
    """Reads an expression from left to right and writes its translation.

    Attributes:
        looks_around: Whether it has look-around or a reference back, as far as it is read.
    """

    def __init__(
        self,
        pattern: str,
        *,
        is_native: bool,
        is_backtracking: bool = False,
        has_flags: bool = True,
    ) -> None:
        self._pattern = pattern
        self._position = 0
        self._is_backtracking = is_backtracking
        self._is_native = is_native
        self._has_flags = has_flags
        self.looks_around = False
        groups = _groups(pattern)
        self._count = len(groups)
        self._numbers = {group["name"]: number for number, group in enumerate(groups, 1)}
        self._parts: list[str] = []
        self._open: list[bool] = []

    def read(self) -> str:
        """Return the translation.

        Raises:
            ValueError: It is not valid with the flag u.
        """
        may_repeat = False
        while self._position < len(self._pattern):
            may_repeat = self._term(self._pattern[self._position], may_repeat=may_repeat)
        if self._open:
            raise ValueError
        return "".join(self._parts)

    def _term(self, sign: str, *, may_repeat: bool) -> bool:
        """Read one part; return whether a quantifier may follow it."""
        quantifier = _QUANTIFIER.match(self._pattern, self._position)
        if quantifier is not None:
            least, most = quantifier["least"], quantifier["most"]
            if not may_repeat or (most and int(most) < int(least)):
                raise ValueError
            return self._take(quantifier[0])
        if sign == "(":
            return self._group()
        if sign == ")":
            return self._end_of_group()
        if sign == "[":
            return self._class()
        if sign == "\\":
            return self._escape()
        if sign == ".":
            is_known = self._is_native and not self._is_backtracking
            return self._take(sign, sign if is_known else _NO_LINE_END, repeats=True)
        if sign in "]{}":
            raise ValueError
        return self._take(sign, repeats=sign not in "^$|")

    def _take(self, text: str, replacement: str | None = None, *, repeats: bool = False) -> bool:
        self._position += len(text)
        self._parts.append(text if replacement is None else replacement)
        return repeats

    def _group(self) -> bool:
        match = _GROUP.match(self._pattern, self._position)
        assert match is not None
        text = match[0]
        if text == "(" and self._pattern.startswith("(?", self._position):
            raise ValueError
        is_around = text[2:] in {"=", "!", "<=", "<!"}
        self.looks_around |= is_around
        self._open.append(not is_around)
        return self._take(text, "(" if match["name"] and self._is_backtracking else None)

    def _end_of_group(self) -> bool:
        if not self._open:
            raise ValueError
        return self._take(")", repeats=self._open.pop())

    def _escape(self) -> bool:
        rest = self._pattern[self._position + 1 : self._position + _ESCAPE_LONGEST]
        kind = rest[:1]
        if kind in _BOUNDARY and kind:
            boundary = rf"(?-u:\{kind})" if self._has_flags else rf"\{kind}"
            return self._take(rf"\{kind}", _BOUNDARY[kind] if self._is_backtracking else boundary)
        reference = _REFERENCE.match(rest)
        if reference is not None:
            return self._reference(reference)
        if kind and kind in "dDwWsS":
            replacement = f"[{_SETS[kind]}]" if self._is_backtracking else None
            return self._take(rf"\{kind}", replacement, repeats=True)
        property_escape = _PROPERTY.match(rest)
        if property_escape is not None:
            return self._take(rf"\{property_escape[0]}", repeats=True)
        text, number = self._character(rest)
        replacement = _NEVER if number in _SURROGATES else self._of_number(text, number)
        return self._take(text, replacement, repeats=True)

    def _reference(self, match: re.Match[str]) -> bool:
        """Read a reference back, which becomes a number: engines differ in names."""
        self.looks_around = True
        number = int(match[0]) if match[1] is None else self._numbers.get(match[1], 0)
        if not 0 < number <= self._count:
            raise ValueError
        # In a group, since a digit may follow.
        return self._take(rf"\{match[0]}", rf"(?:\{number})", repeats=True)

    def _character(self, rest: str, *, in_class: bool = False) -> tuple[str, int]:
        """Return an escaped character: its text, and its number.

        Args:
            rest: What follows the backslash.
            in_class: Whether it is in brackets.
        """
        kind = rest[:1]
        match = _HEX.match(rest)
        if match is not None:
            return self._of_hex(rest, match)
        if kind in _CONTROLS:
            return rf"\{kind}", _CONTROLS[kind]
        if kind == "0" and rest[1:2] not in _DIGITS:
            return r"\0", 0
        if kind == "c" and rest[1:2].isascii() and rest[1:2].isalpha():
            return rf"\{rest[:2]}", ord(rest[1]) % 32
        if in_class and kind == "b":
            return r"\b", 8
        if kind and (kind in _SYNTAX or kind == "/" or (in_class and kind == "-")):
            return rf"\{kind}", ord(kind)
        raise ValueError

    @staticmethod
    def _of_hex(rest: str, match: re.Match[str]) -> tuple[str, int]:
        number = int(match[1] or match[2] or match[3], 16)
        if number > _LARGEST:
            raise ValueError
        low = _LOW_HALF.match(rest, match.end()) if match[2] and number in _HIGH else None
        if low is None:
            return rf"\{match[0]}", number
        whole = 0x10000 + ((number - _HIGH.start) << 10) + int(low[1], 16) - _LOW.start
        return rf"\{match[0]}{low[0]}", whole

    def _of_number(self, text: str, number: int) -> str:
        """Return an escaped character as the engines know it."""
        is_known = text[1:2] not in {"0", "c", "b"} and number <= 0xFFFF
        is_known = is_known or text.startswith(r"\u{")
        is_known &= not (self._is_backtracking and text[1:2] in {"v", "f"})
        return text if is_known else rf"\u{{{number:x}}}"

    def _class(self) -> bool:
        start = self._position
        self._position += 1
        is_negated = self._pattern.startswith("^", self._position)
        self._position += is_negated
        members = []
        while not self._pattern.startswith("]", self._position):
            if self._position >= len(self._pattern):
                raise ValueError
            members.append(self._member())
        self._position += 1
        inside = "".join(members)
        if not inside:
            replacement = _ALWAYS if is_negated else _NEVER
        else:
            replacement = f"[{'^' * is_negated}{inside}]"
        self._parts.append(replacement)
        assert self._position > start
        return True

    def _member(self) -> str:
        """Read a character, a range or a set in brackets; return its translation."""
        first, first_number = self._class_atom()
        is_range = (
            self._pattern.startswith("-", self._position)
            and not self._pattern.startswith("]", self._position + 1)
            and self._position + 1 < len(self._pattern)
        )
        if not is_range:
            return "" if first_number in _SURROGATES else first
        self._position += 1
        last, last_number = self._class_atom()
        if first_number is None or last_number is None or first_number > last_number:
            raise ValueError
        if first_number in _SURROGATES:
            first, first_number = r"\u{e000}", _SURROGATES.stop
        if last_number in _SURROGATES:
            last, last_number = r"\u{d7ff}", _SURROGATES.start - 1
        return f"{first}-{last}" if first_number <= last_number else ""

    def _class_atom(self) -> tuple[str, int | None]:
        """Read a character or a set in brackets; return its translation, and its number."""
        sign = self._pattern[self._position]
        if sign != "\\":
            self._position += 1
            return (rf"\{sign}" if sign in "[&~-" else sign), ord(sign)
        rest = self._pattern[self._position + 1 : self._position + _ESCAPE_LONGEST]
        kind = rest[:1]
        if kind and kind in "dDwWsS":
            self._position += 2
            return (_SETS[kind] if self._is_backtracking else rf"\{kind}"), None
        property_escape = _PROPERTY.match(rest)
        if property_escape is not None:
            self._position += 1 + len(property_escape[0])
            return rf"\{property_escape[0]}", None
        text, number = self._character(rest, in_class=True)
        self._position += len(text)
        return self._of_number(text, number), number


def _groups(pattern: str) -> list[re.Match[str]]:
    """Return the groups that capture."""
    groups = []
    position = 0
    in_class = False
    while position < len(pattern):
        sign = pattern[position]
        if sign == "\\":
            position += 1
        elif in_class:
            in_class = sign != "]"
        elif sign == "[":
            in_class = True
        elif sign == "(":
            group = _GROUP.match(pattern, position)
            if group is not None and (
                group["name"] or (group[0] == "(" and not pattern.startswith("(?", position))
            ):
                groups.append(group)
        position += 1
    return groups
