"""KIP-940: judges records by conditions in CEL, without code and without a schema.

    policies=amounts
    policies.amounts.type=penstock.policies.Rules
    policies.amounts.rules.positive=value.amount > 0
    policies.amounts.rules.positive.message=the amount must be above zero
    policies.amounts.rules.currency=value.currency in ["EUR", "USD"]
    policies.amounts.rules.whole=count <= 500
    policies.amounts.rules.whole.scope=batch
    topics.orders.penstock.policies=amounts

| key                    | default  |                                                             |
|------------------------|----------|-------------------------------------------------------------|
| `rules.<name>`         |          | a condition in CEL that must be true                        |
| `rules.<name>.message` |          | the message for records that do not fulfil it               |
| `rules.<name>.scope`   | `record` | or `batch`                                                  |
| `format`               | `json`   | of values; or `avro`, `protobuf`, `string`, `bytes`         |
| `key.format`           | `string` | of keys; any of these                                       |
| `null.values`          | `accept` | or `refuse`: records without a value, if a rule reads values |
| `schema.file`          |          | of `avro` and `protobuf`: as for `SchemaPolicy`             |
| `schema.registry.*`    |          | of `avro` without a file: as for `SchemaPolicy`             |

`penstock.policies.rules.variables` has the variables of conditions. Needs the packages of
`penstock-kafka[rules]`, and of `penstock-kafka[schemas]` for Avro and Protobuf.
"""

from __future__ import annotations

from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.policies.requirements import Requirement
from penstock.policies.rule_objections import RuleObjection
from penstock.policies.rules.settings import (
    CONFIG_KEYS,
    FORMAT,
    KEY_FORMAT,
    SCHEMA_FILE,
    WITHOUT_FIELDS,
    Format,
    RuleScope,
    RulesSettings,
)
from penstock.policy import ALL, ClientContext, RecordIntrospectionHints
from penstock.policy import RecordValidationPolicyWithContext as Policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.policies.by_columns import NativeJudge, RecordColumns
    from penstock.policies.decoded.readers import ValueReader
    from penstock.policies.json_schema.column_schema import ColumnSchema
    from penstock.policies.rules.condition import Condition
    from penstock.policies.rules.formats import Reader
    from penstock.policies.rules.one_record import OneRecord
    from penstock.policies.rules.paths import Fields
    from penstock.policy import BatchProxy, TopicMetadata

_TIMESTAMPS: Final = frozenset({"timestamp", "first_timestamp", "last_timestamp"})
_WHOLE_KEYS: Final = frozenset({"distinct_keys", "total_bytes"})
_NULL: Final = "the value is null"


class _ColumnReader(NamedTuple):
    """How keys or values are read, and which fields of them."""

    reader: Reader
    fields: Fields | None


class Rules(Policy):
    """Refuses records for which a condition is not true, or has no result.

    Attributes:
        warnings: The conditions whose division may drop a fraction.
    """

    config_keys = CONFIG_KEYS

    def __init__(self) -> None:
        self._folder = Path()
        self.warnings: Sequence[str] = ()

    @property
    def judges_whole_batches(self) -> bool:
        """Whether the verdict on a record depends on the other records of its batch."""
        return bool(self._of_batches)

    @property
    def conditions(self) -> Sequence[Condition]:
        """The rules about single records."""
        return self._of_records

    @property
    def reads_timestamps(self) -> bool:
        """Whether a condition looks at timestamps."""
        return bool(self._reads & _TIMESTAMPS)

    def use_folder(self, folder: Path) -> None:
        """Set the folder of the configuration file. It is called before `configure`."""
        self._folder = folder

    def configure(self, configs: Mapping[str, str]) -> None:
        """Compile the rules.

        Raises:
            ValueError: A rule or another key is wrong, or a package is missing.
        """
        from penstock.policies.schema_policy.packages import (  # noqa: PLC0415
            OF_RULES,
            check_packages,
        )

        self._settings = settings = RulesSettings.read(configs)
        self._schema_files = configs.get(SCHEMA_FILE)
        check_packages((*OF_RULES, "orjson", "jsonschema_rs"), "rules,json-schema")
        self._compile(settings, configs)

    def get_hints(self) -> RecordIntrospectionHints:
        """Return the parts that the rules read."""
        reads = self._reads
        key = ALL if "key" in reads or reads & _WHOLE_KEYS else int("null_keys" in reads)
        value = ALL if "value" in reads or "total_bytes" in reads else int("null_values" in reads)
        headers = "headers" in reads or any(name in reads for name in self._by_registry)
        return RecordIntrospectionHints(headers, key, value)

    def describe_topic(self, topic: str, configs: Mapping[str, str]) -> Iterator[str]:
        """Yield a line for each rule, and how it is judged."""
        del topic, configs
        native = self._by_schema.conditions if self._by_schema is not None else ()
        for rule in self._settings.rules:
            if rule.scope is RuleScope.BATCH:
                yield f"rule {rule.name}, of the batch: {rule.expression}"
        of_records = (rule for rule in self._settings.rules if rule.scope is RuleScope.RECORD)
        for position, rule in enumerate(of_records):
            how = "natively" if position in native else "by CEL"
            yield f"rule {rule.name}, {how}: {rule.expression}"

    def validate_batch(
        self, topic: TopicMetadata, batch: BatchProxy, context: ClientContext
    ) -> Iterable[tuple[int, str]]:
        """Return the position and the text of each record that a rule refuses.

        A rule over the batch refuses all of its records. Only the gateway judges by it, where the
        client's address is always known, because stored records are in other batches.
        """
        shared = self._shared(topic, context)
        if self._of_batches and context.address is not None:
            text = self._objection_to_batch(batch, shared)
            if text is not None:
                return [(position, text) for position in range(len(batch))]
        if not self._of_records:
            return ()
        return list(self._refused(batch, shared))

    @property
    def judges_by_rules(self) -> bool:
        """Whether it refuses those records that `objections_of_rules` objects to, and no others.

        That is not so with rules over batches, or in a subclass that judges in its own way.
        """
        return not self._of_batches and type(self).validate_batch is Rules.validate_batch

    def objections_of_rules(
        self, topic: TopicMetadata, batch: BatchProxy
    ) -> Iterator[RuleObjection]:
        """Yield the objections of each rule to records, first those that `validate_batch` has."""
        shared = self._shared(topic, ClientContext())
        for position, record, conditions in self._open(batch, shared):
            if record is None:
                yield RuleObjection(position, None, _NULL)
                continue
            for condition, text in record.objections(conditions):
                yield RuleObjection(position, condition.name, text, condition.fields)

    def value_reader(self, topic: str, configs: Mapping[str, str]) -> ValueReader | None:
        """Return the reader of whole values by their schemas; None for formats without a schema.

        Raises:
            ValueError: The schema cannot be read.
        """
        del topic, configs
        kind = self._settings.value_format
        if kind not in {Format.AVRO, Format.PROTOBUF}:
            return None
        of_registry: Any = self._by_registry.get("value")
        if of_registry is not None:
            reader: ValueReader = of_registry.value_reader()
            return reader
        from penstock.policies.decoded.readers import file_reader  # noqa: PLC0415 - an extra
        from penstock.policies.schema_policy.settings import file_names  # noqa: PLC0415

        return file_reader(self._folder, file_names(self._schema_files)[False])

    def close(self) -> None:
        """Close the connections to a registry."""
        for reader in getattr(self, "_by_registry", {}).values():
            reader.close()

    def _prepare_batch(
        self, topic: TopicMetadata, batch: BatchProxy, context: ClientContext
    ) -> None:
        """Look up the schemas of a batch.

        Raises:
            RetriableException: The registry does not answer now.
        """
        del context
        for name, reader in self._by_registry.items():
            if name in self._reads:
                column = batch.keys if name == "key" else batch.values
                reader.prepare(topic.topic_id_partition.topic, column, batch.headers)

    def is_bounded(self, text: str) -> bool:
        """Return whether every rule is judged natively, as a JSON Schema."""
        del text
        fast = self._by_schema
        return (
            fast is not None
            and not self._of_batches
            and len(fast.conditions) == len(self._of_records)
            and fast.check.is_bounded
        )

    def all_fit(self, text: str, batch: RecordColumns) -> bool:
        """Return whether every record is accepted; also False if the check would take long."""
        del text
        values = tuple(batch.values)
        return (
            self._by_schema is not None
            and (self._settings.null_values or None not in values)
            and self._by_schema.all_fit(values)
        )

    def column_schema(self, topic: str, text: str) -> ColumnSchema | str:
        """Return a schema that only accepted values fit, for judges of columns; or why not."""
        del topic, text
        native = self._by_schema.conditions if self._by_schema is not None else ()
        others = [
            condition.name
            for position, condition in enumerate(self._of_records)
            if position not in native
        ]
        if self._by_schema is None or others:
            return f"CEL judges {', '.join(others) or 'it'}"
        schema = self._by_schema.check.column_schema
        if schema is None:
            return "a library judges it"
        fields = self._sides["value"].fields
        return schema._replace(
            fields=None if fields is None else frozenset(fields), longest=self._by_schema.longest
        )

    def value_requirements(self, topic: str, text: str) -> Iterator[Requirement]:
        """Yield the conditions about single records, if values are JSON."""
        del topic, text
        if self._settings.value_format is Format.JSON:
            for condition in self._of_records:
                yield Requirement(condition.key, condition.tree)

    def judge_natively(self, text: str, judge: NativeJudge) -> bool:
        """Configure native threads to judge as `all_fit` does; return whether that is possible."""
        del text
        fast = self._by_schema
        return fast is not None and fast.check.judge_natively(
            judge,
            keys=False,
            accepts_null=self._settings.null_values,
            longest=None if isinf(fast.longest) else int(fast.longest),
        )

    def _compile(self, settings: RulesSettings, configs: Mapping[str, str]) -> None:
        from penstock.policies.rules.by_schema import by_schema  # noqa: PLC0415 - an extra
        from penstock.policies.rules.condition import KnownFalse, compile_conditions  # noqa: PLC0415
        from penstock.policies.rules.formats import reader_of  # noqa: PLC0415
        from penstock.policies.rules.paths import divides_fields, fields_read  # noqa: PLC0415
        from penstock.policies.rules.variables import OF_BATCHES, OF_RECORDS  # noqa: PLC0415

        formats = {"key": settings.key_format, "value": settings.value_format}
        readers = {
            name: reader_of(kind, configs, self._folder, is_key=name == "key")
            for name, kind in formats.items()
        }
        messages = {
            name: reader.message for name, reader in readers.items() if reader.message is not None
        }
        if len(messages) > 1:
            raise ValueError("format and key.format: only one of them can be protobuf")
        scopes = {
            scope: [rule for rule in settings.rules if rule.scope is scope] for scope in RuleScope
        }
        self._of_batches = compile_conditions(scopes[RuleScope.BATCH], OF_BATCHES)
        self._of_records = compile_conditions(scopes[RuleScope.RECORD], OF_RECORDS, messages)
        for condition in self._of_records:
            for name, kind in formats.items():
                if kind in WITHOUT_FIELDS and fields_read([condition.tree], name):
                    key = FORMAT if name == "value" else KEY_FORMAT
                    raise ValueError(
                        f"{condition.key}: its condition reads a field of {name}, which has none "
                        f"with {key}={kind.value}"
                    )
        trees = [condition.tree for condition in self._of_records]
        self._sides = {
            name: _ColumnReader(reader, fields_read(trees, name))
            for name, reader in readers.items()
        }
        self._headers = fields_read(trees, "headers")
        self._by_registry = {
            name: reader for name, reader in readers.items() if hasattr(reader, "prepare")
        }
        if self._by_registry:  # any other policy has nothing to prepare
            self.prepare_batch = self._prepare_batch  # type: ignore[method-assign]
        self.warnings = [
            f"{condition.key}: / of two whole numbers drops the fraction, as in CEL: 7 / 2 is 3; "
            "double(value.a) / value.b keeps it"
            for condition in (*self._of_batches, *self._of_records)
            if divides_fields(condition.tree)
        ]
        self._reads = frozenset(
            name for condition in (*self._of_batches, *self._of_records) for name in condition.reads
        )
        is_json = settings.value_format is Format.JSON
        self._by_schema = by_schema(self._of_records) if is_json else None
        self._known_false = [KnownFalse(condition) for condition in self._of_records]

    def _shared(self, topic: TopicMetadata, client: ClientContext) -> dict[str, Any]:
        """Return the variables that are the same for all records of a batch."""
        from penstock.policies.rules.variables import known_of  # noqa: PLC0415 - an extra

        place = topic.topic_id_partition
        variables = {"topic": place.topic, "partition": place.partition, "client": known_of(client)}
        return {name: value for name, value in variables.items() if name in self._reads}

    def _objection_to_batch(self, batch: BatchProxy, shared: Mapping[str, Any]) -> str | None:
        from penstock.policies.rules.variables import of_batch  # noqa: PLC0415 - an extra
        from penstock.policies.schema_policy.rules.values import EvaluationError  # noqa: PLC0415
        from penstock.policies.schema_policy.rules.variables import Variables  # noqa: PLC0415

        for condition in self._of_batches:
            try:
                batch_variables = of_batch(batch, condition.reads)
            except EvaluationError as error:
                return condition.without_result(error)
            text = condition.objection(Variables({**shared, **batch_variables}))
            if text is not None:
                return text
        return None

    def _refused(self, batch: BatchProxy, shared: Mapping[str, Any]) -> Iterable[tuple[int, str]]:
        for position, record, conditions in self._open(batch, shared):
            text = _NULL if record is None else record.objection(conditions)
            if text is not None:
                yield position, text

    def _open(
        self, batch: BatchProxy, shared: Mapping[str, Any]
    ) -> Iterator[tuple[int, OneRecord | None, Sequence[Condition]]]:
        """Yield the records that conditions have to be evaluated for; None where it is refused.

        A record without a value is refused at once, if the policy does not accept such records.
        """
        from penstock.policies.rules.one_record import OneRecord  # noqa: PLC0415 - an extra

        nulls = self._nulls(batch.values) if "value" in self._reads else set()
        not_true = {} if self._by_schema is None else self._by_schema.not_true(batch.values)
        others = self._conditions({})
        positions = range(len(batch)) if others else sorted(not_true.keys() | nulls)
        for position in positions:
            if position in nulls:
                yield position, None, ()
                continue
            some = not_true.get(position)
            conditions = others if some is None else self._conditions(some)
            yield (
                position,
                OneRecord(self._sides, self._headers, batch, position, shared),
                conditions,
            )

    def _conditions(self, some: Mapping[int, bool]) -> Sequence[Condition]:
        """Return the conditions without a schema, and some of those with one.

        Args:
            some: Whether each is known to be false.
        """
        fast = self._by_schema
        if fast is None:
            return self._of_records
        return [
            self._known_false[position] if some.get(position) else condition
            for position, condition in enumerate(self._of_records)
            if position not in fast.conditions or position in some
        ]

    def _nulls(self, values: Sequence[bytes | None]) -> set[int]:
        if self._settings.null_values:
            return set()
        return {position for position, value in enumerate(values) if value is None}
