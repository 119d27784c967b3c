"""Random schemas, and JSON texts of which about three quarters fit: the corpus of the oracle tests.

Every keyword of every draft occurs, also those of other drafts, next to each other and
inside each other; so do references, also recursive references. The texts spell numbers and strings
in all ways that JSON has, name properties twice, nest deeply, and some are no JSON at all.
"""

from __future__ import annotations

import json
import random
from typing import Any, Final

DRAFTS: Final = {
    "4": "http://json-schema.org/draft-04/schema#",
    "6": "http://json-schema.org/draft-06/schema#",
    "7": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}
NAMES: Final = ("a", "b", "id", "item-1", "\u00e4", "", "A b", "x/y~z")
MANY: Final = tuple(f"name{n}" for n in range(30))
TYPES: Final = ("null", "boolean", "object", "array", "number", "string", "integer")
PATTERNS: Final = (
    "^a", "b$", "^[a-z]+$", "^ord-[0-9]{2}$", "^(a|bb|id)$", "^[^a]$", "^\\d{1,3}$", "a", "^.$",
    "^\\w+$", "\\s", "^[A-Za-z_][A-Za-z0-9_]{0,5}$", "^x*$", "^$", "^[0-9]{1,2}[.][0-9]{1,2}$",
    "^a?b", "\\bid\\b", "^\\S*$", "^(?:a|b)?c$", "[a-c]{2}", "\u00e4", "^\\u0061", "^\\p{L}+$",
    "^[\u00e4-\u00fc]$", "^(ab)+$", "^[\\d-]+$", "^[^\\s]$", "^\\/", "^a.b",
)  # fmt: skip
STRINGS: Final = (
    "", "a", "b", "bb", "id", "ord-12", "ord-123", "abc", "x", "1.5", "12", "\u0661", "\u00e4", "\U0001f600",
    "a\n", "\n", " ", "\u2028", "A", "ab c", "\u00e9", "e\u0301", "\u212a", "\u017f", "a\u0000b", "c", "/", "\ufeff",
    "2026-01-01", "abab", "a b", "a\rb", "\u0085",
)  # fmt: skip
NUMBERS: Final = (
    "0", "1", "-1", "2", "3", "10", "1.0", "-0", "-0.0", "0.1", "0.3", "1.5", "1e2", "1E-2", "100", "19.99",
    "0.01", "4.35", "9007199254740993", "9007199254740992", "9223372036854775807", "9223372036854775808",
    "18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809", "1e30",
    "1e308", "1e-308", "5e-324", "1e-400", "1e400", "-1e400", "123456789012345678901234567890", "2.5e0", "0e10",
)  # fmt: skip
BOUNDS: Final = (0, 1, 2, 3, -1, 10, 0.5, 1.0, 1.5, 100, 9007199254740992, 9007199254740993, 1e30)
DIVISORS: Final = (1, 2, 3, 0.01, 0.1, 0.5, 1.5, 10, 1e-8)
FORMATS: Final = ("date", "date-time", "email", "uri", "ipv4", "uuid", "regex", "int32")


class Pairs:
    """Makes schemas of a draft, and texts for them; the same for the same seed."""

    def __init__(self, draft: str, seed: int) -> None:
        self.draft = draft
        self.chance = random.Random(f"{draft} {seed}")
        self._year = {"4": 4, "6": 6, "7": 7, "2019-09": 2019, "2020-12": 2020}[draft]
        self._definitions = "definitions" if self._year <= 7 else "$defs"

    def schema(self) -> dict[str, Any]:
        """Return a schema."""
        made = self._object(self.chance.randint(1, 3))
        made["$schema"] = DRAFTS[self.draft]
        made[self._definitions] = {
            name: self._object(self.chance.randint(0, 2)) for name in ("one", "two")
        }
        return made

    def text(self, schema: Any) -> bytes:
        """Return a text that may fit a schema, and may not be JSON."""
        chance = self.chance
        text = self._spell(self._instance(schema, schema, 0), 0).encode("utf-8", "surrogatepass")
        if chance.random() < 0.04:
            place = chance.randint(0, len(text))
            odd = chance.choice(
                (b"", b"\xff", b" ", b"NaN", b",", b"]", b"}", b"\x00", b"\xef\xbb\xbf")
            )
            text = text[:place] + odd + text[place + chance.randint(0, 2) :]
        return text

    def _any(self, depth: int) -> Any:
        if self._year >= 6 and self.chance.random() < 0.12:
            return self.chance.random() < 0.6
        return self._object(depth)

    def _object(self, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if self.chance.random() < 0.12:
            name = self.chance.choice(("one", "two"))
            file = self.chance.choice(("", "", "other.json"))
            made["$ref"] = self.chance.choice(("#", f"{file}#/{self._definitions}/{name}"))
        for _ in range(self.chance.choice((0, 1, 1, 2, 2, 3, 4))):
            name = self.chance.choice(self._keywords(depth))
            made.update(self._keyword(name, depth - 1))
        return made

    def _keywords(self, depth: int) -> list[str]:
        simple = [
            "type", "type", "enum", "multipleOf", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum",
            "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxProperties",
            "minProperties", "required", "format", "annotation",
        ]  # fmt: skip
        nested = [
            "items", "items", "properties", "properties", "patternProperties", "additionalProperties", "allOf",
            "anyOf", "oneOf", "not",
        ]  # fmt: skip
        since = {
            6: ["const", "contains", "propertyNames"],
            7: ["if"],
            2019: ["dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "minContains"],
            2020: ["prefixItems"],
        }  # fmt: skip
        until = {7: ["dependencies"], 2019: ["additionalItems", "itemsArray"]}
        # A keyword of another draft has no meaning here, and must have none.
        other = self.chance.random() < 0.03
        for year, names in since.items():
            nested += names if other or self._year >= year else []
        for year, names in until.items():
            nested += names if other or self._year <= year else []
        return simple + nested if depth > 0 else simple

    def _keyword(self, name: str, depth: int) -> dict[str, Any]:
        chance = self.chance
        match name:
            case "type":
                if chance.random() < 0.3:
                    return {name: chance.sample(TYPES, chance.randint(1, 3))}
                return {name: chance.choice(TYPES)}
            case "enum":
                values = [self._value(2) for _ in range(chance.randint(1, 4))]
                values += list(MANY) if chance.random() < 0.1 else []
                return {name: [value for n, value in enumerate(values) if value not in values[:n]]}
            case "const":
                return {name: self._value(2)}
            case "multipleOf":
                return {name: chance.choice(DIVISORS)}
            case "maximum" | "minimum":
                made = {name: chance.choice(BOUNDS)}
                if self._year == 4 and chance.random() < 0.4:
                    made["exclusive" + name.capitalize()] = chance.random() < 0.7
                return made
            case "exclusiveMaximum" | "exclusiveMinimum":
                return {name: chance.choice(BOUNDS)} if self._year > 4 else {}
            case "maxLength" | "minLength" | "maxItems" | "minItems":
                return {name: chance.randint(0, 3)}
            case "maxProperties" | "minProperties":
                return {name: chance.randint(0, 3)}
            case "pattern":
                return {name: chance.choice(PATTERNS)}
            case "uniqueItems":
                return {name: chance.random() < 0.8}
            case "required":
                required = chance.sample(MANY, 20) if chance.random() < 0.05 else []
                return {name: required + chance.sample(NAMES, chance.randint(1, 2))}
            case "format":
                return {name: chance.choice(FORMATS)}
            case "annotation":
                return {chance.choice(("title", "default", "x-own", "$comment")): "text"}
            case "properties":
                names = chance.sample(NAMES, 2) + list(MANY if chance.random() < 0.05 else ())
                return {
                    name: {
                        name_inside: self._any(depth if name_inside in NAMES else 0)
                        for name_inside in names
                    }
                }
            case "patternProperties":
                return {name: {pattern: self._any(depth) for pattern in chance.sample(PATTERNS, 1)}}
            case "additionalProperties" | "additionalItems":
                return {name: chance.random() < 0.4 if chance.random() < 0.5 else self._any(depth)}
            case "allOf" | "anyOf" | "oneOf" | "prefixItems":
                return {name: [self._any(depth) for _ in range(chance.randint(1, 3))]}
            case "itemsArray":
                return {"items": [self._any(depth) for _ in range(chance.randint(1, 3))]}
            case "dependentRequired":
                return {name: {chance.choice(NAMES): chance.sample(NAMES, 1)}}
            case "dependentSchemas":
                return {name: {chance.choice(NAMES): self._any(depth)}}
            case "dependencies":
                either = chance.sample(NAMES, 1) if chance.random() < 0.5 else self._any(depth)
                return {name: {chance.choice(NAMES): either}}
            case "minContains":
                bounds = {chance.choice(("minContains", "maxContains")): chance.randint(0, 2)}
                return {"contains": self._any(depth), **bounds}
            case "if":
                return {
                    keyword: self._any(depth)
                    for keyword in ("if", *chance.sample(("then", "else"), 1))
                }
            case _:
                return {name: self._any(depth)}

    def _value(self, depth: int) -> Any:
        chance = self.chance
        kind = chance.randint(0, 6 if depth else 4)
        if kind == 0:
            return chance.choice((None, True, False))
        if kind <= 2:
            return chance.choice((0, 1, 1.0, -1, 2, 1.5, 100, 0.1, 9007199254740993, 1e30))
        if kind <= 4:
            return chance.choice(STRINGS)
        if kind == 5:
            return [self._value(depth - 1) for _ in range(chance.randint(0, 3))]
        return {name: self._value(depth - 1) for name in chance.sample(NAMES, chance.randint(0, 3))}

    def _instance(self, schema: Any, root: Any, depth: int) -> Any:
        """Return a value that is led by some of a schema's keywords."""
        chance = self.chance
        if not isinstance(schema, dict) or depth > 4 or chance.random() < 0.1:
            return self._value(3)
        if "$ref" in schema and chance.random() < 0.7:
            steps = schema["$ref"].partition("#")[2].split("/")[1:]
            target = root
            for step in steps:
                target = target[step]
            return self._instance(target, root, depth + 1)
        for name in ("enum", "const"):
            if name in schema and chance.random() < 0.7:
                return chance.choice(schema[name]) if name == "enum" else schema[name]
        for name in ("allOf", "anyOf", "oneOf"):
            if name in schema and chance.random() < 0.4:
                return self._instance(chance.choice(schema[name]), root, depth + 1)
        kinds = schema.get("type", TYPES)
        kinds = [kinds] if isinstance(kinds, str) else list(kinds)
        if "type" not in schema:
            if schema.keys() & {"properties", "required", "patternProperties", "additionalProperties", "dependencies", "dependentRequired", "dependentSchemas", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"}:  # fmt: skip
                kinds = ["object"] * 8 + kinds
            if schema.keys() & {"items", "prefixItems", "contains", "uniqueItems", "minItems", "maxItems", "unevaluatedItems"}:  # fmt: skip
                kinds = ["array"] * 8 + kinds
            if schema.keys() & {"pattern", "minLength", "maxLength"}:
                kinds = ["string"] * 8 + kinds
            if schema.keys() & {"minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"}:  # fmt: skip
                kinds = ["number"] * 8 + kinds
        match chance.choice(kinds):
            case "object":
                return self._object_for(schema, root, depth)
            case "array":
                return self._array_for(schema, root, depth)
            case "string":
                return chance.choice(STRINGS)
            case "number" | "integer":
                return _Number(chance.choice(NUMBERS))
            case "boolean":
                return chance.random() < 0.5
            case _:
                return None

    def _object_for(self, schema: dict[str, Any], root: Any, depth: int) -> dict[str, Any]:
        chance = self.chance
        properties = schema.get("properties", {})
        names = {*schema.get("required", ()), *properties, *chance.sample(NAMES, 1)}
        rest = schema.get("additionalProperties", schema.get("unevaluatedProperties", True))
        if "patternProperties" in schema:
            names |= set(chance.sample(STRINGS, 2))
            rest = next(iter(schema["patternProperties"].values()))
        return {
            name: self._instance(properties.get(name, rest), root, depth + 1)
            for name in sorted(names)
            if chance.random() < 0.7
        }

    def _array_for(self, schema: dict[str, Any], root: Any, depth: int) -> list[Any]:
        items = schema.get("items", schema.get("contains", True))
        first = schema.get("prefixItems", items if isinstance(items, list) else [])
        count = self.chance.randint(0, 4)
        return [
            self._instance(first[n] if n < len(first) else items, root, depth + 1)
            for n in range(count)
        ]

    def _spell(self, value: Any, depth: int) -> str:
        chance = self.chance
        space = chance.choice(("", "", "", " ", "\n\t"))
        if isinstance(value, dict):
            pairs = [(name, item) for name, item in value.items()]
            if pairs and chance.random() < 0.08:
                pairs.insert(
                    chance.randint(0, len(pairs)), (chance.choice(pairs)[0], self._value(1))
                )
            body = ",".join(
                f"{self._string(name)}{space}:{self._spell(pair, depth + 1)}"
                for name, pair in pairs
            )
            return f"{space}{{{body}}}"
        if isinstance(value, list):
            return f"[{','.join(self._spell(item, depth + 1) for item in value)}{space}]"
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, _Number):
            return value.text
        if depth and chance.random() < 0.002:
            levels = chance.randint(100, 140)
            return "[" * levels + "]" * levels
        return json.dumps(value) + space

    def _string(self, value: str) -> str:
        chance = self.chance
        if chance.random() < 0.01:
            return '"\\ud800"'
        return json.dumps(value, ensure_ascii=chance.random() < 0.5)


class _Number:
    """A number as it is spelt."""

    def __init__(self, text: str) -> None:
        self.text = text
