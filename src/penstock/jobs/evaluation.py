"""The policies of a plan in one process, which serves one task after another.

Policies are loaded and configured when the first task comes, and closed by `close_all`, or when a
task ends in a process that is not used again.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.configuration.declared_keys import is_own
from penstock.engine.all_objections import PoliciesApart, same_for_all
from penstock.engine.chain import Chain, RecordVerdicts, unusable
from penstock.engine.instances import PolicyInstances
from penstock.engine.plans.plan import NO_SETTINGS, Plan
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import failed
from penstock.jobs.policy_retries import decided
from penstock.kafka.wire.names import NO_ID

if TYPE_CHECKING:
    from penstock.engine.all_objections import AllVerdicts
    from penstock.engine.columns import RecordColumns
    from penstock.engine.path_counts import PathCount
    from penstock.engine.verdict import PolicyVerdict
    from penstock.jobs.plan import RecordPlan
    from penstock.policies.data_contract.data_set import DataSetRules
    from penstock.policies.decoded.readers import ValueReader
    from penstock.policies.json_schema.column_schema import ColumnSchema

_CHAINS_CACHED: Final = 10_000


class Evaluator:
    """The policies of one plan in one process."""

    def __init__(self, plan: RecordPlan) -> None:
        self._plan = plan
        self._topics = Plan(plan.policies)
        self._policies = PolicyInstances(
            plan.policies, self._topics.names, factories=plan.factories
        )
        self._topics.set_interceptor_patterns(self._policies.patterns)
        if plan.digests is not None:
            self._topics.set_digests(plan.digests)
        self._chains: dict[str, Chain | PolicyVerdict] = {}
        self._apart: dict[str, PoliciesApart] = {}
        self._readers: dict[str | None, ValueReader | None] = {}

    def judge_records(
        self, topic: str | None, partition: int, records: RecordColumns
    ) -> RecordVerdicts:
        """Return the verdicts on records of one partition, each as if it had been sent alone.

        Args:
            topic: Their topic; where it is not known, all of them fail.
            records: In the order of their offsets.

        Raises:
            PostponedError: A policy cannot decide, even after a while: the task fails, and Spark
                tries it again.
        """
        chain = self.chain(topic)
        if not isinstance(chain, Chain):
            return RecordVerdicts([(index, chain) for index in range(records.count)], None)
        if chain.is_empty:
            return RecordVerdicts((), None)
        return decided(
            lambda: chain.judge_each(
                partition,
                self._plan.topic_ids.get(topic or "", NO_ID),
                records,
                records_policy_batch=self._plan.records_policy_batch,
            ),
            self._plan.retry_for_s,
        )

    def judge_by_all(
        self, topic: str | None, partition: int, records: RecordColumns
    ) -> AllVerdicts:
        """Return the verdicts on records as `judge_records` does, and all objections to them.

        Policies whose mode is `mark` or `observe` only warn.

        Raises:
            PostponedError: As for `judge_records`.
        """
        chain = self.chain(topic)
        if not isinstance(chain, Chain):
            return same_for_all(records.count, chain)
        apart = self._apart.get(chain.plan.topic)
        if apart is None:
            if len(self._apart) >= _CHAINS_CACHED:
                self._apart.clear()
            apart = self._apart[chain.plan.topic] = PoliciesApart(chain)
        return decided(
            lambda: apart.judge_each(
                partition,
                self._plan.topic_ids.get(topic or "", NO_ID),
                records,
                records_policy_batch=self._plan.records_policy_batch,
            ),
            self._plan.retry_for_s,
        )

    def close(self) -> None:
        """Close the policies."""
        for complaint in self._policies.close():
            sys.stderr.write(f"close() failed: {complaint}\n")

    @property
    def counts_paths(self) -> bool:
        """Whether a policy has paths that are counted."""
        return self._policies.counts_paths

    def take_path_counts(self) -> list[PathCount]:
        """Return how often the paths of policies led to a field since the last call."""
        return self._policies.take_path_counts()

    def modes(self, topic: str) -> dict[str, str]:
        """Return the policies that judge a topic, each with its mode (`penstock.mode`)."""
        chain = self.chain(topic)
        if not isinstance(chain, Chain):
            return {}
        return {policy.name: mode for mode, tier in chain.tiers for policy in tier.ordered_policies}

    def data_set_rules(self, topic: str) -> list[tuple[str, DataSetRules]]:
        """Return the policies that have rules about all records of a topic, with these rules."""
        chain = self.chain(topic)
        if not isinstance(chain, Chain):
            return []
        policy_rules = []
        for validation in self._policies.validations_of(chain.plan):
            rules_of = getattr(validation.instance, "data_set_rules", None)
            if callable(rules_of):
                policy_rules.append((validation.record_policy.name, rules_of(topic)))
        return policy_rules

    def value_reader(self, topic: str | None) -> ValueReader | None:
        """Return the reader of a topic's values by the schemas of a policy; None without schemas.

        JSON that no registry has the schema of has no reader.
        """
        if topic not in self._readers:
            if len(self._readers) >= _CHAINS_CACHED:
                self._readers.clear()
            self._readers[topic] = self._value_reader(topic)
        return self._readers[topic]

    def _value_reader(self, topic: str | None) -> ValueReader | None:
        chain = self.chain(topic)
        if topic is None or not isinstance(chain, Chain):
            return None
        for validation in self._policies.validations_of(chain.plan):
            factory = getattr(validation.instance, "value_reader", None)
            own = validation.record_policy.topic_configs
            configs = chain.plan.validation_configs if own is None else own
            reader: ValueReader | None = factory(topic, configs) if callable(factory) else None
            if reader is not None:
                return reader
        return None

    def column_schemas(self, topic: str) -> dict[str, ColumnSchema | str]:
        """Return by which schemas columns may be judged instead of values.

        A value is accepted if it fits the schemas of all policies.

        Returns:
            For each policy its schema, or why it needs values; nothing if there is no policy.
        """
        chain = self.chain(topic)
        if not isinstance(chain, Chain):
            return {"": "the policies of the topic cannot be used"}
        schemas: dict[str, ColumnSchema | str] = {
            policy.name: "it is a class"
            for policy in (*chain.interceptors, *chain.ordered_policies)
        }
        text = chain.plan.validation_setting or ""
        for validation in self._policies.validations_of(chain.plan):
            schema_of = getattr(validation.instance, "column_schema", None)
            if is_own(type(validation.instance).__module__) and callable(schema_of):
                schemas[validation.record_policy.name] = schema_of(topic, text)
        return schemas

    def has_data_set_rules(self) -> bool:
        """Return whether a policy may have rules about all records of a topic."""
        return any(
            hasattr(instance, "data_set_rules") for instance in self._policies.validation_instances
        )

    def digest(self, topic: str | None) -> str:
        """Return the digest of a topic's plan; empty if it is unknown."""
        chain = self.chain(topic)
        return chain.plan.digest if isinstance(chain, Chain) else ""

    def chain(self, topic: str | None) -> Chain | PolicyVerdict:
        """Return a topic's chain, or the verdict on all its records if there is none."""
        if topic is None:
            return failed("of this topic", "cannot be known: the record has no topic")
        chain = self._chains.get(topic)
        if chain is None:
            if len(self._chains) >= _CHAINS_CACHED:
                self._chains.clear()
            own = self._plan.topic_settings.get(topic, NO_SETTINGS)
            plan = self._topics.for_topic(topic, own) or TopicPlan(topic=topic)
            try:
                chain = Chain(plan, self._policies)
            except ConfigurationError as error:
                chain = unusable(plan, error)
            self._chains[topic] = chain
        return chain


def task_ended() -> None:
    """Close this process's policies if it is not used for another task."""
    if not os.environ.get("SPARK_REUSE_WORKER"):
        close_all()


_evaluators: Final[dict[str, Evaluator]] = {}


def evaluator_of(plan: RecordPlan) -> Evaluator:
    """Return this process's policies of a plan, which are loaded the first time.

    Raises:
        ConfigurationError: A policy cannot be loaded or configured here.
    """
    evaluator = _evaluators.get(plan.fingerprint)
    if evaluator is None:
        if not _evaluators:
            atexit.register(close_all)
        evaluator = _evaluators[plan.fingerprint] = Evaluator(plan)
    return evaluator


def close_all() -> None:
    """Close this process's policies."""
    while _evaluators:
        _evaluators.popitem()[1].close()
