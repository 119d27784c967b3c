"""The reason why a value does not fit: the place, and what the schema expects, without the value.

The text is made of the schema's words alone. Names of properties are shown where the schema
mentions them; any other name is the producer's, and `*` replaces it. Indexes of arrays
are shown.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from jsonschema_rs import ValidationError, ValidationErrorKind

    Texts = Iterable[bytes | memoryview | None]

_MAX_SHOWN: Final = 200


def reason(error: ValidationError, names: Collection[str]) -> str:
    """Return the text about an error, to follow the name of a value.

    Args:
        error: Of jsonschema-rs. Its own messages quote the value, and are not used.
        names: The property names that may be shown.
    """
    expected = _EXPECTED.get(error.kind.name, _by_keyword)(error.kind)
    place = pointer(error.instance_path, names)
    return f"at {place} {expected}" if place else expected


class Reason(NamedTuple):
    """One of the reasons why a value does not fit.

    Attributes:
        rule: The place in the value, with `[]` for each index of an array, and the keyword of the
            schema: `lines[].price: minimum`.
        text: The text to follow the name of the value, as from `reason`.
        field: The property of the value, at its top level, that it is about, if there is one.
    """

    rule: str
    text: str
    field: str | None

    @property
    def fields(self) -> tuple[str, ...]:
        """The same, none or one."""
        return () if self.field is None else (self.field,)


def named_reason(error: ValidationError, names: Collection[str]) -> Reason:
    """Return a reason with its rule; the arguments are those of `reason`."""
    kind: Any = error.kind
    keyword: str = kind.name
    path = [*error.instance_path]
    if keyword == "required":
        path.append(kind.property)
    steps = [step if isinstance(step, int) or step in names else "*" for step in path]
    place = "".join("[]" if isinstance(step, int) else f".{step}" for step in steps)
    field = steps[0] if steps and isinstance(steps[0], str) and steps[0] != "*" else None
    rule = f"{place.removeprefix('.')}: {keyword}" if place else keyword
    return Reason(rule, reason(error, names), field)


def native_reason(keyword: str, keyword_value: str | None, place: str) -> str:
    """Return the text about what `native/` found, to follow the name of a value.

    Args:
        keyword: The keyword that the value breaks, or a key of `FLAWS`.
        keyword_value: The schema's value of the keyword, as JSON; None for a flaw.
        place: The value's JSON pointer.
    """
    if keyword_value is None:
        return FLAWS[keyword]
    kind = _NativeFailure(keyword, json.loads(keyword_value))
    expected = _EXPECTED.get(keyword, _by_keyword)(kind)
    return f"at {place} {expected}" if place else expected


def pointer(path: list[str | int], names: Collection[str]) -> str:
    """Return a path as a JSON pointer, with `*` for each name that is not among `names`."""
    return "".join(
        f"/{step}"
        if isinstance(step, int)
        else f"/{step.replace('~', '~0').replace('/', '~1')}"
        if step in names
        else "/*"
        for step in path
    )


class _NativeFailure:
    """A failure of `native/`, with the attributes that the library's have."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self._value = value

    def __getattr__(self, _: str) -> Any:
        return self._value

    @property
    def types(self) -> list[str]:
        """What `type` allows."""
        return sorted(self._value) if isinstance(self._value, list) else [self._value]


def shown(value: Any) -> str:
    """Return a value of a schema for a message: as JSON, cut if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _limit(text: str) -> Callable[[Any], str]:
    return lambda kind: f"{text} {kind.limit}"


def _by_keyword(kind: ValidationErrorKind) -> str:
    return f"breaks {kind.name}"


FLAWS: Final = {
    "notJson": "is not JSON",
    "notUtf8": "is not JSON, which is UTF-8",
    "tooDeep": "has more than 127 levels of arrays and objects",
    "tooLarge": "has a number that is too large for a double",
    "tooLong": "is longer than 4 GB",
    "tooMuch": "takes too much work to judge by its schema",
}
"""The message about a text that was not judged to the end by a schema."""
_EXPECTED: Final[dict[str, Callable[[Any], str]]] = {
    "type": lambda kind: f"must be of type {' or '.join(kind.types)}",
    "required": lambda kind: f"lacks the property {shown(kind.property)}",
    "enum": lambda kind: f"must be one of {shown(kind.options)}",
    "const": lambda kind: f"must be {shown(kind.expected_value)}",
    "minimum": _limit("must be at least"),
    "maximum": _limit("must be at most"),
    "exclusiveMinimum": _limit("must be greater than"),
    "exclusiveMaximum": _limit("must be less than"),
    "multipleOf": lambda kind: f"must be a multiple of {kind.multiple_of}",
    "minLength": _limit("has fewer characters than"),
    "maxLength": _limit("has more characters than"),
    "minItems": _limit("has fewer items than"),
    "maxItems": _limit("has more items than"),
    "minProperties": _limit("has fewer properties than"),
    "maxProperties": _limit("has more properties than"),
    # Where a pattern with look-around was given up, the kind of the error has no pattern.
    "pattern": lambda kind: (
        f"must match {shown(kind.pattern)}" if hasattr(kind, "pattern") else FLAWS["tooMuch"]
    ),
    "format": lambda kind: f"must be of format {shown(kind.format)}",
    "uniqueItems": lambda _: "has the same item twice",
    "additionalProperties": lambda _: "has a property that the schema does not allow",
    "unevaluatedProperties": lambda _: "has a property that the schema does not allow",
    "additionalItems": lambda _: "has more items than the schema allows",
    "unevaluatedItems": lambda _: "has more items than the schema allows",
    "propertyNames": lambda _: "has a property with a name that the schema does not allow",
    "contains": lambda _: "does not have the items that contains asks for",
    # For base64 whose content is not UTF-8, the library names neither.
    "contentEncoding": lambda kind: (
        f"must be encoded in {shown(kind.content_encoding)}"
        if hasattr(kind, "content_encoding")
        else "breaks contentMediaType"
    ),
    "contentMediaType": lambda kind: f"must be of media type {shown(kind.content_media_type)}",
    "anyOf": lambda _: "fits no schema of anyOf",
    "oneOf": lambda _: "does not fit exactly one schema of oneOf",
    "not": lambda _: "fits the schema of not",
    "falseSchema": lambda _: "may not be there",
}
