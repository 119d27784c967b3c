"""Chains of policies, from classes of tests, without a file and without a worker."""

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

from penstock.configuration import read_configuration
from penstock.engine.chain import Chain
from penstock.engine.columns import Columns, columns_of
from penstock.engine.instances import INTERCEPTORS, VALIDATION, VALIDATORS, PolicyInstances
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.policy import Record

TOPIC_ID = UUID(int=15)
CONFIGURATION = replace(
    read_configuration(Path("configs"), {"upstream.bootstrap.servers": "none:1"}).policies,
    properties=MappingProxyType({}),
)


def instances(*, interceptors=(), validators=(), validation=None) -> PolicyInstances:
    """Make and configure classes, each under its own name."""
    names = {
        INTERCEPTORS: [cls.__name__ for cls in interceptors],
        VALIDATORS: [cls.__name__ for cls in validators],
        VALIDATION: [validation.__name__] if validation else [],
    }
    given = {cls.__name__: cls for cls in (*interceptors, *validators, validation) if cls}
    return PolicyInstances(CONFIGURATION, names, factories=given)


def chain(*, interceptors=(), validators=(), validation=None, setting="") -> Chain:
    """Make the chain of a topic."""
    policies = instances(interceptors=interceptors, validators=validators, validation=validation)
    plan = TopicPlan(
        topic="orders",
        interceptors=tuple(cls.__name__ for cls in interceptors),
        validators=tuple(cls.__name__ for cls in validators),
        validation_policy=validation.__name__ if validation else None,
        validation_setting=setting,
    )
    return Chain(plan, policies)


def columns(*values, headers=()) -> Columns:
    """Return records of these values, with the first byte of each as key."""
    return columns_of(
        [Record(n, value and value[:1], value, headers) for n, value in enumerate(values)]
    )


def each(policies: Chain, records) -> list:
    """Return position, outcome, policy, code and message of records that are not accepted."""
    verdicts = policies.judge_each(3, TOPIC_ID, records).verdicts
    return sorted(
        (index, verdict.outcome.value, verdict.policy, verdict.code, verdict.message)
        for index, verdict in verdicts
    )
