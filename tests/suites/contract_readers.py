"""The demands that two readers see in a data contract: Penstock, and the model of the standard's authors.

Source of the model: the package `open-data-contract-standard`. It reads YAML 1.1.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from open_data_contract_standard.model import (
    DataQuality,
    OpenDataContractStandard,
    SchemaObject,
    SchemaProperty,
)

from penstock.policies.data_contract.document import read_contract
from penstock.policies.data_contract.schemas import schema_of_object

IN_JSON: Final = {
    "string": "string", "number": "number", "integer": "integer", "boolean": "boolean",
    "object": "object", "array": "array", "map": "object", "vector": "array",
    "date": "string", "time": "string", "timestamp": "string",
}  # fmt: skip
"""What a logical type is in JSON."""
_OF_PRESENCE: Final = ("nullValues", "missingValues")


class Seen(NamedTuple):
    """The demands that a reader sees, by the places of properties, such as `orders.lines[*].count`.

    Attributes:
        types: Their types in JSON; empty where any is taken.
        required: Those that have to be there.
        values: Lists of values that are allowed, in JSON.
        rules: Names of the other demands: of all records together, or in words of other tools.
    """

    types: dict[str, str]
    required: set[str]
    values: set[tuple[str, str]]
    rules: set[tuple[str, str]]

    def __sub__(self, other: "Seen") -> list[str]:
        """Return what the other does not see."""
        return [
            *(f"{place} is {kind or 'of any type'}" for place, kind in self.types.items()
              if other.types.get(place) != kind),
            *(f"{place} is required" for place in sorted(self.required - other.required)),
            *(f"{place} is one of {them}" for place, them in sorted(self.values - other.values)),
            *(f"{place} has the rule {name}" for place, name in sorted(self.rules - other.rules)),
        ]  # fmt: skip


def seen_by_penstock(contract: Path) -> Seen:
    """Return what the schemas that records are judged by say, and what is left out of them."""
    found = Seen({}, set(), set(), set())
    for name, written in read_contract(contract.parent, contract.name).objects.items():
        made = schema_of_object(name, written)
        _see_schema(found, made.schema, name)
        found.rules.update((note.place, note.name) for note in made.not_judged)
    return found


def _see_schema(found: Seen, schema: Mapping[str, Any], place: str) -> None:
    parts = list(_parts(schema))
    kinds = {kind for part in parts for kind in _listed(part.get("type", []))}
    found.types[place] = "".join(kinds - {"null"})
    if place.endswith("]") and ({"type": "null"} in parts or (kinds and "null" not in kinds)):
        found.required.add(place)
    for part in parts:
        if "enum" in part:
            found.values.add((place, _in_order(part["enum"])))
        for name in part.get("required", ()):
            found.required.add(f"{place}.{name}")
        for name, inner in part.get("properties", {}).items():
            _see_schema(found, inner, f"{place}.{name}")
        for word in ("items", "additionalProperties"):
            if word in part:
                _see_schema(found, part[word], f"{place}[*]")


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all of its parts about the same value."""
    yield schema
    for part in schema.get("allOf", ()):
        yield from _parts(part)


def _listed(written: Any) -> list[Any]:
    return written if isinstance(written, list) else [written]


def _in_order(values: list[Any]) -> str:
    return ", ".join(sorted({json.dumps(value) for value in values if value is not None}))


def seen_by_model(text: str) -> Seen:
    """Return what the properties of the model say.

    Raises:
        ValueError: It takes no such contract.
    """
    try:
        contract = OpenDataContractStandard.from_string(text)
    except (yaml.YAMLError, TypeError) as error:
        raise ValueError(str(error)) from error
    found = Seen({}, set(), set(), set())
    for described in contract.schema_ or ():
        place = described.name or ""
        found.types[place] = "object"
        keys = [inner for inner, _ in _properties(described, "") if inner.primaryKey]
        if keys:
            names = ", ".join(str(inner.physicalName or inner.name) for inner in keys)
            found.rules.add((place, f"primaryKey {names}"))
        _see_words(found, described, place)
        for inner, inside in _properties(described, place):
            _see_property(found, inner, inside)
    return found


def _properties(
    of: SchemaObject | SchemaProperty, place: str
) -> Iterator[tuple[SchemaProperty, str]]:
    for inner in of.properties or ():
        yield inner, f"{place}.{inner.physicalName or inner.name}"


def _see_property(found: Seen, described: SchemaProperty, place: str) -> None:
    found.types[place] = IN_JSON.get(described.logicalType or "", "")
    if described.required or described.primaryKey:
        found.required.add(place)
    if described.enum is not None:
        found.values.add((place, _in_order([value.value for value in described.enum])))
    if described.unique:
        found.rules.add((place, "unique"))
    if described.physicalType and not described.logicalType:
        found.rules.add((place, f"physicalType {described.physicalType}"))
    _see_words(found, described, place)
    for inner, inside in _properties(described, place):
        _see_property(found, inner, inside)
    for element in (described.items, described.map and described.map.value):
        if element:
            _see_property(found, element, f"{place}[*]")


def _see_words(found: Seen, described: SchemaObject | SchemaProperty, place: str) -> None:
    """See what objects and properties have in common: relationships, and rules of quality."""
    if described.relationships:
        found.rules.add((place, "relationships"))
    for rule in described.quality or ():
        metric, arguments = rule.metric or rule.rule, rule.arguments or {}
        is_of_record = isinstance(described, SchemaProperty) and _allows_none(rule)
        if is_of_record and metric in _OF_PRESENCE:
            found.required.add(place)
        elif is_of_record and metric == "invalidValues" and "validValues" in arguments:
            found.values.add((place, _in_order(arguments["validValues"])))
        elif not (is_of_record and metric == "invalidValues" and "pattern" in arguments):
            found.rules.add((place, rule.name or rule.id or metric or rule.type or "text"))


def _allows_none(rule: DataQuality) -> bool:
    """Return whether a rule is broken by each record with a flaw."""
    limits = (rule.mustBe, rule.mustBeLessOrEqualTo)
    return rule.severity not in {"info", "warning"} and any(
        limit == 0 and limit is not False for limit in limits
    )
