"""What the built-in policies of a topic require of every value, read from the policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.configuration import ConfigurationError
from penstock.configuration.declared_keys import is_own
from penstock.engine.instances import NAMED, VALIDATION, PolicyInstances
from penstock.engine.plans.plan import NO_SETTINGS, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.jobs.plan import RecordPlan
    from penstock.policies.requirements import Requirement


class PolicyRequirement(NamedTuple):
    """What a policy requires, and what becomes of records that it refuses.

    Attributes:
        policy: The name of the policy; empty if it has none, because a key of a proposal names it.
        mode: Its mode (`penstock.mode`).
        requirement: A condition or a field; its key is that of the policy.
    """

    policy: str
    mode: str
    requirement: Requirement


def value_requirements(plan: RecordPlan, topic: str) -> list[PolicyRequirement]:
    """Return what the policies of a topic require of values, in their order.

    No code of a user's is run: such a policy has no requirements here. There are none either where
    interceptors of the topic may change values before they are judged, or where a policy cannot be
    used: that is said where records are judged.
    """
    plans = Plan(plan.policies)
    plans.set_interceptor_patterns(plan.patterns)
    topic_plan = plans.for_topic(topic, plan.topic_settings.get(topic, NO_SETTINGS))
    if topic_plan is None or topic_plan.unusable or topic_plan.interceptors:
        return []
    named = [policy.name for policy in plan.policies.named_policies if is_own(policy.class_name)]
    own = plan.policies.record_validation_policy_class_name
    names = {
        NAMED: [name for name in topic_plan.named if name in named],
        VALIDATION: [own] if own and is_own(own) and not plan.policies.class_path else [],
    }
    try:
        policies = PolicyInstances(plan.policies, names, factories=plan.factories)
    except ConfigurationError:
        return []
    try:
        return list(_requirements(policies, topic_plan))
    finally:
        policies.close()


def _requirements(policies: PolicyInstances, plan: TopicPlan) -> Iterator[PolicyRequirement]:
    text = plan.validation_setting or ""
    for validation in policies.validations_of(plan):
        method = getattr(validation.instance, "value_requirements", None)
        if not callable(method) or not is_own(type(validation.instance).__module__):
            continue
        name = validation.record_policy.name
        try:
            requirements = list(method(plan.topic, text))
        except ValueError:  # it cannot judge the topic
            continue
        for each in requirements:
            yield PolicyRequirement(name if name in plan.named else "", plan.mode_of(name), each)
