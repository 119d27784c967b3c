"""A policy, given as a class or an instance, over a batch: for unit tests of policies."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError, read_configuration
from penstock.configuration.declared_keys import as_configs, rows_of
from penstock.configuration.interfaces import ALTER_CONFIG, CREATE_TOPIC, interface_of
from penstock.engine.chain import Chain
from penstock.engine.columns import columns_of
from penstock.engine.instances import INTERCEPTORS, RECORDS, VALIDATION, VALIDATORS, PolicyInstances
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.policy.testing.comparison import compare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from penstock.engine.admin_policies import AdminContext, ConfigAlteration, TopicCreation
    from penstock.engine.chain import RecordVerdicts
    from penstock.engine.verdict import PolicyVerdict
    from penstock.policy import ClientContext, Record

_WHOLE: Final = "judges_whole_batches"
"""An attribute of a policy of KIP-940 whose verdict on a record depends on those next to it."""


def judge_records(
    policy: Any,
    records: Sequence[Record],
    *,
    topic: str,
    partition: int,
    topic_id: UUID,
    setting: str,
    topic_configs: Mapping[str, str],
    properties: Mapping[str, str],
    client: ClientContext,
    file: Path,
) -> PolicyVerdict | RecordVerdicts:
    """Make, configure, call and close a policy; see `penstock.policy.testing.judge`.

    Returns:
        The verdict about the batch; what became of each record where it is an interceptor.

    Raises:
        AssertionError: It judges columns, and differs from itself where records come otherwise.
    """
    key = _key_of(policy)
    name = _name_of(policy)
    with _alone(policy, key, properties, file) as policies:
        policies.client = client
        plan = TopicPlan(
            topic=topic,
            interceptors=(name,) if key == INTERCEPTORS else (),
            records_policy=name if key == RECORDS else None,
            validators=(name,) if key == VALIDATORS else (),
            validation_policy=name if key == VALIDATION else None,
            validation_setting=setting,
            validation_configs=_configs_of(policy, topic_configs) if key == VALIDATION else {},
        )
        chain = Chain(plan, policies)
        columns = columns_of(records)
        if chain.judges_columns and not getattr(policies.validation, _WHOLE, False):
            compare(chain, partition, topic_id, columns)
        if key == INTERCEPTORS:
            return chain.judge_each(partition, topic_id, columns)
        return chain.judge(partition, topic_id, columns)


def judge_creation(
    policy: Any,
    creation: TopicCreation,
    context: AdminContext,
    *,
    properties: Mapping[str, str],
    file: Path,
) -> PolicyVerdict:
    """Make, configure, call and close a policy; see `penstock.policy.testing.judge_topic`."""
    with _alone(policy, CREATE_TOPIC, properties, file) as policies:
        assert policies.create_topic is not None
        return policies.create_topic.judge_creation(creation, context)


def judge_alteration(
    policy: Any,
    alteration: ConfigAlteration,
    context: AdminContext,
    *,
    properties: Mapping[str, str],
    file: Path,
) -> PolicyVerdict:
    """Make, configure, call and close a policy; see `penstock.policy.testing.judge_configs`."""
    with _alone(policy, ALTER_CONFIG, properties, file) as policies:
        assert policies.alter_config is not None
        return policies.alter_config.judge_alteration(alteration, context)


def _configs_of(policy: Any, configs: Mapping[str, str]) -> dict[str, str]:
    """Return the topic level keys that a policy declares, with their defaults where none is given.

    Raises:
        ConfigurationError: Its declarations are invalid, or do not have a given key.
    """
    try:
        rows = rows_of(as_configs(getattr(policy, "topic_configs", ())))
        for name, value in configs.items():
            if name not in rows:
                raise ValueError(f"topic_configs: {name} is not declared")
            try:
                rows[name].type.read(value)
            except ValueError as error:
                raise ValueError(f"topic_configs: {name} must be {error}") from None
    except ValueError as error:
        raise ConfigurationError(f"{_name_of(policy)}: {error}") from None
    config_values = {name: configs.get(name, row.default) for name, row in rows.items()}
    return {
        name: rows[name].type.normalize(value)
        for name, value in config_values.items()
        if value is not None
    }


@contextmanager
def _alone(
    policy: Any, key: str, properties: Mapping[str, str], file: Path
) -> Iterator[PolicyInstances]:
    """Make and configure a policy, given as a class or an instance; close it in the end."""
    cls = policy if isinstance(policy, type) else type(policy)
    name = _name_of(policy)
    configuration = replace(
        read_configuration(file, {"upstream.bootstrap.servers": "none:1"}).policies,
        properties=MappingProxyType(dict(properties)),
    )
    policies = PolicyInstances(
        configuration,
        {key: (name,)},
        factories={name: cls if isinstance(policy, type) else lambda: policy},
    )
    try:
        yield policies
    finally:
        policies.close()


def _name_of(policy: Any) -> str:
    cls = policy if isinstance(policy, type) else type(policy)
    return f"{cls.__module__}.{cls.__name__}"


def _key_of(policy: Any) -> str:
    """Return the key of a policy's interface, by its base class or by its methods."""
    cls = policy if isinstance(policy, type) else type(policy)
    try:
        return interface_of(cls)
    except TypeError as error:
        raise TypeError(f"{cls.__name__} {error}") from None
