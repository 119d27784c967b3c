"""The JSON Schema for an object of a contract, and the rules that it leaves out."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.data_contract.document import listed
from penstock.policies.data_contract.errors import ContractError
from penstock.policies.data_contract.instants import pattern_of
from penstock.policies.data_contract.quality import (
    Concern,
    NotJudged,
    check_spelling,
    schema_of_rule,
)
from penstock.policies.json_schema.reasons import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    Schema = dict[str, Any]

_TYPES: Final = {
    "string": "string",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "object": "object",
    "array": "array",
    "map": "object",
    "date": "string",
    "time": "string",
    "timestamp": "string",
    "vector": "array",
}
_INSTANTS: Final = frozenset({"date", "time", "timestamp"})
_NUMBERS: Final = {
    "minimum": "minimum", "maximum": "maximum", "exclusiveMinimum": "exclusiveMinimum",
    "exclusiveMaximum": "exclusiveMaximum", "multipleOf": "multipleOf",
}  # fmt: skip
_JUDGED: Final = frozenset({
    "enum", "items", "logicalType", "logicalTypeOptions", "map", "name", "physicalName",
    "primaryKey", "properties", "quality", "required", "unique",
})  # fmt: skip
"""The names of an object or a property that say something about records."""
_OTHERS: Final = frozenset({
    "authoritativeDefinitions", "businessName", "classification", "context", "criticalDataElement",
    "customProperties", "dataGranularityDescription", "deprecated", "description", "encryptedName",
    "examples", "id", "partitionKeyPosition", "partitioned", "physicalType", "primaryKeyPosition",
    "relationships", "semanticType", "synonyms", "tags", "transformDescription", "transformLogic",
    "transformSourceObjects",
})  # fmt: skip
"""The other names of ODCS 3."""
_COUNTS: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
    "map": ("minProperties", "maxProperties"),
}
_OF_TYPES: Final = ("logicalTypeOptions", "properties", "items")
"""The names of a property that say something together with its `logicalType`."""
_BITS: Final = {
    f"{sign}{bits}": (
        (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if sign == "i" else (0, 2**bits - 1)
    )
    for sign in "iu"
    for bits in (8, 16, 32, 64)
}
_FORMATS: Final = frozenset({"email", "uri", "hostname", "ipv4", "ipv6"})
_UUID: Final = "^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
_WITHOUT_MEANING: Final = frozenset({"password", "byte", "binary", "f32", "f64", "i128", "u128"})
_LEVELS_MOST: Final = 60
_LIMITS: Final = (
    ("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)  # fmt: skip
_OF_VECTORS: Final = (
    "dimensions", "distanceMetric", "elementType", "embeddingModel", "embeddingModelVersion",
    "normalized",
)  # fmt: skip
_ELEMENTS: Final[Mapping[str, Schema]] = {
    "int8": {"type": "integer", "minimum": -128, "maximum": 127},
    "uint8": {"type": "integer", "minimum": 0, "maximum": 255},
    "binary": {},
}
"""The elements of vectors, by `elementType`; all others are numbers."""
_OPTIONS: Final = {
    kind: (
        "format",
        *_COUNTS.get(kind, ()),
        *(("pattern",) if kind == "string" else ()),
        *(_NUMBERS if kind in {"number", "integer", *_INSTANTS} else ()),
        *(("timezone", "defaultTimezone") if kind in _INSTANTS else ()),
        *(("required",) if kind in {"object", "map"} else ()),
        *(("uniqueItems",) if kind == "array" else ()),
        *(_OF_VECTORS if kind == "vector" else ()),
    )
    for kind in _TYPES
}
"""The names that `logicalTypeOptions` may have, by `logicalType`."""


@dataclass(slots=True)
class ObjectSchema:
    """What an object of a contract means for a value.

    Attributes:
        schema: The JSON Schema.
        not_judged: The other parts of the contract about it.
        words: The messages for values that do not match a pattern of Penstock, by the pattern.
        formats: Whether the schema has a `format`.
    """

    schema: Schema = field(default_factory=dict)
    not_judged: list[NotJudged] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)
    formats: bool = False

    @property
    def judges_nothing(self) -> bool:
        """Whether any JSON object fits the schema."""
        has_claims = any(self.schema.get("properties", {}).values())
        return not has_claims and self.schema.keys() <= {"type", "properties"}


def schema_of_object(name: str, definition: Mapping[str, Any]) -> ObjectSchema:
    """Return the schema of an object of a contract.

    Args:
        definition: As it is written.

    Raises:
        ContractError: A part of it is wrong; the text names it.
    """
    reader = _ObjectSchemaReader()
    reader.result.schema = reader.of_properties(definition, name, 0)
    reader.of_data_set(definition, name)
    return reader.result


class _ObjectSchemaReader:
    def __init__(self) -> None:
        self.result = ObjectSchema()

    def of_properties(self, definition: Mapping[str, Any], place: str, level: int) -> Schema:
        """Return the schema of an object with properties."""
        if level > _LEVELS_MOST:
            raise ContractError(f"{place}: more than {_LEVELS_MOST} levels of properties")
        if not level:
            _check_names(definition, place)
            if definition.get("logicalType", "object") != "object":
                raise ContractError(
                    f"{place}: logicalType of an object of schema must be object, "
                    f"not {definition['logicalType']}"
                )
        properties: Schema = {}
        required = []
        for entry in listed(definition, "properties", place):
            name = entry.get("physicalName") or entry.get("name")
            if not isinstance(name, str) or not name:
                raise ContractError(f"{place}: a property has no name")
            if name in properties:
                raise ContractError(f"{place}: there are two properties with the name {name}")
            properties[name], is_required = self._property(entry, f"{place}.{name}", level)
            if is_required:
                required.append(name)
        schema: Schema = {"type": "object"}
        if properties:
            schema["properties"] = properties
        if required:
            schema["required"] = required
        return schema

    def of_data_set(self, definition: Mapping[str, Any], place: str) -> None:
        """Read the rules of an object for all of its records together."""
        keys = [
            str(entry.get("physicalName") or entry.get("name"))
            for entry in listed(definition, "properties", place)
            if entry.get("primaryKey") is True
        ]
        if keys:
            self._note(
                place, f"primaryKey {', '.join(keys)}", Concern.DATA_SET,
                "that it is unique is about the data set",
            )  # fmt: skip
        self._note_relationships(definition, place)
        for rule in listed(definition, "quality", place):
            rule_schema = schema_of_rule(rule, place, of_property=False)
            if isinstance(rule_schema, NotJudged):
                self.result.not_judged.append(rule_schema)

    def _property(self, entry: Mapping[str, Any], place: str, level: int) -> tuple[Schema, bool]:
        """Return the schema of a property, and whether it has to be there."""
        _check_names(entry, place)
        required = _is_true(entry, "required", place) or _is_true(entry, "primaryKey", place)
        if entry.get("unique") is True:
            self._note(place, "unique", Concern.DATA_SET, "it is about the data set")
        self._note_relationships(entry, place)
        parts = [self._type(entry, place, level), *self._enumerations(entry, place)]
        for rule in listed(entry, "quality", place):
            rule_schema = schema_of_rule(rule, place, of_property=True)
            if isinstance(rule_schema, NotJudged):
                self.result.not_judged.append(rule_schema)
                continue
            required = rule_schema.pop("required", False) or required
            parts.append(rule_schema)
        parts = [part for part in parts if part]
        schema = parts[0] if len(parts) == 1 else {"allOf": parts} if parts else {}
        return _with_null(schema, null=not required), required

    def _type(self, entry: Mapping[str, Any], place: str, level: int) -> Schema:
        kind = entry.get("logicalType")
        if kind is None:
            self._note_without_type(entry, place)
            return {}
        if not isinstance(kind, str) or kind not in _TYPES:
            raise ContractError(
                f"{place}: logicalType must be one of {', '.join(_TYPES)}, not {kind}"
            )
        options = _mapping(entry, "logicalTypeOptions", place)
        self._check_options(kind, options, place)
        if isinstance(options.get("format"), (list, dict)):
            raise ContractError(f"{place}: format must be a text")
        schema: Schema = {"type": _TYPES[kind], **_counts(kind, options, place)}
        if kind in _INSTANTS:
            return schema | self._instant(kind, options, place)
        if kind in {"number", "integer"}:
            return schema | self._limits(options, place)
        if kind == "string":
            return schema | self._string(options, place)
        return schema | self._inside(kind, entry, options, place, level)

    def _note_without_type(self, entry: Mapping[str, Any], place: str) -> None:
        if entry.get("physicalType") is not None:
            why = "a type of another system is not judged; logicalType is"
            self._note(place, f"physicalType {entry['physicalType']}", Concern.OTHER_TOOL, why)
        _mapping(entry, "logicalTypeOptions", place)
        for word in _OF_TYPES:
            if entry.get(word):
                why = "without logicalType it says nothing"
                self._note(place, word, Concern.UNKNOWN, why)

    def _check_options(self, kind: str, options: Mapping[str, Any], place: str) -> None:
        """Refuse options that are misspelt or contradict each other; note those of other types.

        Raises:
            ContractError: One is wrong.
        """
        valid_options = _OPTIONS[kind]
        for name in options:
            if name in valid_options:
                continue
            check_spelling(str(name), valid_options, f"{place}: logicalTypeOptions")
            self._note(place, str(name), Concern.UNKNOWN, f"it is no option of a {kind}")
        for least, most in _LIMITS:
            low, high = options.get(least), options.get(most)
            if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low > high:
                raise ContractError(f"{place}: {least} is greater than {most}")

    def _inside(
        self,
        kind: str,
        entry: Mapping[str, Any],
        options: Mapping[str, Any],
        place: str,
        level: int,
    ) -> Schema:
        """Return the schema keywords about the contents of an object, an array or a map."""
        schema: Schema = {}
        if kind == "object":
            schema = self.of_properties(entry, place, level + 1)
            schema |= _required_names(options, schema, place)
        elif kind == "array":
            items = _mapping(entry, "items", place)
            if items:
                schema["items"] = self._property(items, f"{place}[*]", level + 1)[0]
            if _is_true(options, "uniqueItems", place):
                schema["uniqueItems"] = True
        elif kind == "map":
            schema = self._map(entry, place, level)
        elif kind == "vector":
            schema = self._vector(options, place)
        return schema

    def _vector(self, options: Mapping[str, Any], place: str) -> Schema:
        element = options.get("elementType", "float32")
        schema: Schema = {"items": _ELEMENTS.get(element, {"type": "number"})}
        if element == "binary":
            why = "how JSON has its elements is not defined"
            self._note(place, "elementType binary", Concern.UNKNOWN, why)
        if _is_true(options, "normalized", place):
            self._note(place, "normalized", Concern.UNKNOWN, "lengths of vectors are not judged")
        if options.get("dimensions") is not None:
            count = _number(options["dimensions"], f"{place}: dimensions", whole=True)
            schema |= {"minItems": count, "maxItems": count}
        return schema

    def _map(self, entry: Mapping[str, Any], place: str, level: int) -> Schema:
        map_definition = _mapping(entry, "map", place)
        schema: Schema = {}
        if isinstance(map_definition.get("value"), dict):
            inner = self._property(map_definition["value"], f"{place}[*]", level + 1)
            schema["additionalProperties"] = inner[0]
        key = _mapping(map_definition, "key", place)
        kind = key.get("logicalType")
        if kind == "string":
            schema["propertyNames"] = self._type(key, f"{place} (key)", level + 1)
        elif kind is not None:
            why = "only keys of type string are judged"
            self._note(place, f"map.key of type {kind}", Concern.UNKNOWN, why)
        return schema

    def _limits(self, options: Mapping[str, Any], place: str) -> Schema:
        options = _with_exclusive_numbers(options)
        schema: Schema = {
            keyword: _number(options[key], f"{place}: {key}")
            for key, keyword in _NUMBERS.items()
            if options.get(key) is not None
        }
        if schema.get("multipleOf", 1) <= 0:
            raise ContractError(f"{place}: multipleOf must be greater than 0")
        format_name = options.get("format")
        if format_name in _BITS:
            least, most = _BITS[format_name]
            schema = {"allOf": [schema, {"minimum": least, "maximum": most}]} if schema else {
                "minimum": least, "maximum": most,
            }  # fmt: skip
        elif format_name is not None and format_name not in _WITHOUT_MEANING:
            self._note(place, f"format {format_name}", Concern.UNKNOWN, "the format is not known")
        return schema

    def _string(self, options: Mapping[str, Any], place: str) -> Schema:
        schema: Schema = {}
        pattern, format_name = options.get("pattern"), options.get("format")
        if pattern is not None:
            schema["pattern"] = str(pattern)
        if format_name in _FORMATS:
            schema["format"] = format_name
            self.result.formats = True
        elif format_name == "uuid":
            schema = {"allOf": [schema, self._ours(_UUID, "must be a UUID")]}
        elif format_name is not None and format_name not in _WITHOUT_MEANING:
            self._note(place, f"format {format_name}", Concern.UNKNOWN, "the format is not known")
        return schema

    def _instant(self, kind: str, options: Mapping[str, Any], place: str) -> Schema:
        for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if options.get(key) is not None:
                self._note(place, key, Concern.UNKNOWN, f"limits of a {kind} are not judged")
        format_value = options.get("format")
        pattern_and_message = pattern_of(
            kind,
            None if format_value is None else str(format_value),
            has_zone=options.get("timezone") is not False,
        )
        if pattern_and_message is None:
            why = "not all of its letters are known"
            self._note(place, f"format {format_value}", Concern.UNKNOWN, why)
            return {}
        return self._ours(*pattern_and_message)

    def _ours(self, pattern: str, words: str) -> Schema:
        self.result.words[shown(pattern)] = words
        return {"pattern": pattern}

    def _enumerations(self, entry: Mapping[str, Any], place: str) -> list[Schema]:
        """Return the schema of the different lists of a property's values."""
        enumerations = []
        enum_list = entry.get("enum")
        if enum_list is not None:
            if not isinstance(enum_list, list):
                raise ContractError(f"{place}: enum must be a list")
            enumerations.append([v.get("value") if isinstance(v, dict) else v for v in enum_list])
        for custom in listed(entry, "customProperties", place):
            if custom.get("property") == "enum":
                values = _json_list(custom.get("value"))
                enumerations += [values] if values is not None else []
        for values in enumerations:
            if not all(isinstance(v, (str, int, float, bool)) or v is None for v in values):
                raise ContractError(f"{place}: enum must list texts, numbers, true, false or null")
        return [{"enum": [*values, None]} for values in enumerations]

    def _note_relationships(self, definition: Mapping[str, Any], place: str) -> None:
        if definition.get("relationships"):
            why = "references to other data are not judged"
            self._note(place, "relationships", Concern.OTHER_TOOL, why)

    def _note(self, place: str, name: str, concern: Concern, why: str) -> None:
        self.result.not_judged.append(NotJudged(place, name, concern, why))


def _with_exclusive_numbers(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options with `exclusiveMinimum` of ODCS 3.1, a number; in 3.0 it is true or false."""
    new_options = dict(options)
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(new_options.get(exclusive), bool):
            is_exclusive = new_options.pop(exclusive)
            if is_exclusive and limit in new_options:
                new_options[exclusive] = new_options.pop(limit)
    return new_options


def _counts(kind: str, options: Mapping[str, Any], place: str) -> Schema:
    return {
        key: _number(options[key], f"{place}: {key}", whole=True)
        for key in _COUNTS.get(kind, ())
        if options.get(key) is not None
    }


def _with_null(schema: Schema, *, null: bool) -> Schema:
    """Return a schema that lets null pass, or does not."""
    if null:
        return _or_null(schema)
    if "type" in schema:
        return schema
    return {"allOf": [schema, {"not": {"type": "null"}}]}


def _or_null(schema: Schema) -> Schema:
    """Return a schema that lets null pass: no keyword but `type` and `enum` is about null.

    The enumerations here have null among their values.
    """
    nullable_schema = dict(schema)
    if "type" in nullable_schema:
        nullable_schema["type"] = [nullable_schema["type"], "null"]
    if "allOf" in nullable_schema:
        nullable_schema["allOf"] = [_or_null(part) for part in nullable_schema["allOf"]]
    return nullable_schema


def _required_names(options: Mapping[str, Any], schema: Schema, place: str) -> Schema:
    names = options.get("required")
    if names is None:
        return {}
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ContractError(f"{place}: required must be a list of names")
    return {"required": list(dict.fromkeys([*schema.get("required", []), *names]))}


def _check_names(entry: Mapping[str, Any], place: str) -> None:
    """Refuse a name that is nearly one of those that are judged: it would say nothing.

    Raises:
        ContractError: It is misspelt.
    """
    for name in entry.keys() - _JUDGED - _OTHERS:
        check_spelling(str(name), _JUDGED, place)


def _is_true(parent: Mapping[str, Any], key: str, place: str) -> bool:
    """Return whether a key is true; a text that only looks so would demand nothing."""
    value = parent.get(key)
    if value is not None and not isinstance(value, bool):
        raise ContractError(f"{place}: {key} must be true or false, not {value!r}")
    return value is True


def _mapping(parent: Mapping[str, Any], key: str, place: str) -> Mapping[str, Any]:
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ContractError(f"{place}: {key} must be a mapping")
    return value


def _number(value: Any, where: str, *, whole: bool = False) -> Any:
    good = isinstance(value, int) if whole else isinstance(value, (int, float))
    if not good or isinstance(value, bool) or not math.isfinite(value) or (whole and value < 0):
        raise ContractError(f"{where} must be a {'whole ' if whole else ''}number, not {value!r}")
    return value


def _json_list(value: Any) -> list[Any] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, list) else None
