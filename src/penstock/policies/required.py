"""KIP-940: requires fields of JSON values.

    policies=whole
    policies.whole.type=penstock.policies.Required
    policies.whole.fields=id,customer.email,lines[*].sku
    topics.orders.penstock.policies=whole

| key           | default  |                                                             |
|---------------|----------|-------------------------------------------------------------|
| `fields`      |          | paths, separated by commas: names after dots or in `['']`,  |
|               |          | and `[*]` or `*` for each item of an array or property of   |
|               |          | an object                                                   |
| `null.fields` | `refuse` | or `accept`: fields with the value null                     |
| `null.values` | `accept` | or `refuse`: records without a value (tombstones)           |

Needs the packages of `penstock-kafka[json-schema]`.
"""

from __future__ import annotations

import json
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.by_columns import ByColumns
from penstock.policies.json_paths import EVERY, PathTree, parse, split
from penstock.policies.own_keys import accepts, names
from penstock.policies.requirements import Requirement
from penstock.policies.rule_objections import RuleObjection
from penstock.policy import ALL, ConfigKey, RecordIntrospectionHints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.policies.by_columns import NativeJudge, RecordColumns
    from penstock.policies.json_paths import Path
    from penstock.policies.json_schema.column_schema import ColumnSchema
    from penstock.policy import TopicMetadata

FIELDS: Final = "fields"
NULL_FIELDS: Final = "null.fields"
NULL_VALUES: Final = "null.values"
_WITH_ITEMS: Final = ("array", "object")
_FIELDS_MOST: Final = 1000
_STEPS_MOST: Final = 100
_UNREADABLE: Final = object()
_NOT_NULL: Final = {"type": ["string", "number", "boolean", "object", "array"]}


class Required(ByColumns):
    """Refuses records whose value is not JSON, or does not have all fields."""

    config_keys = (
        ConfigKey(
            FIELDS,
            "LIST",
            documentation="Paths like `id,customer.email,lines[*].sku`.",
            required=True,
        ),
        ConfigKey(
            NULL_FIELDS,
            default="refuse",
            documentation="`refuse` or `accept` fields with the value null.",
            valid_values=("refuse", "accept"),
        ),
        ConfigKey(
            NULL_VALUES,
            default="accept",
            documentation="`accept` or `refuse` records without a value (tombstones).",
            valid_values=("accept", "refuse"),
        ),
    )

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the settings.

        Raises:
            ValueError: A key has an invalid value, or a package is missing.
        """
        self._paths = _paths(names(configs, FIELDS, "id,customer.email", split))
        self._null_fields = accepts(configs, NULL_FIELDS, "refuse")
        self._null_values = accepts(configs, NULL_VALUES, "accept")
        try:
            from penstock.policies.json_schema.made import compile_made  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise ValueError(
                f"there is no module {error.name}: install penstock-kafka[json-schema]"
            ) from None
        self._check = compile_made(_schema(self._paths.values(), null=self._null_fields))

    def get_hints(self) -> RecordIntrospectionHints:
        """Return that only values are needed."""
        return RecordIntrospectionHints(False, 0, ALL)

    def refused(self, batch: RecordColumns) -> Iterator[tuple[int, str]]:
        """Yield the positions of records to refuse, with the reasons."""
        values = tuple(batch.values)
        reasons = {
            position: self._why(values[position], reason)
            for position, reason in self._check.refused(values)
        }
        if not self._null_values:
            reasons |= {
                position: "the value is null"
                for position, value in enumerate(values)
                if value is None
            }
        yield from sorted(reasons.items())

    def objections_of_rules(
        self, topic: TopicMetadata, batch: RecordColumns
    ) -> Iterator[RuleObjection]:
        """Yield an objection for each missing field of records that are refused."""
        del topic
        for position, value in enumerate(batch.values):
            document = _document(value)
            for name, path in self._paths.items() if document is not _UNREADABLE else ():
                flaw = _flaw(document, path, null=self._null_fields)
                if flaw:
                    fields = tuple(step for step in path[:1] if isinstance(step, str))
                    text = f"field {name} of the value {flaw}"
                    yield RuleObjection(position, name, text, fields)

    def is_bounded(self, text: str) -> bool:
        """Return whether values are judged natively."""
        del text
        return self._check.is_bounded

    def all_fit(self, text: str, batch: RecordColumns) -> bool:
        """Return whether every record has all fields; also False if the check would take long."""
        del text
        values = tuple(batch.values)
        return (self._null_values or None not in values) and self._check.all_fit(values)

    def column_schema(self, topic: str, text: str) -> ColumnSchema | str:
        """Return a schema that only accepted values fit, for judges of columns; or why not."""
        del topic, text
        return self._check.column_schema or "a library judges it"

    def value_requirements(self, topic: str, text: str) -> Iterator[Requirement]:
        """Yield the fields that every value must have: those before the first `[*]` of a path."""
        del topic, text
        for path in self._paths.values():
            names = tuple(takewhile(lambda step: isinstance(step, str), path))
            if names:
                yield Requirement(FIELDS, field=names, types=_WITH_ITEMS if names != path else ())

    def judge_natively(self, text: str, judge: NativeJudge) -> bool:
        """Configure native threads to judge as `all_fit` does; return whether that is possible."""
        del text
        return self._check.judge_natively(judge, keys=False, accepts_null=self._null_values)

    def _why(self, value: bytes | None, reason: str) -> str:
        """Return which field is missing; the schema's reason if there is another."""
        document = _document(value)
        if document is _UNREADABLE:
            return f"the value {reason}"
        for name, path in self._paths.items():
            flaw = _flaw(document, path, null=self._null_fields)
            if flaw:
                return f"field {name} of the value {flaw}"
        return f"the value {reason}"


def _document(value: bytes | None) -> Any:
    try:
        return json.loads(value or b"")
    except (ValueError, RecursionError):
        return _UNREADABLE


def _paths(field_names: Sequence[str]) -> dict[str, Path]:
    if len(field_names) > _FIELDS_MOST:
        raise ValueError(f"{FIELDS} lists {len(field_names)} paths; there may be {_FIELDS_MOST}")
    paths = {}
    for name in field_names:
        try:
            paths[name] = parse(name)
        except ValueError as error:
            raise ValueError(f"{FIELDS}: {error}") from None
        if len(paths[name]) > _STEPS_MOST:
            raise ValueError(f"{FIELDS}: a path has more than {_STEPS_MOST} steps")
    return paths


def _schema(paths: Iterable[Path], *, null: bool) -> dict[str, Any]:
    """Return a JSON Schema that requires the values at some paths."""
    defs: list[dict[str, Any]] = []
    schema = _required(PathTree(paths), defs, null=null)
    return {**schema, "$defs": {str(number): each for number, each in enumerate(defs)}}


def _required(tree: PathTree, defs: list[dict[str, Any]], *, null: bool) -> dict[str, Any]:
    """Return the schema of a value; add the schemas of items and properties to `defs`.

    They are named, because a value may be an array or an object, and each level would double them.
    """
    if not tree.names and tree.every is None:
        return {} if null else _NOT_NULL
    of_every = {}
    if tree.every is not None:
        defs.append(_required(tree.every, defs, null=null))
        of_every = {"$ref": f"#/$defs/{len(defs) - 1}"}
    if not tree.names:
        return {"type": ["array", "object"], "items": of_every, "additionalProperties": of_every}
    properties = {name: _required(below, defs, null=null) for name, below in tree.names.items()}
    schema = {"type": "object", "required": list(properties), "properties": properties}
    # By itself, it means the named properties, too.
    return {**schema, "allOf": [{"additionalProperties": of_every}]} if of_every else schema


def _flaw(document: Any, path: Path, *, null: bool) -> str | None:
    """Return the fault at a path, to follow the name of the field."""
    if not path:
        return "is null" if document is None and not null else None
    step, rest = path[0], path[1:]
    if step is EVERY:
        if not isinstance(document, (list, dict)):
            return "is missing"
        every = document.values() if isinstance(document, dict) else document
        flaws = (_flaw(item, rest, null=null) for item in every)
        return next((flaw for flaw in flaws if flaw), None)
    if not isinstance(document, dict) or step not in document:
        return "is missing"
    return _flaw(document[step], rest, null=null)
