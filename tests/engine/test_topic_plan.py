"""Which policies of a topic are waited for, and which only observe (`penstock.mode`)."""

import re

from penstock.engine.plans.topic_plan import TopicPlan
from tests.engine.plans import VALIDATED, plan_of

BOTH = {
    **VALIDATED,
    "policies": "keyed,small",
    "policies.keyed.type": "KeyRequired",
    "policies.small.type": "MaxBytes",
    "policies.small.value.max.bytes": "10",
    "topics.*.penstock.policies": "keyed,small",
}


def test_policies_that_only_observe_are_separate():
    plan = plan_of({**BOTH, "penstock.mode": "mark", "policies.keyed.mode": "observe"})
    found = plan.for_topic("t")

    assert found.observed.policies == ("keyed",)
    assert found.waited_for.policies == ("a.V", "small")
    assert found.waited_for.judging_modes == ("mark",)
    assert found.judging_modes == ("mark", "observe")


def test_the_strictest_mode_comes_first_and_interceptors_go_by_the_topics():
    own = {"policies.small.mode": "enforce", "policies.keyed.mode": "mark"}
    plan = plan_of({**BOTH, "penstock.mode": "observe", **own})
    plan.set_interceptor_patterns([("a.I", re.compile("."))])
    found = plan.for_topic("t")

    assert found.judging_modes == ("enforce", "mark", "observe")
    assert found.waited_for.policies == ("keyed", "small")
    assert found.observed.policies == ("a.I", "a.V")
    assert found.observed.interceptors == ("a.I",)
    assert TopicPlan.decode(found.waited_for.encoded) == found.waited_for


def test_without_modes_of_policies_there_is_one_plan():
    for mode in ("enforce", "mark"):
        found = plan_of({**BOTH, "penstock.mode": mode}).for_topic("t")
        assert found.waited_for is found
        assert found.observed is None
    found = plan_of({**BOTH, "penstock.mode": "observe"}).for_topic("t")
    assert (found.waited_for, found.observed) == (None, found)


def losses(**own):
    """The keys that decide which records a topic loses."""
    plan = plan_of({
        **VALIDATED,
        "record.validation.policy.class.name": "a.Validation",
        "policies": "small",
        "policies.small.type": "MaxBytes",
        "policies.small.value.max.bytes": "10",
    })  # fmt: skip
    plan.set_interceptor_patterns([("a.I", re.compile("^orders"))])
    settings = {key.replace("_", "."): value for key, value in own.items()}
    return plan.for_topic(own.pop("topic", "orders"), settings).losses


def test_interceptors_lose_the_same_whatever_policies_refuse():
    known = losses()
    assert known.interceptors == ("a.I",)
    assert losses(penstock_policies="small") == known
    assert losses(record_validation_policy="x") == known
    assert losses(penstock_mode="mark") == known
    assert losses(penstock_mode="observe") is None
    assert losses(topic="payments", record_validation_policy="x") is None


def test_the_keys_of_policies_decide_which_records_are_lost_in_quarantine():
    known = losses(penstock_mode="quarantine")
    assert known != losses()
    assert losses(penstock_mode="quarantine", record_validation_policy="x") != known
    assert losses(penstock_mode="quarantine", penstock_policies="small") != known
    for key in ("topic_name", "topic_replication_factor", "context_headers_enable"):
        value = {"topic_name": "d", "topic_replication_factor": "1"}.get(key, "true")
        changed = {f"errors_deadletterqueue_{key}": value}
        assert losses(penstock_mode="quarantine", **changed) == known
    assert losses(penstock_mode="quarantine", produce_rejection_reasons="batch") == known
