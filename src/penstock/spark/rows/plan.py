"""`plan`: what rows are judged by, without a file and without a cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import isroutine
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError, TopicDefault
from penstock.configuration.declared_keys import is_own
from penstock.configuration.interfaces import INTERCEPTORS
from penstock.configuration.policies import NAMES, NamedPolicy
from penstock.configuration.policy_classes import PolicyClass
from penstock.configuration.topic_keys import POLICIES, RECORDS_POLICY
from penstock.engine.chain import Chain
from penstock.jobs.evaluation import Evaluator
from penstock.jobs.locations import TOPIC_OF_ROWS
from penstock.jobs.plan import RecordPlan, plan_of
from penstock.jobs.value_requirements import value_requirements
from penstock.spark.rows.columns.faults import Demand
from penstock.spark.rows.pickled import pickled
from penstock.spark.rows.values import NULLS

if TYPE_CHECKING:
    from penstock.configuration import PolicyConfiguration
    from penstock.jobs.value_requirements import PolicyRequirement
    from penstock.policies.json_schema.column_schema import ColumnSchema
    from penstock.policies.requirements import Requirement
    from penstock.policies.rules.policy import Rules

_RULES: Final = "penstock.policies.Rules"
_SCHEMA: Final = "penstock.policies.JsonSchema"
_CONTRACT: Final = "penstock.policies.DataContract"
_ARGUMENTS: Final = frozenset({"rules", "schema", "contract"})
"""The arguments of `plan` whose policies are named like them."""
_RULE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_RULE_PREFIX: Final = "rules."
_NO_ARGUMENTS: Final = "cannot be instantiated without arguments"


@dataclass(frozen=True, eq=False)
class RowPlan:
    """What rows are judged by.

    Attributes:
        records: The policies, of all topics.
        topic: The topic that rows are said to be of, where no column says it.
        nulls: What becomes of a null column: `null`, or `missing`.
        column_schemas: For each policy the schema by which it may judge columns, or why it needs
            the value of each row.
        demands: What the policies of the topic require of every value.
    """

    records: RecordPlan
    topic: str | None
    nulls: str = NULLS[0]
    column_schemas: Mapping[str, ColumnSchema | str] = field(default_factory=dict)
    demands: Sequence[Demand] = ()

    def __repr__(self) -> str:
        """Say how each policy judges rows."""
        ways = ", ".join(
            f"{name}: by {f'value, since {schema}' if isinstance(schema, str) else 'columns'}"
            for name, schema in self.column_schemas.items()
        )
        topic = "" if self.topic in {None, TOPIC_OF_ROWS} else f" of {self.topic}"
        return f"<plan of rows{topic}: {ways}>"

    @property
    def keeps_nulls(self) -> bool:
        """Whether a null column is null in the value."""
        return self.nulls == NULLS[0]

    @property
    def schemas(self) -> list[ColumnSchema]:
        """The schemas of all policies; none if one of them needs the value of each row."""
        schemas = [each for each in self.column_schemas.values() if not isinstance(each, str)]
        return schemas if len(schemas) == len(self.column_schemas) else []

    @property
    def rules(self) -> tuple[tuple[str, str | None], ...]:
        """The policies and rules that may refuse a row: a policy, and its rule or None."""
        all_rules: dict[tuple[str, str | None], None] = {}
        policies = self.records.policies
        classes = (
            *(each.value for each in policies.topic_defaults if each.key == RECORDS_POLICY),
            *policies.record_validator_classes,
            policies.record_validation_policy_class_name,
        )
        for name in filter(None, classes):
            all_rules[name, None] = None
        for policy in policies.named_policies:
            if policy.interface == INTERCEPTORS:
                continue
            is_rules = policy.class_name.replace(":", ".") == _RULES
            keys = [key for key in policy.configs if is_rules and _is_rule(key)]
            rules = [key.removeprefix(_RULE_PREFIX) for key in keys]
            for rule in rules:
                all_rules[policy.name, rule] = None
            if not rules:
                all_rules[policy.name, None] = None
        return tuple(all_rules)


def plan(
    rules: Mapping[str, str] | None = None,
    schema: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    contract: str | os.PathLike[str] | None = None,
    policies: Iterable[type | object] = (),
    topic: str = TOPIC_OF_ROWS,
    nulls: str = "null",
) -> RowPlan:
    """Return what rows are judged by, all of it together. It needs no cluster and no session.

    Args:
        rules: Conditions in CEL by name, as of the policy `Rules`: `value.amount > 0`.
        schema: A JSON Schema: its file, or itself. The file may refer to others in its folder.
        contract: The file of a contract of the Open Data Contract Standard 3.x. If it has several
            objects, `topic` says which of them describes the rows.
        policies: Classes of policies, which are configured without keys, or instances of them.
            They may be defined in a notebook.
        topic: The topic that rows are said to be of.
        nulls: What becomes of a null column: `null`, or `missing`, as if the value had no such
            field.

    Raises:
        ConfigurationError: There is nothing to judge by, or a part of it cannot be used.
    """
    _check(topic, nulls)
    of_rules = _given_rules(rules)
    named = [*_named_rules(of_rules, rules), *_named_schema(schema), *_named_contract(contract)]
    named += _named_classes(policies, {policy.name for policy, _ in named})
    if not named:
        raise ConfigurationError(
            "plan: there is nothing to judge by: give rules, schema, contract or policies"
        )
    configuration = _configuration(tuple(policy for policy, _ in named))
    sent_policies = {
        policy.class_name: instance for policy, instance in named if instance is not None
    }
    try:
        records = plan_of(configuration, pickled(sent_policies))
        row_plan = RowPlan(records, topic, nulls)
    except ConfigurationError as error:
        raise ConfigurationError(_text(str(error), configuration)) from None
    demands = [
        Demand(_of_argument(each), each.mode, is_for_rows=True)
        for each in value_requirements(records, topic)
    ]
    return replace(row_plan, column_schemas=_column_schemas(row_plan), demands=demands)


def _of_argument(requirement: PolicyRequirement) -> Requirement:
    """Return a requirement, named as an argument of `plan`."""
    where = requirement.requirement.where
    is_own = requirement.policy in _ARGUMENTS
    return requirement.requirement._replace(
        where=where if is_own else f"{requirement.policy}: {where}"
    )


def row_plan_of(value: Any, function: str, *, has_topics: bool | None = None) -> RowPlan:
    """Return the plan that was passed to a function over rows.

    Args:
        has_topics: Whether a column names the topics; None if the function takes no such column.

    Raises:
        ConfigurationError: It is no plan, or the topic of the rows is not known.
    """
    if isinstance(value, RowPlan):
        return value
    if not isinstance(value, RecordPlan):
        raise ConfigurationError(
            f"{function}: pass plan(...) or load_plan(FILE, topic=TOPIC), not "
            f"{type(value).__name__}"
        )
    topic = getattr(value, "topic", None)
    if topic is None and not has_topics:
        column = "" if has_topics is None else ", or topic= a column with names of topics"
        raise ConfigurationError(
            f"{function}: {value.path} has policies by topic: load_plan(FILE, topic=TOPIC) says "
            f"which the rows are of{column}"
        )
    row_plan = RowPlan(value, topic)
    if topic is None:
        return row_plan
    row_plan = replace(row_plan, demands=list(_demands(value, topic)))
    if not _is_built_in(value.policies):
        return row_plan
    return replace(row_plan, column_schemas=_column_schemas(row_plan))


def _demands(plan: RecordPlan, topic: str) -> Iterator[Demand]:
    """Yield what the policies of a file require, named by its keys."""
    for policy, mode, requirement in value_requirements(plan, topic):
        prefix = f"{NAMES}.{policy}." if policy else ""
        where = f"{plan.path}: {prefix}{requirement.where}"
        yield Demand(requirement._replace(where=where), mode, is_for_rows=False)


def _is_built_in(policies: PolicyConfiguration) -> bool:
    """Return whether no code of a user's is run where a plan is configured."""
    own = policies.record_validation_policy_class_name
    classes = [policy.class_name for policy in policies.named_policies]
    return not policies.class_path and all(map(is_own, [*classes, *([own] if own else [])]))


def _check(topic: Any, nulls: Any) -> None:
    if not isinstance(topic, str) or not topic:
        raise ConfigurationError(f"plan: topic must be the name of a topic, not {topic!r}")
    if nulls not in NULLS:
        raise ConfigurationError(f"plan: nulls must be {' or '.join(NULLS)}, not {nulls!r}")


_Named = Iterable[tuple[NamedPolicy, Any]]


def _given_rules(rules: Any) -> Rules | None:
    """Return the policy of the conditions that were given, configured; None without any."""
    if rules is None:
        return None
    if not isinstance(rules, Mapping) or not rules:
        raise ConfigurationError(
            'plan: rules must be conditions by name, like {"positive": "value.amount > 0"}'
        )
    for name, condition in rules.items():
        if not isinstance(name, str) or not _RULE_NAME.fullmatch(name):
            raise ConfigurationError(
                f"plan: rules: a rule's name has letters, digits, _ and -, at most 100 of them; "
                f"{name!r} has not"
            )
        if not isinstance(condition, str):
            raise ConfigurationError(
                f"plan: rules: {name} must be a condition in CEL, not {type(condition).__name__}"
            )
    from penstock.policies.rules.policy import Rules  # noqa: PLC0415 - an extra

    policy = Rules()
    try:
        policy.configure(_rule_configs(rules))
    except ValueError as error:
        raise ConfigurationError(f"plan: {error}") from None
    return policy


def _rule_configs(rules: Mapping[str, str]) -> Mapping[str, str]:
    return {_RULE_PREFIX + name: condition for name, condition in rules.items()}


def _named_rules(policy: Rules | None, rules: Any) -> _Named:
    if policy is not None:
        yield _policy("rules", _RULES, type(policy), _rule_configs(rules)), None


def _named_schema(schema: Any) -> _Named:
    if schema is None:
        return
    from penstock.policies.given import GivenSchema  # noqa: PLC0415 - an extra

    if isinstance(schema, Mapping):
        source: Any = dict(schema)
    else:
        source = _file(schema, "schema", "the path of a JSON Schema, or the schema as a mapping,")
        if isinstance(schema, str) and not source.is_file():
            if schema.lstrip().startswith("{"):
                raise ConfigurationError(
                    "plan: schema: a path or a mapping is required, not the schema's text: "
                    "schema=json.loads(...)"
                )
            raise ConfigurationError(f"plan: schema: there is no file {source}")
    try:
        policy = GivenSchema.of(source)
    except ValueError as error:
        raise ConfigurationError(f"plan: schema: {error}") from None
    yield _policy("schema", _SCHEMA, GivenSchema, {}), policy


def _named_contract(contract: Any) -> _Named:
    if contract is None:
        return
    from penstock.policies.given import GivenContract  # noqa: PLC0415 - an extra

    file = _file(contract, "contract", "the path of a contract")
    try:
        policy = GivenContract.of(file)
    except ValueError as error:
        raise ConfigurationError(f"plan: {error}") from None
    yield _policy("contract", _CONTRACT, GivenContract, {}), policy


def _named_classes(policies: Any, names: set[str]) -> _Named:
    if isinstance(policies, (type, str, Mapping)) or not isinstance(policies, Iterable):
        raise ConfigurationError(
            "plan: policies must be a list of classes or instances, like policies=[Orders], not "
            + (f"{policies.__name__} alone" if isinstance(policies, type) else _kind(policies))
        )
    for policy in policies:
        if isinstance(policy, str) or isroutine(policy):
            raise ConfigurationError(
                f"plan: policies: pass a policy's class or an instance of it, not {_kind(policy)}"
            )
        cls = policy if isinstance(policy, type) else type(policy)
        try:
            described = PolicyClass.of(cls)
        except ValueError as error:
            raise ConfigurationError(f"plan: policies: {cls.__name__} {error}") from None
        if described.interface == INTERCEPTORS:
            raise ConfigurationError(
                f"plan: policies: {cls.__name__} is an interceptor, which changes records; rows "
                "are only judged"
            )
        name = cls.__name__
        number = 1
        while name in names:
            number += 1
            name = f"{cls.__name__}-{number}"
        names.add(name)
        class_name = f"{cls.__module__}.{cls.__qualname__}".replace("<", "").replace(">", "")
        topic_configs = {
            row.name: row.default for row in described.topic_configs if row.default is not None
        }
        yield (
            NamedPolicy(
                name, name, f"{class_name}#{number}", described.interface, {}, topic_configs
            ),
            policy,
        )


def _kind(value: Any) -> str:
    return f"the text {value!r}" if isinstance(value, str) else f"a {type(value).__name__}"


def _policy(name: str, class_name: str, cls: type, configs: Mapping[str, str]) -> NamedPolicy:
    return NamedPolicy(name, class_name, class_name, PolicyClass.of(cls).interface, configs)


def _file(value: Any, argument: str, kind: str) -> Path:
    if not isinstance(value, (str, os.PathLike)):
        raise ConfigurationError(
            f"plan: {argument}: {kind} is required, not {type(value).__name__}"
        )
    return Path(value).absolute()


def _configuration(policies: tuple[NamedPolicy, ...]) -> PolicyConfiguration:
    """Return the configuration of policies that every topic has."""
    from penstock.configuration import read_configuration  # noqa: PLC0415 - not of executors

    # No file, but a folder: policies find their own files and modules in that of the program.
    file = Path.cwd() / "plan"
    names = ",".join(policy.name for policy in policies)
    properties = {NAMES: names, f"topics.*.{POLICIES}": names}
    for policy in policies:
        prefix = f"{NAMES}.{policy.name}."
        properties[prefix + "type"] = policy.class_name
        properties |= {prefix + key: value for key, value in policy.configs.items()}
    nowhere = read_configuration(file, {"upstream.bootstrap.servers": "none:1"}).policies
    return replace(
        nowhere,
        properties=MappingProxyType(properties),
        topic_defaults=(TopicDefault("*", POLICIES, names),),
        named_policies=policies,
    )


def _column_schemas(row_plan: RowPlan) -> Mapping[str, ColumnSchema | str]:
    """Return by which schemas the policies may judge columns.

    They have to be able to judge the topic: a contract has to have an object for it.

    Raises:
        ConfigurationError: They cannot, or the topic is one that no policy judges.
    """
    evaluator = Evaluator(row_plan.records)
    try:
        chain = evaluator.chain(row_plan.topic)
        if not isinstance(chain, Chain):
            text = _text(chain.detail or str(chain.message), row_plan.records.policies)
            raise ConfigurationError(text.replace(": set object", ": pass its name as topic="))
        if chain.is_empty:
            raise ConfigurationError(f"plan: topic {row_plan.topic} is Kafka's own")
        return evaluator.column_schemas(row_plan.topic or "")
    finally:
        evaluator.close()


def _text(text: str, configuration: PolicyConfiguration) -> str:
    """Return an error about the policies of a file as one about the arguments of `plan`."""
    text = text.replace(f"{configuration.path}: ", "").removeprefix(f"{NAMES}.")
    for policy in configuration.named_policies:
        text = text.replace(f"{policy.name}.type: {policy.class_name}: ", f"{policy.name}: ")
        text = text.replace(policy.class_name, policy.class_name.partition("#")[0])
        if text.startswith(f"{policy.name}: {_NO_ARGUMENTS}"):
            text += f"; pass an instance: policies=[{policy.name}(...)]"
    return f"plan: {text.removeprefix('plan: ')}"


def _is_rule(key: str) -> bool:
    return key.startswith(_RULE_PREFIX) and "." not in key.removeprefix(_RULE_PREFIX)
