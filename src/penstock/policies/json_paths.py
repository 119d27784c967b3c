"""Places in JSON documents: `customer.email`, `cards[*].number`, `[*].id`, `['$id']['a.b']`.

The notation is a part of JSONPath (RFC 9535), in which the `$` for the document may be left out.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

EVERY: Final = object()
"""A step to all items of an array."""
_WHITESPACE: Final = " \t\n\r"
_STEP: Final = re.compile(
    r"""(?:^|\.)([^.\[\]]+) | (\[\*\]) | \[(?:'((?:[^'\\]|\\.)*)' | "((?:[^"\\]|\\.)*)")\]""",
    re.VERBOSE,
)
_PLAIN: Final = re.compile(r"[^.\[\]$/*'\"][^.\[\]]*")
"""A name that needs no quotes."""
_IN_SINGLE_QUOTES: Final = re.compile(r"\\.|\"")


def parse(path: str) -> tuple[Any, ...]:
    """Read a path: names after dots or in `['']`, `[*]` for all items of an array.

    Raises:
        ValueError: It is invalid.
    """
    has_root = path == "$" or path.startswith(("$.", "$["))
    steps: list[Any] = []
    position = 1 if has_root else 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None or (has_root and match[1] == "*"):
            break
        steps.append(EVERY if match[2] else match[1] or _quoted(path, match))
        position = match.end()
    if not steps or position < len(path) or path.startswith("/"):
        raise ValueError(
            f"{path!r} is not a path; write customer.email, cards[*].number or ['any name']"
        )
    return tuple(steps)


def _quoted(path: str, match: re.Match[str]) -> str:
    """Return a name in quotes, with the escapes of JSON; a single quote may be escaped, too."""
    text = match[4]
    if text is None:
        text = _IN_SINGLE_QUOTES.sub(
            lambda found: {"\\'": "'", '"': '\\"'}.get(found[0], found[0]), match[3]
        )
    try:
        name: str = json.loads(f'"{text}"', strict=False)
    except ValueError:
        raise ValueError(
            f"{path!r} is not a path: {match[0]} has an escape that JSON lacks"
        ) from None
    return name


def written(path: Sequence[Any]) -> str:
    """Return the path that `parse` reads as these steps."""
    parts = []
    for step in path:
        if step is EVERY:
            parts.append("[*]")
        elif _PLAIN.fullmatch(step):
            parts.append(f".{step}")
        else:
            name = json.dumps(step, ensure_ascii=False)[1:-1].replace('\\"', '"')
            parts.append("['" + name.replace("'", "\\'") + "']")
    return "".join(parts).removeprefix(".")


def read(value: bytes) -> Any:
    """Read a document.

    Raises:
        ValueError: It is not JSON as RFC 8259 has it, in UTF-8.
    """
    text = value.decode("utf-8").strip(_WHITESPACE)
    document, end = _DECODER.raw_decode(text)
    if end != len(text):
        raise ValueError("there is text after the document")
    return document


def write(document: Any) -> bytes:
    """Write a document in as few bytes as possible.

    Raises:
        ValueError: A number is too large to be written.
    """
    try:
        return _ENCODER.encode(document).encode()
    except UnicodeEncodeError:  # half of a surrogate pair can only be written as an escape
        return _ASCII_ENCODER.encode(document).encode()


def find(document: Any, path: Sequence[Any]) -> Iterator[Any]:
    """Yield the values at a path."""
    if not path:
        yield document
        return
    step, rest = path[0], path[1:]
    if step is EVERY:
        if isinstance(document, list):
            for item in document:
                yield from find(item, rest)
    elif isinstance(document, dict) and step in document:
        yield from find(document[step], rest)


def replace(document: Any, path: Sequence[Any], by: Callable[[Any], Any]) -> bool:
    """Replace the values at a path in place; return whether there were any."""
    step, rest = path[0], path[1:]
    if step is EVERY:
        places: Any = range(len(document)) if isinstance(document, list) else ()
    else:
        places = (step,) if isinstance(document, dict) and step in document else ()
    replaced = False
    for place in places:
        if rest:
            replaced = replace(document[place], rest, by) or replaced
        else:
            document[place] = by(document[place])
            replaced = True
    return replaced


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# `json.loads` and `json.dumps` would make these again for each document.
_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_ASCII_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
