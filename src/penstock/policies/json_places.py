"""Where paths lead in the text of a JSON value, so that only these places are replaced."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from penstock.policies.json_paths import EVERY, PathTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.policies.json_paths import Path

_WHITESPACE: Final = " \t\n\r"
_S: Final = r"[ \t\n\r]*+"
_SPACE: Final = re.compile(_S)
_NAME: Final = rf'"([^"\\\x00-\x1f]*+)"{_S}:{_S}'
"""A name without escapes, and the colon."""
_AFTER_BRACE: Final = re.compile(f"{_S}(}})?")
_COLON: Final = re.compile(f"{_S}:{_S}")
_AFTER_PROPERTY: Final = re.compile(rf"{_S}(?:(}})|,{_S})")
_AFTER_ITEM: Final = re.compile(rf"{_S}(?:(\])|,{_S})")
_STRING: Final = r'"(?>[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_SCALAR: Final = f"(?>{_STRING}|{_NUMBER}|true|false|null)"


class Place(NamedTuple):
    """A value in a text.

    Attributes:
        start: Its first character.
        end: The character behind it.
        paths: The numbers of the paths that lead to it.
    """

    start: int
    end: int
    paths: tuple[int, ...]


class Way:
    """How paths continue from a value. Ways of recursive schemas are cycles.

    Attributes:
        ends: The numbers of the paths that end here.
        next_ways: By the name of a property.
        otherwise: From any other property.
        is_end: Whether no path continues.
        next_name: Passes over properties that no path leads to, up to a name.
    """

    __slots__ = ("ends", "is_end", "items", "next_name", "next_ways", "otherwise")

    def __init__(self) -> None:
        """End nowhere, until `lead` is called."""
        self.lead()

    def lead(
        self,
        ends: Iterable[int] = (),
        fields: Mapping[str, Iterable[Way]] = MappingProxyType({}),
        otherwise: Iterable[Way] = (),
        items: Iterable[Way] = (),
    ) -> None:
        """Set where it leads; what follows from any property follows from those of a name, too."""
        self.ends = tuple(ends)
        self.otherwise = _each_once(otherwise)
        self.items = _each_once(items)
        self.next_ways = {
            name: _each_once((*ways, *self.otherwise)) for name, ways in fields.items()
        }
        self.is_end = not (self.next_ways or self.otherwise or self.items)
        is_open = bool(self.otherwise) or not self.next_ways
        self.next_name = (_ANY_NAME if is_open else _name_behind(self.next_ways)).match


class JsonPlaces:
    """Finds places in texts.

    A property that occurs several times is found each time. Other values are only validated, so no
    number is too large.
    """

    def __init__(self, way: Way, names: Sequence[str] = ()) -> None:
        """Set the way.

        Args:
            way: From the document.
            names: A text without any of these has no place, unless it has escapes. None are given
                if that is unknown.
        """
        self._way = way
        self._names = [f'"{name}"' for name in names]

    @classmethod
    def of_paths(cls, paths: Sequence[Path]) -> Self:
        """Return the places of paths, which are numbered from 0."""
        of_paths = [[step for step in path if step is not EVERY] for path in paths]
        names = [max(names, key=len) for names in of_paths if names]
        return cls(_way_of(PathTree(paths)), names if all(of_paths) else ())

    def find(self, text: str) -> list[Place]:
        """Return the places in a text, in their order; one may be within another.

        Raises:
            ValueError: The text is not JSON as RFC 8259 has it.
            RecursionError: It has thousands of levels.
        """
        start = _end(_SPACE, text, 0)
        reading = _Reading(text)
        try:
            if self._may_be_in(text):
                end = reading.value(start, (self._way,))
            else:
                end = _scan(text, start)[1]
        except StopIteration:
            raise ValueError("a value is missing, or is not JSON") from None
        if _end(_SPACE, text, end) < len(text):
            raise ValueError("there is text after the document")
        return sorted(reading.places)

    def _may_be_in(self, text: str) -> bool:
        return not self._names or "\\" in text or any(name in text for name in self._names)


def _way_of(tree: PathTree) -> Way:
    way = Way()
    every = () if tree.every is None else (_way_of(tree.every),)
    way.lead(
        tree.ends,
        {name: (_way_of(below),) for name, below in tree.names.items()},
        every,
        every,
    )
    return way


def _each_once(ways: Iterable[Way]) -> tuple[Way, ...]:
    return tuple(dict.fromkeys(ways))


class _Reading:
    """Reads a text as far as paths lead. The time is spent in regular expressions and in C."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.places: list[Place] = []

    def value(self, start: int, ways: tuple[Way, ...]) -> int:
        """Read a value; return its end."""
        way = ways[0]
        first = self._text[start : start + 1]
        if way.is_end and len(ways) == 1:
            end: int = _scan(self._text, start)[1]
        elif first == "{":
            end = self._object(start + 1, ways)
        elif first == "[":
            end = self._array(start + 1, ways)
        else:
            end = _scan(self._text, start)[1]
        ends = way.ends if len(ways) == 1 else sum((each.ends for each in ways), ())
        if ends:
            self.places.append(Place(start, end, ends))
        return end

    def _object(self, offset: int, ways: tuple[Way, ...]) -> int:
        text = self._text
        single = ways[0] if len(ways) == 1 else None
        next_name = _ANY_NAME.match if single is None else single.next_name
        match = _AFTER_BRACE.match(text, offset)
        while True:
            assert match is not None  # the pattern matches nothing, too
            offset = match.end()
            if match[1]:
                return offset
            match = next_name(text, offset)
            assert match is not None
            offset = match.end()
            if match[1]:
                return offset
            name, offset = (
                (match[2], offset) if match[2] is not None else self._escaped_name(offset)
            )
            if single is None:
                below = _each_once(
                    on for way in ways for on in way.next_ways.get(name, way.otherwise)
                )
            else:
                below = single.next_ways.get(name, single.otherwise)
            offset = self.value(offset, below) if below else _scan(text, offset)[1]
            match = _AFTER_PROPERTY.match(text, offset)
            if match is None:
                raise ValueError("a comma or } is missing")

    def _escaped_name(self, offset: int) -> tuple[str, int]:
        is_string = self._text.startswith('"', offset)
        name, offset = _scan(self._text, offset)
        match = _COLON.match(self._text, offset)
        if match is None or not is_string:
            raise ValueError("a name or a colon is missing")
        return name, match.end()

    def _array(self, offset: int, ways: tuple[Way, ...]) -> int:
        below = _each_once(on for way in ways for on in way.items)
        if not below:
            return _scan(self._text, offset - 1)[1]
        text = self._text
        offset = _end(_SPACE, text, offset)
        if text.startswith("]", offset):
            return offset + 1
        while True:
            match = _AFTER_ITEM.match(text, self.value(offset, below))
            if match is None:
                raise ValueError("a comma or ] is missing")
            offset = match.end()
            if match[1]:
                return offset


def replace(text: str, places: Iterable[Place], replacement: Callable[[str, Place], str]) -> str:
    """Return a text with other values at some places.

    Args:
        places: As `JsonPlaces.find` returns them. A place within another is left out.
        replacement: Returns the JSON text that replaces the JSON text at a place.
    """
    parts: list[str] = []
    end = 0
    for place in places:
        if place.start >= end:
            parts += (text[end : place.start], replacement(text[place.start : place.end], place))
            end = place.end
    return "".join((*parts, text[end:]))


def read(text: str) -> Any:
    """Read a document; numbers that no float or int of Python can be are decimals.

    Raises:
        ValueError: It is not JSON as RFC 8259 has it.
        RecursionError: It has thousands of levels.
    """
    text = text.strip(_WHITESPACE)
    document, end = _DECODER.raw_decode(text)
    if end != len(text):
        raise ValueError("there is text after the document")
    return document


def write(value: Any) -> str:
    """Return a value as JSON, in UTF-8, without spaces.

    Raises:
        ValueError: It has a number that JSON has not.
        TypeError: It has a value that JSON has not.
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair can only be written as an escape
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text


_ANY_NAME: Final = re.compile(f"(?:(?!)(.)|{_NAME})?+")
"""As `_name_behind`, but passes over nothing."""


def _name_behind(names: Iterable[str]) -> re.Pattern[str]:
    """Return what passes over properties with other names and scalar values.

    Behind them is `}`, which is the first group, or a name without escapes, which is the second, or
    neither.
    """
    alternatives = "|".join(map(re.escape, names))
    other = rf'"(?!(?:{alternatives})")[^"\\\x00-\x1f]*+"{_S}:{_S}{_SCALAR}{_S}'
    return re.compile(rf"(?>{other},{_S})*+(?:{other}(}})|{_NAME})?+")


def _end(pattern: re.Pattern[str], text: str, offset: int) -> int:
    """Return where a pattern ends that always matches."""
    match = pattern.match(text, offset)
    assert match is not None
    return match.end()


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _integer(digits: str) -> int | Decimal:
    try:
        return int(digits)
    except ValueError:  # thousands of digits
        return Decimal(digits)


# `json.loads` would make a decoder for each document.
_DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_constant=_no_constant)
_scan: Final[Callable[[str, int], tuple[Any, int]]] = json.JSONDecoder(  # type: ignore[attr-defined]
    parse_int=str, parse_constant=_no_constant
).scan_once
"""Returns a value and its end, or raises StopIteration where none begins."""
