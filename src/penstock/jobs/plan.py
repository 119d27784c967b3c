"""A configuration's policies, in a form that Spark carries to its Python workers."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError
from penstock.configuration.policies import NAMES
from penstock.configuration.properties import load_properties
from penstock.configuration.topic_keys import POLICIES, VALIDATION_POLICY
from penstock.configuration.values import items
from penstock.engine.instances import INTERCEPTORS, RECORDS, VALIDATION, VALIDATORS, PolicyInstances
from penstock.engine.objections import BatchPolicy, RecordPolicy
from penstock.engine.plans.declared import classes_here, declared_here
from penstock.engine.plans.plan import NO_SETTINGS, Plan
from penstock.engine.plans.plan_digest import HEX_DIGITS, PlanDigests
from penstock.jobs import policy_retries
from penstock.kafka.records.batch import MAX_RECORDS
from penstock.kafka.records.uncompressed import BatchLimits

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from uuid import UUID

    from penstock.configuration import Configuration, PolicyConfiguration
    from penstock.configuration.policies import NamedPolicy
    from penstock.engine.plans.topic_plan import TopicPlan

MAX_DECOMPRESSED_BYTES: Final = 128 * 2**20
"""Of a stored batch, unless `decompressed.batch.max.bytes` is more."""
_UNLIMITED: Final = 2**31 - 1
_UPSTREAM: Final = "upstream."
_SERVERS: Final = f"{_UPSTREAM}bootstrap.servers"


def readable_bytes(decompressed_batch_max_bytes: int) -> int:
    """Return the size of the largest stored batch, decompressed, that is read.

    Args:
        decompressed_batch_max_bytes: The value of `decompressed.batch.max.bytes`.
    """
    return max(MAX_DECOMPRESSED_BYTES, decompressed_batch_max_bytes)


@dataclass(frozen=True, eq=False)
class RecordPlan:
    """The policies of each topic, and the columns of a record that they need.

    Attributes:
        policies: The file's configuration of policies.
        topic_ids: Topic ids for `RecordValidationPolicy`, by topic; others are zero.
        records_policy_batch: The maximum number of consecutive records of a partition that a
            `RecordsPolicy` gets at a time.
        columns: Kafka's columns that the policies read, and for `key` and `value` the maximum
            number of bytes.
        has_interceptors: Whether records can be changed or dropped.
        topic_settings: The topic level keys that were set on topics, by topic.
        retry_for_s: The seconds for which a task retries policies that cannot decide, before it
            fails.
        topic: The only topic that it is for; None for all topics.
        pickled_policies: Classes and instances by class name, pickled, that are not loaded by
            their names; empty without such policies.
        patterns: Class or name, and topic pattern, of each interceptor.
        digests: The digests of topics' plans, from what was read with the file.
    """

    policies: PolicyConfiguration
    topic_ids: Mapping[str, UUID]
    records_policy_batch: int
    columns: Mapping[str, int]
    has_interceptors: bool
    topic_settings: Mapping[str, Mapping[str, str]]
    retry_for_s: float = policy_retries.FOR_S
    topic: str | None = None
    pickled_policies: bytes = b""
    patterns: Sequence[tuple[str, re.Pattern[str]]] = ()
    digests: PlanDigests | None = None

    @property
    def path(self) -> Path:
        """The configuration file, as an absolute path."""
        return self.policies.path

    @property
    def configuration(self) -> Configuration:
        """The complete configuration, read again; not for Spark's executors."""
        return _read(self.policies.path, self.policies.properties, self.policies)

    @property
    def max_decompressed_bytes(self) -> int:
        """The size of the largest stored batch, decompressed, that is read."""
        return readable_bytes(self.policies.decompressed_batch_max_bytes)

    @property
    def batch_limits(self) -> BatchLimits:
        """The largest stored batch that is read."""
        return BatchLimits(self.max_decompressed_bytes, MAX_RECORDS)

    @property
    def may_merge(self) -> bool:
        """Whether small batches may be judged together.

        A `RecordsPolicy` that is given several records is given those of one batch.
        """
        return self.records_policy_batch == 1

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that a verdict depends on, except the policies' code."""
        content = [
            str(self.path),
            sorted(self.policies.properties.items()),
            sorted((topic, str(topic_id)) for topic, topic_id in self.topic_ids.items()),
            self.records_policy_batch,
            sorted((topic, sorted(own.items())) for topic, own in self.topic_settings.items()),
        ]
        if self.pickled_policies:
            content.append(hashlib.sha256(self.pickled_policies).hexdigest())
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @property
    def factories(self) -> Mapping[str, Callable[[], Any]]:
        """Makers of policies by class name, for those that are not loaded by their names."""
        return factories_of(self.pickled_policies)

    def judges(self, topic: str) -> bool:
        """Return whether a topic can have a policy or an interceptor."""
        return self.has_interceptors or self.has_policy(topic)

    def has_policy(self, topic: str) -> bool:
        """Return whether a topic has a policy that can refuse records."""
        own = self.topic_settings.get(topic, NO_SETTINGS)
        return Plan(self.policies).for_topic(topic, own) is not None

    def digest(self, topic: str) -> str:
        """Return the digest of a topic's plan; empty if the topic has no policy.

        It is that of `penstock check` for the file. Policies that no file has are part of it.
        """
        plan = Plan(self.policies)
        plan.set_interceptor_patterns(self.patterns)
        if self.digests is not None:
            plan.set_digests(self.digests)
        topic_plan = plan.for_topic(topic, self.topic_settings.get(topic, NO_SETTINGS))
        digest = "" if topic_plan is None else topic_plan.digest
        if not digest or not self.pickled_policies:
            return digest
        all_of_it = hashlib.sha256(digest.encode() + self.pickled_policies).hexdigest()
        return all_of_it[:HEX_DIGITS] + digest[HEX_DIGITS:]  # also what says that it is incomplete

    def digests_of(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the digests of the plans of topics, without those that have no policy."""
        digests = {topic: self.digest(topic) for topic in topics}
        return {topic: digest for topic, digest in digests.items() if digest}

    def interceptors_only(self) -> RecordPlan:
        """Return the plan without policies that refuse.

        Raises:
            ConfigurationError: It has no interceptor.
        """
        if not self.has_interceptors:
            raise ConfigurationError(
                f"{self.path}: produce.request.interceptors is missing: the classes that rewrite"
            )
        named = [
            policy for policy in self.policies.named_policies if policy.interface == INTERCEPTORS
        ]
        names = {policy.name for policy in named}
        judging = {VALIDATORS, VALIDATION, "record.validation.policy.class.path"}
        properties = {
            key: _only(names, value) if _lists_names(key) else value
            for key, value in self.policies.properties.items()
            if key not in judging and (_lists_names(key) or not key.startswith("topics."))
        }
        settings = {
            topic: {POLICIES: _only(names, own[POLICIES])}
            for topic, own in self.topic_settings.items()
            if POLICIES in own
        }
        return _plan(
            _read(self.path, properties, named=named).policies, self.topic_ids, 1, settings
        )

    def with_interceptor(self, name: str) -> RecordPlan:
        """Return the plan with another interceptor, which runs first.

        Raises:
            ConfigurationError: It cannot be loaded.
        """
        names = [name, *Plan(self.policies).names[INTERCEPTORS]]
        properties = {**self.policies.properties, INTERCEPTORS: ",".join(names)}
        return _plan(
            _read(self.path, properties, self.policies).policies,
            self.topic_ids,
            self.records_policy_batch,
            self.topic_settings,
        )

    def for_topics(
        self, topic_ids: Mapping[str, UUID], topic_settings: Mapping[str, Mapping[str, str]]
    ) -> RecordPlan:
        """Return the same policies for other topics.

        Args:
            topic_ids: See `load_plan`.
            topic_settings: See `load_plan`.

        Raises:
            ConfigurationError: A policy cannot be loaded.
        """
        return _plan(self.policies, topic_ids, self.records_policy_batch, topic_settings)

    def __getstate__(self) -> dict[str, object]:
        state = dict(self.__dict__)
        for name in ("topic_ids", "columns", "topic_settings"):
            state[name] = dict(state[name])
        return state


def plan_of(configuration: PolicyConfiguration, pickled_policies: bytes) -> RecordPlan:
    """Return the plan of policies that no file names, and load them once as a check.

    Args:
        configuration: Names them.
        pickled_policies: Those that are not loaded by their names; see `RecordPlan`.

    Raises:
        ConfigurationError: A policy is not usable.
    """
    return _plan(configuration, {}, 1, {}, pickled_policies=pickled_policies)


def factories_of(pickled_policies: bytes) -> Mapping[str, Callable[[], Any]]:
    """Return makers of pickled policies, by class name; each instance is a new copy."""
    if not pickled_policies:
        return {}
    policies = pickle.loads(pickled_policies)  # noqa: S301 - of the driver, as all that it sends
    return {
        name: policy if isinstance(policy, type) else partial(_itself, policy)
        for name, policy in policies.items()
    }


def _itself(policy: Any) -> Any:
    return policy


def load_plan(
    file: str | Path,
    *,
    topic: str | None = None,
    topic_ids: Mapping[str, UUID] = MappingProxyType({}),
    records_policy_batch: int = 1,
    topic_settings: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> RecordPlan:
    """Read a configuration file, and load its policies once as a check.

    Args:
        file: The gateway's configuration file.
        topic: The topic whose policies judge frames: they need no column `topic`, and only the
            columns that these policies look at. The file need not name a cluster then.
        topic_ids: The ids of topics, for policies that read them (KIP-940).
        records_policy_batch: The maximum number of consecutive records of a partition that a
            `RecordsPolicy` (KIP-686) gets at a time. Its verdict applies to all of them. Stored
            records do not show the batches of their producers.
        topic_settings: The topic level keys that were set on topics through Kafka's admin
            tools, by topic; the commands read them from the cluster. They take precedence over the
            file's defaults.

    Returns:
        The plan for `judge` and `apply`.

    Raises:
        ConfigurationError: The file or a policy is not usable, or `topic` has no policy.
        ValueError: `records_policy_batch` is less than 1.
    """
    if not isinstance(file, (str, os.PathLike)):
        raise ConfigurationError(
            f"load_plan: the path of a configuration file is required, not {type(file).__name__}"
        )
    if topic is not None and not isinstance(topic, str):
        raise ConfigurationError(
            f"load_plan: topic must be the name of one topic, not {type(topic).__name__}"
        )
    if records_policy_batch < 1:
        raise ValueError("records_policy_batch must be 1 or more")
    policies = policies_of(file, needs_cluster=topic is None)
    return _plan(policies, topic_ids, records_policy_batch, topic_settings, topic)


def policies_of(file: str | Path, *, needs_cluster: bool) -> PolicyConfiguration:
    """Read the policies of a configuration file.

    Args:
        file: The gateway's configuration file.
        needs_cluster: Whether the file has to name a cluster.

    Raises:
        ConfigurationError: The file cannot be read, or a key is wrong.
    """
    from penstock.configuration import load_configuration  # noqa: PLC0415 - as in `_read`

    has_cluster = needs_cluster or _SERVERS in load_properties(file, Path(file).resolve())[0]
    # The classes are loaded in this process anyway.
    configuration = load_configuration(
        file,
        without="" if has_cluster else _UPSTREAM,
        replaced={} if has_cluster else {_SERVERS: "none:1"},
        read_declared=declared_here,
        describe_classes=classes_here,
    )
    policies = configuration.policies
    if not has_cluster:  # what needs it says that it is missing
        properties = dict(policies.properties)
        del properties[_SERVERS]
        policies = replace(policies, properties=MappingProxyType(properties))
    return policies


def _plan(
    configuration: PolicyConfiguration,
    topic_ids: Mapping[str, UUID],
    records_policy_batch: int,
    topic_settings: Mapping[str, Mapping[str, str]],
    topic: str | None = None,
    pickled_policies: bytes = b"",
) -> RecordPlan:
    plan = Plan(configuration)
    digests = PlanDigests(configuration)  # before policies read the same files
    names = dict(plan.names)
    set_on_topics = (plan.for_topic(topic, own) for topic, own in topic_settings.items())
    for settings in filter(None, set_on_topics):
        if settings.records_policy is not None and not settings.unusable:
            names[RECORDS] = tuple(dict.fromkeys((*names[RECORDS], settings.records_policy)))
    policies = PolicyInstances(configuration, names, factories=factories_of(pickled_policies))
    plan.set_interceptor_patterns(policies.patterns)
    plan.set_digests(digests)
    for other, own in topic_settings.items():
        plan.for_topic(other, own)  # where executors are, there may be no files
    has_interceptors = bool(policies.patterns)
    texts = _texts(configuration, topic_settings)
    try:
        topic_plan = None
        if topic is not None:
            own = topic_settings.get(topic, NO_SETTINGS)
            topic_plan = _topic_plan(configuration.path, plan, topic, own)
            has_interceptors = bool(topic_plan.interceptors)
            texts = {topic_plan.validation_setting or ""}
            own_class = topic_plan.records_policy
            names[RECORDS] = () if own_class is None else (own_class,)
        columns = _columns(policies, names[RECORDS], texts, topic_plan)
    finally:
        policies.close()
    return RecordPlan(
        configuration,
        topic_ids,
        records_policy_batch,
        MappingProxyType(columns),
        has_interceptors,
        {topic: dict(own) for topic, own in topic_settings.items()},
        policy_retries.FOR_S,
        topic,
        pickled_policies,
        tuple(policies.patterns),
        digests,
    )


def _topic_plan(file: Path, plan: Plan, topic: str, own: Mapping[str, str]) -> TopicPlan:
    """Return the plan of a topic.

    Raises:
        ConfigurationError: It has no policy, so that all its records would be accepted.
    """
    topic_plan = plan.for_topic(topic, own)
    if topic_plan is None:
        globs = ", ".join(plan.globs)
        raise ConfigurationError(
            f"{file}: topic {topic} has no policy"
            + (f"; the file has policies for the topics {globs}" if globs else "")
        )
    return topic_plan


def _texts(
    configuration: PolicyConfiguration, topic_settings: Mapping[str, Mapping[str, str]]
) -> set[str]:
    """Return each `record.validation.policy` that a topic may have."""
    texts = [
        default.value
        for default in configuration.topic_defaults
        if default.key == VALIDATION_POLICY
    ]
    texts += (own[VALIDATION_POLICY] for own in topic_settings.values() if VALIDATION_POLICY in own)
    return set(texts) or {""}


def _columns(
    policies: PolicyInstances,
    records_policies: Sequence[str],
    texts: Collection[str],
    topic_plan: TopicPlan | None,
) -> dict[str, int]:
    """Return the columns that policies read, with the most bytes of each.

    Args:
        records_policies: The classes of KIP-686 that topics have.
        texts: The `record.validation.policy` that topics have.
        topic_plan: The plan of the only topic; None for all topics.
    """
    judging, together = policies.judging, policies.together
    intercepts = bool(policies.patterns)
    if topic_plan is not None:
        own = {*topic_plan.validators, *topic_plan.named, topic_plan.validation_policy}
        judging = [policy for policy in judging if policy.name in own]
        own |= {*topic_plan.interceptors}
        together = [policy for policy in together if policy.name in own]
        intercepts = bool(topic_plan.interceptors)
    takes_batches = bool(records_policies) or any(
        isinstance(policy, BatchPolicy) for policy in judging
    )
    columns: dict[str, int] = {}
    if (
        takes_batches
        or intercepts
        or any(isinstance(policy, RecordPolicy) and policy.hints is None for policy in judging)
    ):
        columns = {"key": _UNLIMITED, "value": _UNLIMITED, "headers": _UNLIMITED}
    if takes_batches or any(policy.reads_timestamps for policy in together):
        columns["timestamp"] = _UNLIMITED
    all_hints = policies.hints_for(texts)
    for hints in chain.from_iterable(all_hints.get(policy.name, ()) for policy in judging):
        if hints.access_headers:
            columns["headers"] = _UNLIMITED
        for name, max_bytes in (
            ("key", hints.access_key_bytes),
            ("value", hints.access_value_bytes),
        ):
            if max_bytes:
                columns[name] = max(columns.get(name, 0), min(max_bytes, _UNLIMITED))
    return columns


def _lists_names(key: str) -> bool:
    """Return whether a key is `topics.<glob>.penstock.policies`."""
    return key.startswith("topics.") and key.endswith(f".{POLICIES}")


def _only(names: Collection[str], value: str) -> str:
    """Return those of a topic's `penstock.policies` that are among some names."""
    return ",".join(name for name in items(value) if name in names)


def _read(
    file: Path,
    properties: Mapping[str, str],
    policies: PolicyConfiguration | None = None,
    *,
    named: Sequence[NamedPolicy] = (),
) -> Configuration:
    # Imported here: executors import this module, and do without the configuration's model.
    from penstock.configuration import read_configuration  # noqa: PLC0415

    declared = () if policies is None else policies.declared_topic_keys
    named = named if policies is None else policies.named_policies
    if named or NAMES in properties:  # without them the fingerprint stays as it is
        properties = {**properties, NAMES: ",".join(policy.name for policy in named)}
    return read_configuration(file, properties, declared=declared, named=named)
