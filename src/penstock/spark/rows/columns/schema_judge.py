"""Columns judged by a JSON Schema, as if they were what Spark's `to_json` writes of them.

A verdict is known only where the evaluator of texts certainly comes to the same: for any keyword,
type or value of which that is not plain, it is not known. So it may be missing, and is never wrong.

The evaluator takes steps, of which each text has some; where it might run out of them, nothing is
known, either.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.rows.columns.kleene import (
    Verdict,
    all_of,
    any_of,
    certain,
    chosen,
    opposite,
)
from penstock.spark.rows.columns.numbers import LIMITS
from penstock.spark.rows.columns.parts import Items, Null, NumbersPart, Struct, part_of
from penstock.spark.rows.columns.sizes import longest_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.policies.json_schema.column_schema import ColumnSchema
    from penstock.spark.rows.columns.parts import Part

_MOST_STEPS: Final = 5000
"""Steps for a row: half of those that each text has, whatever its length."""
_MOST_STEPS_OF_ITEMS: Final = 16
"""Steps for one item of each list: the text of an item has two bytes at least, and so 32 steps."""
_MOST_LEVELS: Final = 100
_MOST_ALTERNATIVES: Final = 8
_NOTES: Final = frozenset(
    ("$schema", "$defs", "definitions", "$comment", "title", "description", "default", "examples",
     "deprecated", "readOnly", "writeOnly", "then", "else")
)  # fmt: skip
"""Keywords that judge nothing by themselves."""
_IDS: Final = frozenset(("$id", "id"))
_SINCE: Final = {"const": 6, "if": 7}
_RANGES: Final[Mapping[str, tuple[str, Callable[..., Any]]]] = {
    "minLength": ("string", pc.greater_equal), "maxLength": ("string", pc.less_equal),
    "minItems": ("array", pc.greater_equal), "maxItems": ("array", pc.less_equal),
}  # fmt: skip
_SAME_IN_BOTH: Final = re.compile(
    r"(?:"
    r"(?:[A-Za-z0-9 _@:/,=#%&;!~'\"<>^$|)-]|\((?:\?:)?|\\[.+*?|(){}^$\[\]/\\-]|\\[dw]"
    r"|\[\^?(?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9 _.@:/,=+%#]|\\[-.dw])+-?\])"
    r"(?:[*+?]|\{[0-9]{1,2}(?:,(?:[0-9]{1,2})?)?\})?"
    r")*"
)
"""Regular expressions that mean the same to RE2, which Arrow has, and to ECMA 262."""


class SchemaJudge:
    """Judges columns by a schema."""

    def __init__(self, schema: ColumnSchema, *, keeps_nulls: bool) -> None:
        """Take a schema.

        Args:
            schema: From a policy.
            keeps_nulls: Whether a null field is null in the text, and not left out.
        """
        self._root = schema.schema
        self._draft = schema.draft
        self._judges_formats = schema.formats
        self._longest = schema.longest
        self._keeps_nulls = keeps_nulls
        self._steps = self._steps_of_items = 0
        self._level = 0
        self._knows_all = True

    def fits(self, rows: pa.StructArray) -> pa.BooleanArray:
        """Return which rows certainly fit; without nulls.

        Args:
            rows: The columns; none of the rows is null.
        """
        return certain(self._verdict(rows), len(rows))

    def knows(self, rows: pa.StructArray) -> bool:
        """Return whether it has a verdict for each keyword on the columns of a row.

        Args:
            rows: One row.
        """
        self._knows_all = True
        verdict = self._verdict(rows)
        return verdict is not None and verdict is not False and self._knows_all

    def _verdict(self, rows: pa.StructArray) -> Verdict:
        if longest_text(rows) > self._longest:
            return None
        self._steps = self._steps_of_items = 0
        verdict = self._of(self._root, part_of(rows, self._draft))
        has_few = self._steps <= _MOST_STEPS and self._steps_of_items <= _MOST_STEPS_OF_ITEMS
        return verdict if has_few else None

    def _judged(self, schema: Any, array: pa.Array) -> Verdict:
        """Judge the values of a column, of which some may be null."""
        if not array.null_count:
            return self._of(schema, part_of(array, self._draft))
        of_null = self._of(schema, Null())
        if array.null_count == len(array):
            return of_null
        return chosen(array.is_null(), of_null, self._of(schema, part_of(array, self._draft)))

    def _field(self, schema: Any, array: pa.Array) -> Verdict:
        """Judge a field, which may be left out."""
        if self._keeps_nulls or not array.null_count:
            return self._judged(schema, array)
        if array.null_count == len(array):
            return True
        verdict = self._of(schema, part_of(array, self._draft))
        return chosen(array.is_null(), True, verdict)

    def _of(self, schema: Any, part: Part) -> Verdict:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            return None
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict) or self._level == _MOST_LEVELS:
            return None
        if "$ref" in schema and self._draft <= 7:  # keywords beside it do not count
            schema = {"$ref": schema["$ref"]}
        self._level += 1
        try:
            return all_of(self._by(schema, word, part) for word in schema)
        finally:
            self._level -= 1

    def _by(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        """Judge by a keyword."""
        if word in _NOTES or (word in _IDS and schema is self._root):
            return True
        rule = self._rules.get(word)
        verdict = None
        if rule is not None and self._draft >= _SINCE.get(word, 0):
            verdict = rule(self, schema, word, part)
        self._knows_all &= verdict is not None
        return verdict

    def _type(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        names = schema[word]
        names = [names] if isinstance(names, str) else names
        if part.kind in names:
            return part.is_of_kind
        if isinstance(part, NumbersPart) and "integer" in names:
            return None if part.numbers is None else part.numbers.are_whole()
        return opposite(part.is_of_kind)

    def _reference(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        """Judge by a schema of the same document."""
        name: str = schema[word]
        target = self._root
        if name == "#":
            return self._of(target, part)
        if not name.startswith("#/") or "%" in name or "~" in name:
            return None
        for step in name[2:].split("/"):
            if not isinstance(target, dict) or step not in target:
                return None
            target = target[step]
            if isinstance(target, dict) and not _IDS.isdisjoint(target):
                return None  # references in it may start there
        return self._of(target, part)

    def _all(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        return all_of(self._of(each, part) for each in schema[word])

    def _any(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        return any_of([self._of(each, part) for each in schema[word]])

    def _one(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        if len(schema[word]) > _MOST_ALTERNATIVES:
            return None
        verdicts = [self._of(each, part) for each in schema[word]]
        opposites = [opposite(verdict) for verdict in verdicts]
        alone = [
            all_of([verdict, *opposites[:index], *opposites[index + 1 :]])
            for index, verdict in enumerate(verdicts)
        ]
        return any_of(alone)

    def _not(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        return opposite(self._of(schema[word], part))

    def _if(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        condition = self._of(schema[word], part)
        if_true = self._of(schema.get("then", True), part)
        if_false = self._of(schema.get("else", True), part)
        return any_of([all_of([condition, if_true]), all_of([opposite(condition), if_false])])

    def _constants(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        constants = [schema[word]] if word == "const" else schema[word]
        self._steps += len(constants)
        return part.is_one_of(constants)

    def _limit(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        limit = schema[word]
        if not isinstance(part, NumbersPart):
            return part.is_of_kind
        if part.numbers is None or isinstance(limit, bool):
            return None
        return part.numbers.compared(word, limit)

    def _multiple(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        if not isinstance(part, NumbersPart):
            return part.is_of_kind
        return None if part.numbers is None else part.numbers.are_multiples(schema[word])

    def _range(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        kind, compare = _RANGES[word]
        if part.kind != kind:
            return part.is_of_kind
        limit, lengths = schema[word], part.lengths
        is_usable = isinstance(limit, int) and 0 <= limit < 2**31
        return compare(lengths, limit) if is_usable and lengths is not None else None

    def _pattern(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        if part.kind != "string":
            return part.is_of_kind
        self._steps += 1
        pattern = schema[word]
        return part.matches(pattern) if _SAME_IN_BOTH.fullmatch(pattern) else None

    def _format(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        del schema, word
        if not self._judges_formats:
            return True
        return None if part.kind == "string" else part.is_of_kind

    def _items(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        if part.kind != "array":
            return part.is_of_kind
        if isinstance(schema[word], list) or "prefixItems" in schema:
            return None
        return self._each(schema[word], part)

    def _each(self, schema: Any, part: Part) -> Verdict:
        """Judge the items of lists, or the values of maps."""
        assert isinstance(part, Items)
        steps = self._steps
        verdict = part.all(lambda items: self._judged(schema, items))
        self._steps_of_items += self._steps - steps
        return verdict

    def _required(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        if part.kind != "object":
            return part.is_of_kind
        if not isinstance(part, Struct):
            return None if schema[word] else True
        return all_of(self._has(part.field(name)) for name in schema[word])

    def _has(self, column: pa.Array | None) -> Verdict:
        if column is None or self._keeps_nulls or not column.null_count:
            return column is not None
        return column.is_valid()

    def _properties(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        if part.kind != "object":
            return part.is_of_kind
        if not isinstance(part, Struct):
            return None if schema[word] else True
        fields = ((inner, part.field(name)) for name, inner in schema[word].items())
        return all_of(self._field(inner, column) for inner, column in fields if column is not None)

    def _additional(self, schema: Mapping[str, Any], word: str, part: Part) -> Verdict:
        if part.kind != "object":
            return part.is_of_kind
        inner, properties = schema[word], schema.get("properties", {})
        if inner is True:
            return True
        if "patternProperties" in schema:
            return None
        if isinstance(part, Struct):
            others = [name for name in part.positions if name not in properties]
            columns = [part.field(name) for name in others]
            return all_of(self._field(inner, column) for column in columns if column is not None)
        # Of a name that is there twice only the later value counts: there, false is not certain.
        return None if properties else any_of([self._each(inner, part), None])

    _rules: ClassVar[Mapping[str, Callable[..., Verdict]]] = {
        "type": _type,
        "$ref": _reference,
        "allOf": _all,
        "anyOf": _any,
        "oneOf": _one,
        "not": _not,
        "if": _if,
        "const": _constants,
        "enum": _constants,
        **dict.fromkeys(LIMITS - {"const"}, _limit),
        "multipleOf": _multiple,
        **dict.fromkeys(_RANGES, _range),
        "pattern": _pattern,
        "format": _format,
        "items": _items,
        "required": _required,
        "properties": _properties,
        "additionalProperties": _additional,
    }
    """The keywords that are judged."""
