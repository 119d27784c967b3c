"""How much work a schema is for `jsonschema-rs`, found by walking it and all that it refers to.

Does a reference lead back to itself without a step into the document? Such a schema has no meaning,
and the library may not end. How long may it take to gather the reasons of a refusal?
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

from penstock.policies.json_schema.documents import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.policies.json_schema.documents import SchemaDocuments

    Lookup = Callable[[str, str], tuple[Any, str]]
    """Resolves a base URI and a reference to the schema, and the base URI there."""

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
_SINCE: Final = {
    "contains": 6,
    "propertyNames": 6,
    "if": 7,
    "then": 7,
    "else": 7,
    "dependentSchemas": 2019,
    "unevaluatedProperties": 2019,
    "unevaluatedItems": 2019,
    "prefixItems": 2020,
}
"""The first draft that has a keyword, where that is not the first of all."""
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
MAX_SCHEMAS: Final = 100_000
"""Up to how many schemas are counted: references that double double the work, each of them."""
MAX_REPEATS: Final = 1000
MAX_EXPLAINED: Final = 3000
"""Of up to how many schemas for one value the reasons are gathered. Each anyOf or oneOf copies
those of the schemas inside it: with 15 behind each other, of two branches each, it is gigabytes."""
_MS_PER_BYTE: Final = 0.000_01
_MS_PER_COPY: Final = 0.000_1
_MS_PER_SCHEMA: Final = 0.001


@dataclass(slots=True)
class SchemaWork:
    """The facts about a schema.

    Attributes:
        names: The property names that it mentions; they may be shown.
        in_place: How many schemas judge one value, at most, with every reference replaced.
        branches: Whether there are alternatives: the reasons of all of them are gathered.
        repeats: How often a recursive or a very large schema may judge the content of a value for
            each time that it judges the value, or one more than `MAX_REPEATS`: with 2, a value ten
            levels down is judged a thousand times. 1 for any other schema.
    """

    names: set[str] = field(default_factory=set)
    in_place: int = 0
    branches: bool = False
    repeats: int = 1

    @property
    def is_linear(self) -> bool:
        """Whether a reason takes no longer than a verdict: the library stops at the first."""
        return not self.branches and self.repeats == 1

    def milliseconds(self, size: int, levels: int) -> float:
        """Return how long it takes at most to gather the reasons for a text.

        Args:
            levels: How many arrays and objects are inside each other.
        """
        if self.is_linear:
            return _MS_PER_BYTE * size
        if self.in_place > MAX_EXPLAINED or self.repeats**levels > MAX_REPEATS:
            return inf
        # The contents are copied into the reasons of each level around it.
        copied = _MS_PER_COPY * size * max(levels, 1)
        ways: int = self.repeats**levels
        return (copied + _MS_PER_SCHEMA * self.in_place) * ways


@dataclass(slots=True)
class _Place:
    """Schemas that judge one value: how many, how many ways lead inside, and where they refer."""

    schemas: int = 0
    ways: int = 0
    references: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Target:
    """What a reference leads to: how many schemas it is, and where it leads on."""

    schemas: int = 0
    in_place: set[str] = field(default_factory=set)
    everywhere: list[str] = field(default_factory=list)


class _SchemaWalk:
    """A walk over a schema."""

    def __init__(self, files: SchemaDocuments, lookup: Lookup) -> None:
        self.work = SchemaWork()
        self.targets: dict[str, _Target] = {}
        self.places: dict[str, _Place] = {}
        self._places_inside: list[_Place] = []
        self._files = files
        self._draft = files.draft
        self._lookup = lookup
        self._queue: list[tuple[str, Any, str]] = []

    def run(self) -> None:
        uri = self._files.uri
        self._queue.append((uri, self._files.schema, uri))
        self.targets[uri] = _Target()
        while self._queue:
            name, schema, base = self._queue.pop()
            place = self.places[name] = _Place()
            # The base that a look-up returns already includes the schema's $id.
            self._schema(schema, base, self.targets[name], place, in_place=True, is_joined=True)

    def repeats(self) -> int:
        """Return how many ways lead inside from the schemas of one value, at most."""
        return max(1, self._most(lambda place: place.ways, MAX_REPEATS))

    def in_place(self) -> int:
        """Return how many schemas judge one value, at most."""
        return self._most(lambda place: place.schemas, MAX_SCHEMAS)

    def _most(self, own: Callable[[_Place], int], most: int) -> int:
        """Return the largest sum over a place with every reference replaced by its target.

        Args:
            own: What a place adds itself.
            most: A larger sum is given as one more than this.
        """
        sums: dict[str, int] = {}

        def total(place: _Place) -> int:
            return min(own(place) + sum(sums[name] for name in place.references), most + 1)

        for name in _inner_first({name: place.references for name, place in self.places.items()}):
            sums[name] = total(self.places[name])
        return max(*sums.values(), *map(total, self._places_inside), 0)

    def _schema(
        self,
        schema: Any,
        base: str,
        target: _Target,
        place: _Place,
        *,
        in_place: bool,
        is_joined: bool = False,
    ) -> None:
        target.schemas += 1
        place.schemas += 1
        if not isinstance(schema, dict):
            return
        own = schema.get("$id" if self._draft > 4 else "id")
        if isinstance(own, str) and not is_joined:
            base = urljoin(base, own)
        self.work.names.update(_names(schema))
        for keyword in _REFERENCES:
            if isinstance(schema.get(keyword), str):
                self._reference(schema[keyword], base, target, place, in_place=in_place)
                if self._draft <= 7:
                    return  # keywords beside a reference do not count
        place.ways += _ways_inside(schema)
        for keyword, inner in _subschemas(schema, self._draft):
            stays = keyword in _IN_PLACE or keyword == "dependencies"
            self.work.branches |= keyword in {"anyOf", "oneOf"}
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
            self._queue.append((name, *self._lookup(base, reference)))


def work_of(files: SchemaDocuments, lookup: Lookup) -> SchemaWork:
    """Walk a schema.

    Args:
        lookup: Resolves its references.

    Raises:
        SchemaError: A reference leads back to itself without a step into the document, or more
            than `MAX_SCHEMAS` schemas judge one value.
    """
    walk = _SchemaWalk(files, lookup)
    walk.run()
    looping = _cycle({name: target.in_place for name, target in walk.targets.items()})
    if looping:
        raise SchemaError(
            f"{files.name} cannot be used: a $ref leads back to itself without a step into the "
            f"document: {looping}"
        )
    work = walk.work
    work.in_place = walk.in_place()
    if work.in_place > MAX_SCHEMAS:
        raise SchemaError(
            f"{files.name} has more than {MAX_SCHEMAS} schemas, with each reference replaced by "
            "its target"
        )
    recursive = _cycle({name: set(target.everywhere) for name, target in walk.targets.items()})
    if recursive or (
        work.branches and _applied(walk.targets, files.uri, MAX_SCHEMAS) > MAX_EXPLAINED
    ):
        work.repeats = walk.repeats()
    return work


def _inner_first(edges: dict[str, list[str]]) -> Iterator[str]:
    """Yield each name after those that edges lead to; none leads back to itself."""
    visited_names: set[str] = set()
    for start in edges:
        stack = [start]
        while stack:
            pending_names = [name for name in edges[stack[-1]] if name not in visited_names]
            if pending_names:
                stack += pending_names
                continue
            name = stack.pop()
            if name not in visited_names:
                visited_names.add(name)
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
    in_degrees: dict[str, int] = dict.fromkeys(edges, 0)
    for names in edges.values():
        for name in names:
            in_degrees[name] += 1
    # Names without references to them are removed until there are none of them.
    free = [name for name, count in in_degrees.items() if not count]
    while free:
        for name in edges[free.pop()]:
            in_degrees[name] -= 1
            if not in_degrees[name]:
                free.append(name)
    return next((name for name, count in in_degrees.items() if count), "")


def _applied(targets: dict[str, _Target], root: str, most: int) -> int:
    """Return how many schemas there are, with every reference replaced by its target.

    Args:
        targets: The targets of references; none leads back to itself.
        most: A larger number is given as one more than this.
    """
    edges = {name: target.everywhere for name, target in targets.items()}
    counts: dict[str, int] = {}
    for name in _inner_first(edges):
        counts[name] = min(
            targets[name].schemas + sum(map(counts.__getitem__, edges[name])), most + 1
        )
    return counts[root]


def _subschemas(schema: dict[str, Any], draft: int) -> Iterator[tuple[str, Any]]:
    for keyword in (*_IN_PLACE, "dependencies", *_BELOW):
        if draft < _SINCE.get(keyword, 0):
            continue
        value = schema.get(keyword)
        if isinstance(value, dict) and keyword in _MAPS:
            inner = [subschema for subschema in value.values() if not isinstance(subschema, list)]
        elif isinstance(value, list):
            inner = value
        else:
            inner = [] if value is None else [value]
        for subschema in inner:
            yield keyword, subschema


def _names(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the property names that a schema mentions."""
    for keyword in ("properties", "dependentSchemas", "dependentRequired", "dependencies"):
        value = schema.get(keyword)
        if isinstance(value, dict):
            yield from value
            for names in value.values():
                if isinstance(names, list):
                    yield from (name for name in names if isinstance(name, str))
    required = schema.get("required")
    if isinstance(required, list):
        yield from (name for name in required if isinstance(name, str))
