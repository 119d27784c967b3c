"""A record is judged policy by policy: each step has its decision in words, and its input."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from penstock.engine.explain import LocatedRecord, explain
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import Outcome
from penstock.policy import (
    BrokerRecordValidator,
    Header,
    InvalidRecordException,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
    Record,
    RetriableException,
)
from tests.engine.chains import instances

GIVEN = LocatedRecord(3, UUID(int=7), Record(5, b"k", b"v", (Header("h", b"1"),)))


class Interceptor(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return "orders"


class Upper(Interceptor):
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value.upper())


class Same(Interceptor):
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value)


class Both(Interceptor):
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(b"K", b"V")


class Skips(Interceptor):
    def process_record(self, key, value, topic, partition, headers):
        raise ProduceRequestInterceptorSkipRecordException


class OnlyUpper(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        assert topic_partition.partition == 3
        return None if value.isupper() else InvalidRecordException("not upper case")


class Away(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        raise RetriableException("the registry is away")


def explained(*classes):
    interceptors = [cls for cls in classes if issubclass(cls, Interceptor)]
    validators = [cls for cls in classes if cls not in interceptors]
    topic_plan = TopicPlan(
        topic="orders",
        interceptors=tuple(cls.__name__ for cls in interceptors),
        validators=tuple(cls.__name__ for cls in validators),
    )
    plan = SimpleNamespace(for_topic=lambda topic, settings: topic_plan)
    policies = instances(interceptors=interceptors, validators=validators)
    return explain(plan, policies, "orders", GIVEN)


def test_each_policy_sees_the_record_of_the_policy_before_it():
    found = explained(Upper, OnlyUpper)
    assert found.verdict.outcome is Outcome.ACCEPTED
    assert [(step.number, step.kind, step.name) for step in found.steps] == [
        (1, "interceptor", "Upper"), (2, "record", "OnlyUpper")
    ]  # fmt: skip
    assert [step.decision for step in found.steps] == ["replaced value", "accepted"]
    assert "b'v'" in found.steps[0].input
    assert "b'V'" in found.steps[1].input


@pytest.mark.parametrize(
    ("interceptor", "words"), [(Same, "left as it is"), (Both, "replaced key and value")]
)
def test_an_interceptor_is_described_by_its_changes(interceptor, words):
    assert [step.decision for step in explained(interceptor).steps] == [words]


def test_after_a_refusal_no_policy_is_called():
    found = explained(OnlyUpper, Away)
    assert (found.verdict.outcome, found.verdict.policy) == (Outcome.REFUSED, "OnlyUpper")
    assert len(found.steps) == 1
    assert "not upper case" in found.steps[0].decision


def test_a_dropped_record_ends_it_too():
    found = explained(Skips, OnlyUpper)
    assert found.verdict.outcome is Outcome.DROPPED
    assert [step.name for step in found.steps] == ["Skips"]


def test_a_policy_that_cannot_decide_now_is_the_last_step():
    found = explained(Away, OnlyUpper)
    assert found.verdict.outcome is Outcome.POSTPONED
    assert [(step.number, step.name) for step in found.steps] == [(1, "Away")]
    assert "the registry is away" in found.steps[0].decision


def test_without_policies_the_record_is_accepted():
    found = explained()
    assert (found.verdict.outcome, found.steps) == (Outcome.ACCEPTED, ())
