"""Paths to fields of JSON values: `customer.email`, `cards[*].number`, `['$id']['a.b']`.

The notation is a part of JSONPath (RFC 9535), in which the `$` for the document may be left out. As
there, `*` means every item of an array and every property of an object. Names without quotes may
have more characters than there.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

EVERY: Final = object()
"""A step to every item of an array, and to every property of an object."""
Path = tuple[Any, ...]
"""Names, and `EVERY`."""
_WHITESPACE: Final = " \t\n\r"
_NAME: Final = re.compile(r"[^.\[\]]+")
_IN_BRACKETS: Final = re.compile(
    r"""\[ \s* (?: (\*) | '((?:[^'\\]|\\.)*)' | "((?:[^"\\]|\\.)*)" ) \s* \]""", re.VERBOSE
)
_IN_SINGLE_QUOTES: Final = re.compile(r"\\.|\"")
_ITEM: Final = re.compile(
    r"""(?: \[ \s* (?: '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" ) \s* \] | [^,] )*""", re.VERBOSE
)
_NOT_IN_BRACKETS: Final = (
    (re.compile(r"\[\s*-?[0-9]*\s*(?::[^\]]*)?\]"), "has no indexes and slices, only [*]"),
    (re.compile(r"\[\s*\?"), "has no filters"),
    (re.compile(r"""\[\s*['"*].*,"""), "has one name in brackets, so list a path for each"),
)
_NOT_A_NAME: Final = (
    (re.compile(r".*\*", re.DOTALL), "has * only as a whole name"),
    (re.compile(r".*[?()]", re.DOTALL), "has no filters and functions"),
    (re.compile(r"-?[0-9]+\Z"), "has no indexes; a property with this name is ['{}']"),
    (re.compile(r".*[;|]", re.DOTALL), "separates paths with commas, and has other names in ['']"),
    (re.compile(r"[\s/'\"#]|[@^]\Z|.*~\Z|.*[<>!=]", re.DOTALL), "has other names in ['']"),
)
"""Parts of JSONPath, its dialects and JSON Pointer that are not names."""


class PathTree:
    """Some paths from a value onward.

    Attributes:
        names: By the name of a property.
        every: To each item and property; None if no path has `*` here.
        ends: The numbers of the paths that end here.
    """

    __slots__ = ("ends", "every", "names")

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        """Set the paths."""
        self.names: dict[str, PathTree] = {}
        self.every: PathTree | None = None
        self.ends: tuple[int, ...] = ()
        for number, path in enumerate(paths):
            node = self
            for step in path:
                node = node._below(step)
            node.ends += (number,)

    def _below(self, step: Any) -> PathTree:
        if step is not EVERY:
            return self.names.setdefault(step, PathTree())
        if self.every is None:
            self.every = PathTree()
        return self.every


def parse(path: str) -> Path:
    """Read a path: names after dots or in `['']`, and `*` or `[*]` for all there are.

    Raises:
        ValueError: It is invalid, or uses a part of JSONPath that is not supported.
    """
    text = path.strip(_WHITESPACE)
    position = 1 if text == "$" or text.startswith(("$.", "$[", "$ ")) else 0
    needs_dot = position == 1
    steps: list[Any] = []
    while position < len(text):
        if text[position] in _WHITESPACE:
            position += 1
            continue
        if text[position] == "[":
            step, position = _bracketed(path, text, position)
        elif text[position] == "." or not needs_dot:
            step, position = _named(path, text, position)
        else:
            break
        steps.append(step)
        needs_dot = True
    if not steps or position < len(text):
        raise _wrong(path)
    return tuple(steps)


def split(text: str) -> list[str]:
    """Return the items of a comma-separated list; a name in brackets and quotes may have commas."""
    items, position = [], 0
    while True:
        match = _ITEM.match(text, position)
        assert match is not None  # it matches nothing, too
        items.append(match[0].strip())
        position = match.end() + 1
        if position > len(text):
            return items


def find(document: Any, path: Sequence[Any]) -> Iterator[Any]:
    """Yield the values at a path."""
    if not path:
        yield document
        return
    step, rest = path[0], path[1:]
    inner: Any = ()
    if step is EVERY:
        if isinstance(document, (list, dict)):
            inner = document.values() if isinstance(document, dict) else document
    elif isinstance(document, dict) and step in document:
        inner = (document[step],)
    for value in inner:
        yield from find(value, rest)


def _bracketed(path: str, text: str, position: int) -> tuple[Any, int]:
    match = _IN_BRACKETS.match(text, position)
    if match is None:
        whys = (why for pattern, why in _NOT_IN_BRACKETS if pattern.match(text, position))
        raise _wrong(path, next(whys, ""))
    return (EVERY if match[1] else _quoted(path, match)), match.end()


def _named(path: str, text: str, position: int) -> tuple[Any, int]:
    if text.startswith("..", position):
        raise _wrong(path, "has no ..")
    match = _NAME.match(text, position + (text[position] == "."))
    if match is None:
        raise _wrong(path)
    name = match[0].rstrip(_WHITESPACE)
    if name == "*":
        return EVERY, match.end()
    for pattern, why in _NOT_A_NAME:
        if pattern.match(name):
            raise _wrong(path, why.format(name))
    return name, match.end()


def _quoted(path: str, match: re.Match[str]) -> str:
    """Return a name in quotes, with the escapes of JSON; a single quote may be escaped, too."""
    text = match[3]
    if text is None:
        text = _IN_SINGLE_QUOTES.sub(
            lambda escape: {"\\'": "'", '"': '\\"'}.get(escape[0], escape[0]), match[2]
        )
    try:
        name: str = json.loads(f'"{text}"', strict=False)
    except ValueError:
        raise ValueError(
            f"{path!r} is not a path: {match[0]} has an escape that JSON lacks"
        ) from None
    return name


def _wrong(path: str, why: str = "") -> ValueError:
    examples = "write customer.email, cards[*].number or ['any name']"
    reason = f": Penstock's JSONPath {why}" if why else ""
    return ValueError(f"{path!r} is not a path{reason}; {examples}")
