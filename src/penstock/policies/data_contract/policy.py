"""KIP-940: values judged by a contract of the Open Data Contract Standard (ODCS 3.x).

    policies=contract
    policies.contract.type=penstock.policies.DataContract
    policies.contract.contract=orders.odcs.yaml
    topics.orders.penstock.policies=contract

| key           | default    |                                                              |
|---------------|------------|--------------------------------------------------------------|
| `contract`    |            | the file, relative to the configuration's folder              |
| `object`      | the topic's | the object of its schema that describes the records         |
| `null.values` | `accept`   | or `refuse`: records without a value (tombstones)            |

Without `object`, it is the object whose `physicalName` or name is the topic, or the only object.
Values are JSON. Only the rules about single records are judged; `not_judged` returns the others.
Needs the packages of `penstock-kafka[contracts]`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.policies.own_keys import accepts
from penstock.policies.requirements import Requirement
from penstock.policies.rule_objections import RuleObjection
from penstock.policy import (
    ALL,
    ConfigKey,
    InvalidRecordException,
    RecordIntrospectionHints,
    UndecidableException,
)
from penstock.policy import RecordValidationPolicy as Policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.policies.by_columns import NativeJudge, RecordColumns
    from penstock.policies.data_contract.data_set import DataSetRules
    from penstock.policies.data_contract.document import Contract
    from penstock.policies.data_contract.quality import NotJudged
    from penstock.policies.json_schema.check import Check
    from penstock.policies.json_schema.column_schema import ColumnSchema
    from penstock.policy import BatchProxy, RecordProxy, TopicMetadata

CONTRACT: Final = "contract"
OBJECT: Final = "object"
NULL_VALUES: Final = "null.values"
_SHOWN_MOST: Final = 20
_NOTHING: Final = "nothing is judged but that a value is a JSON object"


class _Object(NamedTuple):
    """An object of the contract, ready to judge values.

    Attributes:
        not_judged: The other parts of the contract.
        words: The messages for values that do not match a pattern of Penstock.
        title: The object and the contract, for messages.
        of_data_set: The rules about all records together.
        judges_nothing: Whether any JSON object is accepted.
    """

    check: Check
    not_judged: Sequence[NotJudged]
    words: Mapping[str, str]
    title: str
    of_data_set: DataSetRules
    judges_nothing: bool


class DataContract(Policy):
    """Refuses records whose value is not JSON, or does not fulfil the contract.

    Attributes:
        warnings: The demands of the contract by which records are not judged, in one line, and
            the objects by which nothing is judged, in another.
    """

    config_keys = (
        ConfigKey(CONTRACT, documentation="The contract's file: ODCS 3.x in YAML.", required=True),
        ConfigKey(
            OBJECT,
            documentation="The object of the contract's schema that describes the records. "
            "Default: the object whose physicalName or name is the topic, or the only object.",
        ),
        ConfigKey(
            NULL_VALUES,
            default="accept",
            documentation="`accept` or `refuse` records without a value (tombstones).",
            valid_values=("accept", "refuse"),
        ),
    )

    def __init__(self) -> None:
        self._base = Path()
        self._contract: Contract | None = None
        self.warnings: Sequence[str] = ()

    def use_folder(self, folder: Path) -> None:
        """Set the folder of the configuration file. It is called before `configure`."""
        self._base = folder

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the contract, and compile all of its objects.

        Raises:
            ValueError: A key is wrong, the contract cannot be used, or a package is missing.
        """
        name = configs.get(CONTRACT, "").strip()
        if not name:
            raise ValueError(f"{CONTRACT} must name a file, like {CONTRACT}=orders.odcs.yaml")
        self._file = name
        self._null_values = accepts(configs, NULL_VALUES, "accept")
        try:
            import penstock.policies.data_contract.document  # noqa: F401, PLC0415 - an extra
            from penstock.policies.data_contract.errors import ContractError  # noqa: PLC0415
            from penstock.policies.data_contract.standard import check_standard  # noqa: PLC0415
            from penstock.policies.json_schema import check  # noqa: F401, PLC0415
        except ModuleNotFoundError as error:
            raise ValueError(
                f"there is no module {error.name}: install penstock-kafka[contracts]"
            ) from None
        self._object_name = configs.get(OBJECT, "").strip()
        try:
            self._contract = contract = self._read(name)
            self._objects = {each: _compiled(contract, each) for each in contract.objects}
            check_standard(contract.document, contract.version)
        except ContractError as error:
            raise ValueError(f"{CONTRACT}={name}: {error}") from None
        if self._object_name and self._object_name not in contract.objects:
            raise ValueError(
                f"{OBJECT}={self._object_name}: {name} has no such object; "
                f"it has {', '.join(contract.objects)}"
            )
        self.warnings = self._warnings(contract)

    reads_timestamps = False

    def get_hints(self) -> RecordIntrospectionHints:
        """Return that only values are needed."""
        return RecordIntrospectionHints(False, 0, ALL)

    def prepare_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Find the topic's object.

        Raises:
            ValueError: The contract has no object for the topic.
        """
        del configs
        self._object_of(topic)

    def describe_topic(self, topic: str, configs: Mapping[str, str]) -> Iterator[str]:
        """Yield lines with the rules that judge a topic's records, and those that do not.

        Raises:
            ValueError: The topic has no object in the contract.
        """
        del configs
        topic_object = self._object_of(topic)
        yield topic_object.title
        if topic_object.judges_nothing:
            yield f"  {_NOTHING}"
        yield from (f"  not judged: {rule}" for rule in topic_object.not_judged)

    def column_schema(self, topic: str, text: str) -> ColumnSchema | str:
        """Return the schema of the topic's object, for judges of columns; or why not.

        Raises:
            ValueError: The contract has no object for the topic.
        """
        del text
        return self._object_of(topic).check.column_schema or "a library judges it"

    def value_requirements(self, topic: str, text: str) -> Iterator[Requirement]:
        """Yield the fields that every value must have.

        Raises:
            ValueError: The contract has no object for the topic.
        """
        del text
        for field, types in self._object_of(topic).check.required_fields:
            yield Requirement(f"{CONTRACT}={self._file}", field=field, types=types)

    def not_judged(self, topic: str) -> Sequence[NotJudged]:
        """Return the contract's rules about a topic that are not judged record by record.

        They are rules about the complete data set, and rules in another language.

        Raises:
            ValueError: The topic has no object in the contract.
        """
        return self._object_of(topic).not_judged

    def data_set_rules(self, topic: str) -> DataSetRules:
        """Return the rules that `penstock audit` measures on all stored records of a topic.

        Raises:
            ValueError: The topic has no object in the contract.
        """
        return self._object_of(topic).of_data_set

    def validate(self, topic: TopicMetadata, record: RecordProxy) -> None:
        """Return if the value fulfils the contract.

        Raises:
            InvalidRecordException: It does not. The text names the contract, the object and the
                place, and has no record contents.
            UndecidableException: The topic has no object in the contract.
        """
        for _, text in self._refused(topic, (record.value,)):
            raise InvalidRecordException(text)

    def validate_batch(self, topic: TopicMetadata, batch: BatchProxy) -> Iterable[tuple[int, str]]:
        """Return the position and the text of each record that `validate` would refuse."""
        return self._refused(topic, batch.values)

    def objections_of_rules(
        self, topic: TopicMetadata, batch: BatchProxy
    ) -> Iterator[RuleObjection]:
        """Yield all objections to records that are refused."""
        topic_object = self._object_of(topic.topic_id_partition.topic)
        for position, value in enumerate(batch.values):
            for reason in topic_object.check.reasons(value) if value is not None else ():
                text = _in_words(reason.text, topic_object.words)
                message = f"{topic_object.title}: the value {text}"
                yield RuleObjection(position, reason.rule, message, reason.fields)

    def is_bounded(self, text: str) -> bool:
        """Return whether one object describes all topics, and is judged natively."""
        del text
        name = self._name("")
        return name is not None and self._objects[name].check.is_bounded

    def all_fit(self, text: str, batch: RecordColumns) -> bool:
        """Return whether every record is accepted; also False if the check would take long."""
        del text
        name = self._name("")
        values = tuple(batch.values)
        return (
            name is not None
            and (self._null_values or None not in values)
            and self._objects[name].check.all_fit(values)
        )

    def judge_natively(self, text: str, judge: NativeJudge) -> bool:
        """Configure native threads to judge as `all_fit` does; return whether that is possible."""
        del text
        name = self._name("")
        return name is not None and self._objects[name].check.judge_natively(
            judge, keys=False, accepts_null=self._null_values
        )

    def _read(self, name: str) -> Contract:
        from penstock.policies.data_contract.document import read_contract  # noqa: PLC0415

        return read_contract(self._base, name)

    def _refused(
        self, topic: TopicMetadata, values: Sequence[bytes | None]
    ) -> list[tuple[int, str]]:
        try:
            topic_object = self._object_of(topic.topic_id_partition.topic)
        except ValueError as error:
            raise UndecidableException(str(error)) from None
        reasons = {
            position: f"{topic_object.title}: the value {_in_words(reason, topic_object.words)}"
            for position, reason in topic_object.check.refused(values)
        }
        if not self._null_values:
            reasons |= {
                position: f"{topic_object.title}: the value is null"
                for position, value in enumerate(values)
                if value is None
            }
        return sorted(reasons.items())

    def _warnings(self, contract: Contract) -> list[str]:
        """Return lines about the objects and the parts by which records are not judged."""
        names = (self._object_name,) if self._object_name else contract.objects
        # A promise can be about several objects, which all have it.
        rules = list(
            dict.fromkeys(str(rule) for name in names for rule in self._objects[name].not_judged)
        )
        empty = ", ".join(name for name in names if self._objects[name].judges_nothing)
        lines = [f"{CONTRACT}: {contract.title}: {empty}: {_NOTHING}"] if empty else []
        if not rules:
            return lines
        more = f"; and {len(rules) - _SHOWN_MOST} more" if len(rules) > _SHOWN_MOST else ""
        shown = "; ".join(rules[:_SHOWN_MOST]) + more
        return [*lines, f"{CONTRACT}: {contract.title}: not judged on the wire: {shown}"]

    def _name(self, topic: str) -> str | None:
        assert self._contract is not None
        return self._object_name or self._contract.object_of(topic)

    def _object_of(self, topic: str) -> _Object:
        name = self._name(topic)
        if name is None:
            assert self._contract is not None
            raise ValueError(
                f"the contract {self._contract.title} has no object for topic {topic}; it has "
                f"{', '.join(self._contract.objects)}: set {OBJECT}"
            )
        return self._objects[name]


def _compiled(contract: Contract, name: str) -> _Object:
    from penstock.policies.data_contract.data_set import data_set_rules  # noqa: PLC0415
    from penstock.policies.data_contract.errors import ContractError  # noqa: PLC0415
    from penstock.policies.data_contract.schemas import schema_of_object  # noqa: PLC0415
    from penstock.policies.json_schema.made import compile_made  # noqa: PLC0415

    schema = schema_of_object(name, contract.objects[name])
    try:
        check = compile_made(schema.schema, formats=schema.formats)
    except ValueError as error:
        raise ContractError(f"{name}: {error}") from None
    agreed: list[Any] = [
        promise
        for promise in contract.promises
        if _is_about(str(promise.get("element") or ""), name)
    ]
    title = f"contract {contract.title}, {name}"
    rules = data_set_rules(title, name, contract.objects[name], agreed, schema.not_judged)
    about = name if len(contract.objects) == 1 else contract.title
    not_judged = (*schema.not_judged, *_promises(agreed, about))
    return _Object(check, not_judged, schema.words, title, rules, schema.judges_nothing)


def _is_about(element: str, name: str) -> bool:
    return not element or any(
        part.strip() == name or part.strip().startswith(f"{name}.") for part in element.split(",")
    )


def _promises(agreed: Sequence[Mapping[str, Any]], about: str) -> list[NotJudged]:
    from penstock.policies.data_contract.quality import Concern, NotJudged  # noqa: PLC0415

    return [
        NotJudged(
            str(promise.get("element") or about)[:100],
            str(promise.get("property"))[:100],
            Concern.DATA_SET,
            "a promise about the data set",
        )
        for promise in agreed
    ]


def _in_words(reason: str, words: Mapping[str, str]) -> str:
    """Return a reason in which a pattern of Penstock is replaced by its message."""
    prefix, match, pattern = reason.partition("must match ")
    return prefix + words[pattern] if match and pattern in words else reason
