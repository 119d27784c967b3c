"""Names of subjects, as Confluent's serializers name them."""

import confluent_kafka.schema_registry as confluent
import pytest
from confluent_kafka.serialization import MessageField, SerializationContext

from penstock.policies.schema_policy.registry.subjects import (
    STRATEGY_NAMES,
    SubjectNameStrategy,
    strategy,
    subject_of,
)

THEIRS = {
    SubjectNameStrategy.TOPIC_NAME: confluent.topic_subject_name_strategy,
    SubjectNameStrategy.RECORD_NAME: confluent.record_subject_name_strategy,
    SubjectNameStrategy.TOPIC_RECORD_NAME: confluent.topic_record_subject_name_strategy,
}


@pytest.mark.parametrize("strategy", SubjectNameStrategy)
@pytest.mark.parametrize("is_key", [True, False])
@pytest.mark.parametrize("record_name", ["shop.Order", None])
def test_a_subject_is_named_as_by_confluents_client(strategy, is_key, record_name):
    context = SerializationContext("orders", MessageField.KEY if is_key else MessageField.VALUE)
    expected = THEIRS[strategy](context, record_name)
    assert subject_of(strategy, "orders", record_name, is_key=is_key) == expected
    assert (expected is None) == (strategy.needs_record_name and record_name is None)


def test_topics_may_carry_a_context():
    assert subject_of(SubjectNameStrategy.RECORD_NAME, "t", ":.ctx:Order", is_key=False) == (
        ":.ctx:Order"
    )


def test_short_and_long_names_are_understood():
    assert {strategy(name) for name in STRATEGY_NAMES} == set(SubjectNameStrategy)
    long = "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"
    assert strategy(f" {long} ") is SubjectNameStrategy.TOPIC_RECORD_NAME
    assert len(STRATEGY_NAMES) == 6


@pytest.mark.parametrize("name", ["", "topicnamestrategy", "com.acme.TopicNameStrategy"])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="must be one of TopicNameStrategy, RecordNameStrategy"):
        strategy(name)
