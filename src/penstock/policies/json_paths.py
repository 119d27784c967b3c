"""Places in JSON documents: `customer.email`, `cards[*].number`, `[*].id`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

EVERY: Final = object()
"""A step to all items of an array."""
_WHITESPACE: Final = " \t\n\r"
_OTHER_LANGUAGES: Final = ("$.", "$[", "/")
"""How paths of JSONPath and JSON Pointer begin: no field is meant whose name begins so."""
_STEP: Final = re.compile(r"(?:^|\.)([^.\[\]]+)|(\[\*\])")


def parse(path: str) -> tuple[Any, ...]:
    """Read a path: names after dots, `[*]` for all items of an array.

    Raises:
        ValueError: It is none.
    """
    steps: list[Any] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            break
        steps.append(EVERY if match[2] else match[1])
        position = match.end()
    if not steps or position < len(path) or path.startswith(_OTHER_LANGUAGES):
        raise ValueError(f"{path!r} is no path; write customer.email or cards[*].number")
    return tuple(steps)


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
