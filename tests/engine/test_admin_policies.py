"""Policies of topics and configs: their verdicts, and whether they take a context."""

import functools

import pytest

from penstock.engine.admin_policies import (
    AdminContext,
    AdminPolicy,
    ConfigAlteration,
    TopicCreation,
    signature_error,
)
from penstock.engine.verdict import ACCEPTED, FailureCause, Outcome
from penstock.policies import ConfigRules
from penstock.policy import (
    AlterConfigPolicy,
    ConfigResource,
    PolicyViolationException,
    RetriableException,
    TopicDescription,
    UndecidableException,
)

CREATION = TopicCreation("orders", None, None, {"0": [1, 2], "1": [2, 3]}, {"retention.ms": "5"})
ALTERATION = ConfigAlteration("TOPIC", "orders", {"retention.ms": None})
CONTEXT = AdminContext("User:alice", "client", {"payments": (6, 3)})


class Seen:
    """A policy that keeps its arguments."""

    def __init__(self):
        self.requests = []
        self.contexts = []

    def validate(self, request):
        self.requests.append(request)


class SeenWithContext(Seen):
    def validate(self, request, context):
        super().validate(request)
        self.contexts.append(context)


class Raises:
    def __init__(self, error):
        self.error = error

    def validate(self, _request):
        raise self.error


def test_a_policy_gets_the_topic_and_cannot_change_it():
    policy = Seen()
    assert AdminPolicy("a.P", policy).judge_creation(CREATION, CONTEXT) is ACCEPTED
    (request,) = policy.requests
    assert request[:3] == ("orders", None, None)
    assert request.replicas_assignments == {0: (1, 2), 1: (2, 3)}
    assert request.configs == {"retention.ms": "5"}
    for mapping in (request.replicas_assignments, request.configs):
        with pytest.raises(TypeError):
            mapping["more"] = "1"
    counted = CREATION._replace(num_partitions=6, replication_factor=3, replicas_assignments=None)
    AdminPolicy("a.P", policy).judge_creation(counted, CONTEXT)
    assert policy.requests[1][:4] == ("orders", 6, 3, None)


def test_a_policy_gets_the_altered_configs():
    policy = Seen()
    assert AdminPolicy("a.P", policy).judge_alteration(ALTERATION, CONTEXT) is ACCEPTED
    (request,) = policy.requests
    assert request[0] == ConfigResource("TOPIC", "orders")
    assert request[1] == {"retention.ms": None}
    with pytest.raises(TypeError):
        request[1]["more"] = "1"


def test_a_policy_with_a_context_gets_the_client_and_the_topics():
    policy = SeenWithContext()
    assert AdminPolicy("a.P", policy).judge_creation(CREATION, CONTEXT) is ACCEPTED
    (context,) = policy.contexts
    assert context[:2] == ("User:alice", "client")
    assert context[2] == {"payments": TopicDescription(6, 3)}
    with pytest.raises(TypeError):
        context[2]["more"] = TopicDescription(1, 1)


@pytest.mark.parametrize(
    ("error", "outcome", "code", "message", "cause"),
    [
        (PolicyViolationException("too few"), Outcome.REFUSED, 44, "too few", None),
        (RetriableException("later"), Outcome.POSTPONED, 7, "later", None),
        (UndecidableException("never"), Outcome.POSTPONED, 7, "never", FailureCause.UNDECIDABLE),
    ],
)
def test_an_exception_of_a_policy_is_its_verdict(error, outcome, code, message, cause):
    policy = AdminPolicy("a.P", Raises(error))
    for verdict in (
        policy.judge_creation(CREATION, CONTEXT),
        policy.judge_alteration(ALTERATION, CONTEXT),
    ):
        assert (verdict.outcome, verdict.code, verdict.policy) == (outcome, code, "a.P")
        assert (verdict.message, verdict.cause) == (message, cause)


@pytest.mark.parametrize("returned", [PolicyViolationException("no"), False])
def test_a_policy_that_returns_its_verdict_allows_nothing(returned):
    class Returns:
        def validate(self, request):
            return returned

    verdict = AdminPolicy("Returns", Returns()).judge_creation(CREATION, CONTEXT)
    assert (verdict.outcome, verdict.code) == (Outcome.FAILED, -1)
    assert "it must return None, and raise PolicyViolationException to refuse" in verdict.detail


@pytest.mark.parametrize("error", [ValueError("secret"), SystemExit(3), KeyboardInterrupt()])
def test_any_other_exception_is_a_failure_whose_text_stays_here(error):
    verdict = AdminPolicy("a.P", Raises(error)).judge_creation(CREATION, CONTEXT)
    assert (verdict.outcome, verdict.code, verdict.policy) == (Outcome.FAILED, -1, "a.P")
    assert verdict.message is None
    assert verdict.detail.startswith(f"{type(error).__name__} at ")
    assert "test_admin_policies.py" in verdict.detail
    assert "secret" not in verdict.detail


def takes_request(request): ...
def takes_both(request, context): ...
def takes_another_name(request, cluster): ...
def has_default_context(request, context=None): ...
def has_own_default(request, strict=False): ...
def takes_three(request, context, more): ...
def takes_nothing(): ...
def takes_keyword(request, *, context): ...
def takes_optional_keyword(request, *, context=None): ...
def takes_any(*arguments): ...


@pytest.mark.parametrize(
    ("validate", "needs_context", "is_wrong"),
    [
        (takes_request, False, False),
        (takes_both, True, False),
        (takes_another_name, True, False),
        (has_default_context, True, False),
        (has_own_default, False, False),
        (takes_three, True, True),
        (takes_nothing, False, True),
        (takes_keyword, False, True),
        (takes_optional_keyword, False, True),
        (takes_any, False, False),
        (functools.partial(takes_both, None), False, False),
        (dict.fromkeys, False, False),
        (min, False, False),
    ],
)
def test_validate_takes_a_request_and_perhaps_a_context(validate, needs_context, is_wrong):
    policy = type("Policy", (), {"validate": staticmethod(validate)})()
    assert AdminPolicy("a.P", policy).needs_context is needs_context
    error = signature_error(validate)
    expected = "validate() must take a request, or a request and a context" if is_wrong else None
    assert error == expected


@pytest.mark.parametrize("sees", [True, False])
def test_deletions_of_keys_that_are_not_set_are_left_out_if_a_policy_says_so(sees):
    class Configs(AlterConfigPolicy):
        sees_unset_keys = sees

        def validate(self, request):
            raise PolicyViolationException(",".join(request.configs))

    altered = ConfigAlteration("TOPIC", "orders", {"a": None, "b": None, "c": "1"}, ("a",))
    found = AdminPolicy("a.P", Configs()).judge_alteration(altered, AdminContext())
    assert found.message == ("a,b,c" if sees else "b,c")


def test_config_rules_let_keys_that_are_not_set_be_deleted():
    rules = ConfigRules()
    rules.configure({"topic.rules.configs.allowed": "b", "topic.rules.configs.required": "b"})
    policy = AdminPolicy("a.P", rules)
    for name in ("a", "b"):
        there = ConfigAlteration("TOPIC", "orders", {name: None})
        unset = there._replace(not_set=(name,))
        assert policy.judge_alteration(unset, AdminContext()).outcome is Outcome.ACCEPTED
        assert policy.judge_alteration(there, AdminContext()).outcome is Outcome.REFUSED
