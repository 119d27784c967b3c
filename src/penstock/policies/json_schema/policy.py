"""KIP-940: validates keys and values against the JSON Schemas that the topic names.

    record.validation.policy.class.name=penstock.policies.JsonSchema
    topics.orders.record.validation.policy=order.schema.json
    topics.events.record.validation.policy=key=id.schema.json,value=event.schema.json

As a named policy it has its own schema:

    policies=orderSchema
    policies.orderSchema.type=penstock.policies.JsonSchema
    policies.orderSchema.schema=order.schema.json
    topics.orders.penstock.policies=orderSchema

| key after `json.schema.` | default  |                                                            |
|--------------------------|----------|------------------------------------------------------------|
| `folder`                 | `.`      | the schemas' folder, relative to the configuration file    |
| `formats`                | `false`  | whether `format` is validated, or ignored                  |
| `null.values`            | `accept` | or `refuse`: records without a value, if it is validated   |
| `null.keys`              | `refuse` | or `accept`: records without a key, if it is validated     |

Needs the packages of `penstock-kafka[json-schema]`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.files import SchemaFiles
from penstock.policies.json_schema.settings import (
    CONFIG_KEYS,
    SCHEMA,
    JsonSchemaSettings,
    schema_names,
)
from penstock.policies.json_schema.unread_words import unread_words
from penstock.policies.requirements import Requirement
from penstock.policies.rule_objections import RuleObjection
from penstock.policy import ALL, InvalidRecordException, RecordIntrospectionHints
from penstock.policy import RecordValidationPolicy as Policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.policies.by_columns import NativeJudge
    from penstock.policies.json_schema.check import Check
    from penstock.policies.json_schema.column_schema import ColumnSchema
    from penstock.policy import RecordProxy, TopicMetadata

VALIDATION_POLICY: Final = "record.validation.policy"
_TEXTS_KEPT: Final = 1000
_SHOWN_MOST: Final = 20


class ValidatedColumns(Protocol):
    """The columns of a batch that are validated."""

    @property
    def keys(self) -> Sequence[bytes | None]: ...
    @property
    def values(self) -> Sequence[bytes | None]: ...


class TopicChecks(NamedTuple):
    """The checks of a text: how keys and how values are judged, or None."""

    key: Check | None
    value: Check | None


class JsonSchema(Policy):
    """Refuses records whose key or value is not JSON, or does not fit the topic's schema."""

    config_keys = CONFIG_KEYS
    reads_timestamps = False

    def __init__(self) -> None:
        self._base = Path()
        self._unread_words: dict[str, None] = {}

    @property
    def warnings(self) -> Sequence[str]:
        """Sentences about words of the schemas read so far that judge nothing."""
        return tuple(self._unread_words)

    def use_folder(self, folder: Path) -> None:
        """Set the folder of the configuration file. It is called before `configure`."""
        self._base = folder

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the settings.

        Args:
            configs: The configuration file; only keys that start with `json.schema.` are read.

        Raises:
            ValueError: A key is unknown or has a wrong value, the folder does not exist, or a
                package is missing.
        """
        self._settings = JsonSchemaSettings.read(configs)
        folder = self._base / self._settings.folder
        if not folder.is_dir():
            raise ValueError(f"json.schema.folder: {folder} is not a folder")
        try:
            import penstock.policies.json_schema.check  # noqa: F401, PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise ValueError(
                f"there is no module {error.name}: install penstock-kafka[json-schema]"
            ) from None
        compiler = _Compiler(folder, self._settings)
        self._unread_words = compiler.unread_words
        # It caches no method of this object, which would then only end with a collection of all.
        self._checks = lru_cache(_TEXTS_KEPT)(compiler.checks)
        if self._settings.schema:
            try:
                self._checks(self._settings.schema)
            except ValueError as error:
                raise ValueError(f"{SCHEMA}={self._settings.schema}: {error}") from None

    def get_hints(self) -> RecordIntrospectionHints:
        """Return that headers are not needed."""
        return RecordIntrospectionHints(False, ALL, ALL)

    def hints_for_text(self, text: str) -> RecordIntrospectionHints:
        """Return that keys, or values, are needed if a topic's text names a schema for them.

        Args:
            text: The topic's `record.validation.policy`.
        """
        try:
            key, value = self._of(text)
        except ValueError:
            return self.get_hints()
        return RecordIntrospectionHints(
            False, 0 if key is None else ALL, 0 if value is None else ALL
        )

    def prepare_validation_policy(self, text: str) -> None:
        """Read the schemas that a topic's `record.validation.policy` names.

        Raises:
            ValueError: A schema is missing or cannot be used; the text completes "<key>: ...".
        """
        self._of(text)

    def is_bounded(self, text: str) -> bool:
        """Return whether `all_fit` takes at most a few milliseconds for any batch.

        That is so without `format`, patterns with look-around, and a reference to a metaschema. It
        is False for a text that cannot be used.

        Args:
            text: The topic's `record.validation.policy`.
        """
        try:
            checks = self._of(text)
        except ValueError:
            return False
        return all(check is None or check.is_bounded for check in checks)

    def all_fit(self, text: str, batch: ValidatedColumns) -> bool:
        """Return whether every record is accepted; also False if the check would take long.

        Args:
            text: The topic's `record.validation.policy`.

        Raises:
            ValueError: A schema is missing or cannot be used.
        """
        return all(
            (null or None not in column) and check.all_fit(column)
            for check, column, _, null in self._columns(text, batch)
        )

    def column_schema(self, topic: str, text: str) -> ColumnSchema | str:
        """Return the schema of values, for judges of columns; or why not.

        Raises:
            ValueError: A schema is missing or cannot be used.
        """
        del topic
        key, value = self._of(text)
        if key is not None or value is None:
            return "it judges more than values"
        return value.column_schema or "its schema refers to a metaschema"

    def value_requirements(self, topic: str, text: str) -> Iterator[Requirement]:
        """Yield the fields that every value must have.

        Raises:
            ValueError: A schema is missing or cannot be used.
        """
        del topic
        check = self._of(text).value
        where = self._named(text)
        for field, types in () if check is None else check.required_fields:
            yield Requirement(where, field=field, types=types)

    def _named(self, text: str) -> str:
        """Return the key that names the schema, with its value."""
        own = self._settings.schema
        return f"{SCHEMA}={own}" if own else f"{VALIDATION_POLICY}={text}"

    def judge_natively(self, text: str, judge: NativeJudge) -> bool:
        """Configure native threads to judge as `all_fit` does; return whether that is possible.

        Args:
            text: The topic's `record.validation.policy`.
            judge: What they judge by.

        Raises:
            ValueError: A schema is missing or cannot be used.
        """
        key, value = self._of(text)
        nulls = self._settings.null_keys, self._settings.null_values
        return (key is None or key.judge_natively(judge, keys=True, accepts_null=nulls[0])) and (
            value is None or value.judge_natively(judge, keys=False, accepts_null=nulls[1])
        )

    def validate(self, topic: TopicMetadata, record: RecordProxy) -> None:
        """Return if key and value fit.

        Raises:
            InvalidRecordException: A key or value does not fit. The text has the place and the
                reason, in the words of the schema.
        """
        for _, text in self.validate_batch(topic, _Single(record)):
            raise InvalidRecordException(text)

    def validate_batch(
        self, topic: TopicMetadata, batch: ValidatedColumns
    ) -> Iterable[tuple[int, str]]:
        """Return the position and the text of each record that `validate` would refuse."""
        refused: dict[int, str] = {}
        for check, column, field, null in self._columns(topic.validation_policy, batch):
            for position, text in check.refused(column):
                refused.setdefault(position, f"the {field} {text}")
            if not null:
                for position, data in enumerate(column):
                    if data is None:
                        refused.setdefault(position, f"the {field} is null")
        return sorted(refused.items()) if refused else ()

    def objections_of_rules(
        self, topic: TopicMetadata, batch: ValidatedColumns
    ) -> Iterator[RuleObjection]:
        """Yield all objections to records that are refused."""
        for check, column, field, _ in self._columns(topic.validation_policy, batch):
            for position, text in enumerate(column):
                for reason in check.reasons(text) if text is not None else ():
                    fields = reason.fields if field == "value" else ()
                    message = f"the {field} {reason.text}"
                    yield RuleObjection(position, reason.rule, message, fields)

    def _columns(self, text: str, batch: ValidatedColumns) -> Iterator[_Column]:
        """Yield the judged columns: the key first, whose objection counts."""
        key, value = self._of(text)
        if key is not None:
            yield _Column(key, batch.keys, "key", self._settings.null_keys)
        if value is not None:
            yield _Column(value, batch.values, "value", self._settings.null_values)

    def _of(self, text: str) -> TopicChecks:
        return self._checks(self._settings.schema or text)


class _Compiler:
    """Compiles the schemas that texts name.

    Attributes:
        unread_words: Sentences about words of the compiled schemas that judge nothing.
    """

    def __init__(self, folder: Path, settings: JsonSchemaSettings) -> None:
        self.unread_words: dict[str, None] = {}
        self._folder = folder
        self._settings = settings

    def checks(self, text: str) -> TopicChecks:
        """Return the checks of a topic's `record.validation.policy`.

        Raises:
            ValueError: A schema is missing or cannot be used.
        """
        from penstock.policies.json_schema.check import compile_check  # noqa: PLC0415 - an extra

        checks: dict[str, Check] = {}
        for field, name in schema_names(text).items():
            try:
                files = SchemaFiles(self._folder, name)
                checks[field] = compile_check(files, formats=self._settings.formats)
                self._find_unread_words(files)
            except SchemaError as error:
                raise ValueError(str(error)) from None
        return TopicChecks(checks.get("key"), checks.get("value"))

    def _find_unread_words(self, files: SchemaFiles) -> None:
        key = SCHEMA if self._settings.schema else VALIDATION_POLICY
        for sentence in unread_words(files.documents):
            if len(self.unread_words) == _SHOWN_MOST:
                break
            self.unread_words[f"{key}: {files.names} has words that judge nothing: {sentence}"] = (
                None
            )


class _Column(NamedTuple):
    """Keys or values, and their judge.

    Attributes:
        column: The keys or values.
        field: Which of both, as messages call it.
        null: Whether it may be missing.
    """

    check: Check
    column: Sequence[bytes | None]
    field: str
    null: bool


class _Single:
    """A record as a batch."""

    __slots__ = ("keys", "values")

    def __init__(self, record: RecordProxy) -> None:
        self.keys = (record.key,)
        self.values = (record.value,)
