"""What a schema uses, found by walking it and all that it refers to.

Three questions are answered. Does a reference lead back to itself without a step into the
document? Such a schema says nothing, and an evaluator may not end. May the fast way judge by
it? That is decided keyword by keyword, from a list of those about which both evaluators have
been seen to agree. Is the time of judging bounded by the bytes of a value?
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.patterns import is_linear

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.policies.json_schema.documents import SchemaDocuments

    Lookup = Callable[[str, str], tuple[Any, str]]
    """From a base URI and a reference to what it means, and the base URI there."""

_IN_PLACE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""Keywords whose schemas judge the same value."""
_BELOW: Final = (
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
)
"""Keywords whose schemas judge values inside, or names."""
_MAPS: Final = ("dependentSchemas", "dependencies", "properties", "patternProperties")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ANNOTATIONS: Final = frozenset(
    {
        "$schema",
        "$comment",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$defs",
        "definitions",
    }
)
_COMMON: Final = frozenset(
    {
        "$ref",
        "type",
        "enum",
        "maximum",
        "minimum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "maxProperties",
        "minProperties",
        "required",
        "items",
        "properties",
        "patternProperties",
        "additionalProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
    }
)
_SINCE: Final = {
    6: frozenset(("const", "contains", "propertyNames")),
    7: frozenset(("if", "then", "else")),
    2019: frozenset(
        {
            "dependentRequired",
            "dependentSchemas",
            "minContains",
            "maxContains",
            "unevaluatedProperties",
        }
    ),
    2020: frozenset(("prefixItems", "unevaluatedItems")),
}
_UNTIL: Final = {7: frozenset(("dependencies",)), 2019: frozenset(("additionalItems",))}
# `multipleOf`: the two divide differently beyond 64 bits. `unevaluatedItems` in 2019-09: whether
# an item that `contains` found has been evaluated. Draft 4: whether 1.0 is an integer (below).
_NEVER_FAST: Final = frozenset(
    {
        "multipleOf",
        "$id",
        "id",
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "$dynamicRef",
        "$recursiveRef",
        "$vocabulary",
        "format",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
    }
)
_EVERY_KEYWORD: Final = _COMMON.union(_NEVER_FAST, *_SINCE.values(), *_UNTIL.values())
_EXACT: Final = 2**53
_MOST_STEPS: Final = 300
MAX_SCHEMAS: Final = 100_000
"""Up to how many schemas are counted: references that double double the work, each of them."""
MAX_REPEATS: Final = 1000
MAX_EXPLAINED: Final = 3000
"""Of up to how many schemas for one value the reasons are gathered. Each anyOf or oneOf copies
those of the ones inside it: with 15 behind each other, of two branches each, it is gigabytes."""
_STEPS_OF_PATTERN: Final = 3
"""For each character, and for each time that one is repeated."""
_COUNTS: Final = re.compile(r"\{(\d*),?(\d*)\}")


def keywords(draft: int) -> frozenset[str]:
    """Return the keywords of a draft that the fast way may judge by."""
    since = (names for first, names in _SINCE.items() if draft >= first)
    until = (names for last, names in _UNTIL.items() if draft <= last)
    return _COMMON.union(*since, *until)


@dataclass(slots=True)
class Features:
    """What is known of a schema.

    Attributes:
        slow: What keeps it from the fast way, for people; empty where nothing does.
        names: The property names that it mentions; they may be shown.
        bounded: Whether judging takes time in proportion to a value's bytes.
        schemas: How many schemas there are with every reference replaced by what it means, or
            one more than `MAX_SCHEMAS`; 0 for a recursive schema, which has no such number.
        in_place: How many schemas judge one value, at most, with every reference replaced.
        branches: Whether there are alternatives, of all of which the reasons are gathered.
        repeats: How often a recursive or a very large schema may judge what is inside a value for
            each time that it judges the value, or one more than `MAX_REPEATS`: with 2, what is ten
            levels down is judged a thousand times. 1 for any other schema.
    """

    slow: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    bounded: bool = True
    schemas: int = 0
    in_place: int = 0
    branches: bool = False
    repeats: int = 1


@dataclass(slots=True)
class _Place:
    """Schemas that judge one value: how many, how many ways lead inside, and where they refer."""

    schemas: int = 0
    ways: int = 0
    references: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Target:
    """What a reference leads to: how many steps and schemas it is, and where it leads on."""

    size: int = 0
    schemas: int = 0
    in_place: set[str] = field(default_factory=set)
    everywhere: list[str] = field(default_factory=list)


class _Walk:
    """One walk over a schema."""

    def __init__(self, files: SchemaDocuments, lookup: Lookup, *, formats: bool) -> None:
        self.features = Features()
        self.targets: dict[str, _Target] = {}
        self.places: dict[str, _Place] = {}
        self._places_inside: list[_Place] = []
        self._files = files
        self._draft = files.draft
        self._lookup = lookup
        self._formats = formats
        self._fast = keywords(files.draft)
        self._waiting: list[tuple[str, Any, str]] = []

    def run(self) -> None:
        uri = self._files.uri
        self._waiting.append((uri, self._files.schema, uri))
        self.targets[uri] = _Target()
        while self._waiting:
            name, schema, base = self._waiting.pop()
            root = self._files.is_document(name.removesuffix("#"))
            place = self.places[name] = _Place()
            self._schema(schema, base, self.targets[name], place, in_place=True, root=root)

    def repeats(self) -> int:
        """Return how many ways lead inside from the schemas of one value, at most."""
        return max(1, self._most(lambda place: place.ways, MAX_REPEATS))

    def in_place(self) -> int:
        """Return how many schemas judge one value, at most."""
        return self._most(lambda place: place.schemas, MAX_SCHEMAS)

    def _most(self, own: Callable[[_Place], int], most: int) -> int:
        """Return the largest sum over a place with every reference replaced by what it means.

        Args:
            own: What a place adds itself.
            most: A larger sum is given as one more than this.
        """
        known: dict[str, int] = {}

        def total(place: _Place) -> int:
            return min(own(place) + sum(known[one] for one in place.references), most + 1)

        for name in _inner_first({name: one.references for name, one in self.places.items()}):
            known[name] = total(self.places[name])
        return max(*known.values(), *map(total, self._places_inside), 0)

    def _schema(
        self,
        schema: Any,
        base: str,
        target: _Target,
        place: _Place,
        *,
        in_place: bool,
        root: bool = False,
    ) -> None:
        target.size += 1
        target.schemas += 1
        place.schemas += 1
        if not isinstance(schema, dict):
            return
        target.size += _steps(schema)
        own = schema.get("$id" if self._draft > 4 else "id")
        if isinstance(own, str) and not root:
            base = urljoin(base, own)
        self._keywords(schema, root=root)
        for keyword in _REFERENCES:
            if isinstance(schema.get(keyword), str):
                self._reference(schema[keyword], base, target, place, in_place=in_place)
                if self._draft <= 7:
                    return  # what stands beside a reference does not count
        place.ways += _ways_inside(schema)
        for keyword, inner in _subschemas(schema):
            stays = keyword in _IN_PLACE or keyword == "dependencies"
            if keyword in {"anyOf", "oneOf"}:
                self.features.branches = True
                if _goes_deeper(inner):
                    # The reasons of every branch are gathered, one for each value inside.
                    self.features.bounded = False
            below = place
            if not stays:
                below = _Place()
                self._places_inside.append(below)
            self._schema(inner, base, target, below, in_place=in_place and stays)

    def _reference(
        self, reference: str, base: str, target: _Target, place: _Place, *, in_place: bool
    ) -> None:
        name = urljoin(base, reference).removesuffix("#")
        target.everywhere.append(name)
        place.references.append(name)
        if in_place:
            target.in_place.add(name)
        if name not in self.targets:
            self.targets[name] = _Target()
            self._waiting.append((name, *self._lookup(base, reference)))

    def _keywords(self, schema: dict[str, Any], *, root: bool) -> None:
        features = self.features
        features.names.update(_names(schema))
        for keyword, value in schema.items():
            if keyword == "format" and not self._formats:
                continue
            if keyword in {"$id", "id"} and root:
                continue
            if keyword == "$schema" and not root:
                features.slow.add("$schema inside a file")  # one of the two changes drafts there
            if keyword in _EVERY_KEYWORD and keyword not in self._fast:
                features.slow.add(keyword)
            if keyword == "type" and self._draft == 4 and "integer" in _listed(value):
                features.slow.add("type integer in draft 4")
            if keyword == "uniqueItems" and value is True:
                features.bounded = False
            features.slow.update(f"pattern {one}" for one in _patterns(keyword, value))
        for value in _values(schema):
            if isinstance(value, int) and abs(value) > _EXACT:
                features.slow.add("a number beyond 2^53")


def features_of(files: SchemaDocuments, lookup: Lookup, *, formats: bool) -> Features:
    """Walk a schema.

    Args:
        files: The schema.
        lookup: Finds what it refers to.
        formats: Whether `format` is judged.

    Raises:
        SchemaError: A reference leads back to itself without a step into the document, or more
            than `MAX_SCHEMAS` schemas judge one value.
    """
    walk = _Walk(files, lookup, formats=formats)
    walk.run()
    looping = _cycle({name: target.in_place for name, target in walk.targets.items()})
    if looping:
        raise SchemaError(
            f"$ref to {looping} leads back to itself without a step into the document"
        )
    features = walk.features
    features.in_place = walk.in_place()
    if features.in_place > MAX_SCHEMAS:
        raise SchemaError(
            f"the schema has more than {MAX_SCHEMAS} schemas, with each reference replaced by what "
            "it means"
        )
    recursive = _cycle({name: set(target.everywhere) for name, target in walk.targets.items()})
    if recursive:
        features.repeats = walk.repeats()
        if features.repeats > 1:
            features.slow.add("recursive by several ways")
    else:
        features.schemas = _applied(walk.targets, files.uri, _schemas, MAX_SCHEMAS)
        if features.branches and features.schemas > MAX_EXPLAINED:
            features.repeats = walk.repeats()
    if recursive or _applied(walk.targets, files.uri, _size, _MOST_STEPS) > _MOST_STEPS:
        features.bounded = False
    return features


def _inner_first(edges: dict[str, list[str]]) -> Iterator[str]:
    """Yield each name after those that edges lead to; none leads back to itself."""
    done: set[str] = set()
    for start in edges:
        waiting = [start]
        while waiting:
            missing = [one for one in edges[waiting[-1]] if one not in done]
            if missing:
                waiting += missing
                continue
            name = waiting.pop()
            if name not in done:
                done.add(name)
                yield name


def _ways_inside(schema: dict[str, Any]) -> int:
    """Return in how many ways a schema itself judges one value inside of another, at most."""
    patterns = schema.get("patternProperties")
    of_objects = len(patterns) if isinstance(patterns, dict) else 0
    of_objects += any(keyword in schema for keyword in ("properties", "additionalProperties"))
    of_objects += "unevaluatedProperties" in schema
    of_arrays = any(key in schema for key in ("items", "prefixItems", "additionalItems"))
    return max(of_objects, of_arrays + ("contains" in schema) + ("unevaluatedItems" in schema))


def _cycle(edges: dict[str, set[str]]) -> str:
    """Return a name from which edges lead back to it, or nothing."""
    before: dict[str, int] = dict.fromkeys(edges, 0)
    for names in edges.values():
        for name in names:
            before[name] += 1
    # Names to which nothing leads are taken away until there are none of them.
    free = [name for name, count in before.items() if not count]
    while free:
        for name in edges[free.pop()]:
            before[name] -= 1
            if not before[name]:
                free.append(name)
    return next((name for name, count in before.items() if count), "")


def _applied(
    targets: dict[str, _Target], root: str, own: Callable[[_Target], int], most: int
) -> int:
    """Return a sum over a schema with every reference replaced by what it means.

    Args:
        targets: What references lead to; none leads back to itself.
        root: The schema.
        own: What a target adds itself.
        most: A larger sum is given as one more than this.
    """
    known: dict[str, int] = {}
    waiting = [root]
    while waiting:
        name = waiting[-1]
        target = targets[name]
        missing = [one for one in target.everywhere if one not in known]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        known[name] = min(own(target) + sum(known[one] for one in target.everywhere), most + 1)
    return known[root]


def _size(target: _Target) -> int:
    return target.size


def _schemas(target: _Target) -> int:
    return target.schemas


def _steps(schema: dict[str, Any]) -> int:
    """Return about how many comparisons a value needs, besides its subschemas."""
    lists = (schema.get(keyword) for keyword in ("enum", "required"))
    steps = sum(len(one) for one in lists if isinstance(one, list))
    properties = schema.get("patternProperties")
    patterns = [schema.get("pattern"), *(properties if isinstance(properties, dict) else ())]
    for pattern in patterns:
        if isinstance(pattern, str):
            counts = (int(count) for found in _COUNTS.findall(pattern) for count in found if count)
            steps += _STEPS_OF_PATTERN * (len(pattern) + sum(counts))
    return steps


def _subschemas(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for keyword in (*_IN_PLACE, "dependencies", *_BELOW):
        value = schema.get(keyword)
        if isinstance(value, dict) and keyword in _MAPS:
            inner = [one for one in value.values() if not isinstance(one, list)]
        elif isinstance(value, list):
            inner = value
        else:
            inner = [] if value is None else [value]
        for one in inner:
            yield keyword, one


def _goes_deeper(schema: Any) -> bool:
    """Return whether a schema may have something to say about values inside."""
    if not isinstance(schema, dict):
        return False
    return any(keyword in schema for keyword in (*_BELOW, *_REFERENCES)) or any(
        _goes_deeper(inner) for _, inner in _subschemas(schema)
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _patterns(keyword: str, value: Any) -> Iterator[str]:
    """Yield the regular expressions of a keyword that may take long, or mean several things."""
    given: list[Any] = []
    if keyword == "pattern":
        given = [value]
    elif keyword == "patternProperties" and isinstance(value, dict):
        given = list(value)
    for one in given:
        if isinstance(one, str) and not is_linear(one):
            yield one


def _names(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the property names that a schema mentions."""
    for keyword in ("properties", "dependentSchemas", "dependentRequired", "dependencies"):
        value = schema.get(keyword)
        if isinstance(value, dict):
            yield from value
            for one in value.values():
                if isinstance(one, list):
                    yield from (name for name in one if isinstance(name, str))
    required = schema.get("required")
    if isinstance(required, list):
        yield from (name for name in required if isinstance(name, str))


def _values(schema: dict[str, Any]) -> Iterator[Any]:
    """Yield what a schema compares values with, whole and in its parts."""
    waiting = [
        value
        for keyword, value in schema.items()
        if keyword in _EVERY_KEYWORD and keyword not in {*_IN_PLACE, *_BELOW, *_MAPS, *_ANNOTATIONS}
    ]
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
