"""A value that does not fit the column that it is to be written to."""

from __future__ import annotations

from typing import Final

from penstock.errors import MalformedError
from penstock.policies.decoded.unclear import Unclear

_KINDS: Final = {
    type(None): "null",
    bool: "true or false",
    str: "a string",
    bytes: "bytes",
    list: "an array",
    dict: "an object",
    Unclear: "of one of several types of a union, which its value does not show",
}


class MisfitError(MalformedError):
    """A value does not fit a column.

    The text has the place in the value, and no content: names are those of the column's fields.
    """

    def __init__(self, text: str) -> None:
        """Set the text, which follows the name of the value."""
        super().__init__(text)
        self._text = text
        self._steps: list[str | int] = []

    def within(self, step: str | int) -> MisfitError:
        """Add the field, or the position in an array, that the place so far is in."""
        self._steps.append(step)
        return self

    def __str__(self) -> str:
        if not self._steps:
            return self._text
        return f"at {''.join(map(_pointed, reversed(self._steps)))} {self._text}"


def kind_of(value: object) -> str:
    """Return the kind of a value, in JSON's words."""
    kind = _KINDS.get(type(value))
    if kind is None:
        kind = "a time" if hasattr(value, "isoformat") else "a number"
    return kind


def _pointed(step: str | int) -> str:
    """Return a step of a JSON pointer."""
    return "/" + str(step).replace("~", "~0").replace("/", "~1")
