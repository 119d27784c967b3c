"""The contents of JSON values: at each place the types, how often, and the values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.jobs.suggestions.formats import formats_of

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES_MOST: Final = 200
"""Of a place with more different texts, none is remembered: it is not an enumeration."""
_NUMBERS_MOST: Final = 20_000
_FIELDS_MOST: Final = 500
"""Of an object with more different names, none is remembered: it is a map."""
_LEVELS_MOST: Final = 20
_LONGEST: Final = 100
"""Characters of a text that may be one of an enumeration."""
_NAMES: Final = {
    str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array",
    type(None): "null",
}  # fmt: skip


@dataclass(slots=True)
class Profile:
    """The values at one place.

    Attributes:
        count: How often the place had a value, null too.
        types: How often of each of JSON Schema's types.
        texts: How often each text was there; empty where there are too many.
        formats: How often texts were of a format.
        numbers: Numbers that were there, the first of them.
        fields: The fields of objects, by name.
        items: The items of arrays.
    """

    count: int = 0
    types: Counter[str] = field(default_factory=Counter)
    texts: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    numbers: list[float] = field(default_factory=list)
    fields: dict[str, Profile] = field(default_factory=dict)
    items: Profile | None = None
    _has_many_texts: bool = False
    _has_many_fields: bool = False

    @property
    def is_map(self) -> bool:
        """Whether there were too many names for fields."""
        return self._has_many_fields

    def add(self, value: Any, level: int = 0) -> None:
        """Look at a value.

        Args:
            value: Of a JSON document.
            level: How many objects and arrays it is in.
        """
        self.count += 1
        self.types[_NAMES[type(value)]] += 1
        if isinstance(value, str):
            self._add_text(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            if len(self.numbers) < _NUMBERS_MOST:
                self.numbers.append(value)
        elif isinstance(value, dict) and level < _LEVELS_MOST:
            self._add_fields(value, level)
        elif isinstance(value, list) and level < _LEVELS_MOST:
            if self.items is None:
                self.items = Profile()
            for item in value[:_FIELDS_MOST]:
                self.items.add(item, level + 1)

    def _add_text(self, value: str) -> None:
        self.formats.update(formats_of(value))
        if self._has_many_texts:
            return
        if len(value) <= _LONGEST:
            self.texts[value] += 1
        if len(value) > _LONGEST or len(self.texts) > VALUES_MOST:
            self._has_many_texts = True
            self.texts.clear()

    def _add_fields(self, value: dict[str, Any], level: int) -> None:
        if self._has_many_fields:
            return
        for name, inner in value.items():
            self.fields.setdefault(name, Profile()).add(inner, level + 1)
        if len(self.fields) > _FIELDS_MOST:
            self._has_many_fields = True
            self.fields.clear()

    def places(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Profile]]:
        """Yield the fields of objects in objects, each with its path; not those in arrays."""
        for name, inner in self.fields.items():
            yield (*path, name), inner
            yield from inner.places((*path, name))
