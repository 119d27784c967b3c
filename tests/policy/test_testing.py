"""`penstock.policy.testing.judge`, as the author of a policy uses it."""

import json
import subprocess
import sys

import pytest

from penstock.configuration import ConfigurationError
from penstock.policy import (
    ALL,
    BrokerRecordValidator,
    Header,
    InvalidRecordException,
    PolicyViolationException,
    Record,
    RecordIntrospectionHints,
    RecordsPolicy,
    RecordValidationPolicy,
    RetriableException,
    TopicConfig,
)
from penstock.policy.testing import Verdict, judge


class KeyRequired(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if key is None:
            return InvalidRecordException(f"{topic_partition.topic} needs keys")
        return None


class Small(RecordsPolicy):
    def configure(self, configs):
        self.most = int(configs["most"])

    def validate(self, topic, partition, records):
        if sum(1 for _ in records) > self.most:
            raise PolicyViolationException(f"more than {self.most}")


class Json(RecordValidationPolicy):
    def validate(self, topic, record):
        try:
            json.loads(record.value)
        except ValueError:
            raise InvalidRecordException(topic.validation_policy) from None


def test_each_record_has_its_own_verdict():
    verdicts = judge(KeyRequired, [b"v", {"key": "k"}, Record(1, b"", None)], topic="orders")

    assert [v.outcome for v in verdicts] == ["refused", "accepted", "accepted"]
    assert verdicts[0].message == "orders needs keys"
    assert verdicts[0].code == 87
    assert verdicts[0].policy.endswith("KeyRequired")


def test_a_batch_policy_decides_about_all():
    assert judge(Small, ["a", "b"], configs={"most": "2"}) == [Verdict("accepted")] * 2
    verdicts = judge(Small, ["a", "b"], configs={"most": "1"})
    assert [(v.code, v.message) for v in verdicts] == [(44, "more than 1")] * 2


def test_classes_instances_and_duck_typing():
    class LookAlike:
        def validate(self, topic, record):
            if record.headers != (Header("h", b"1"),):
                raise InvalidRecordException

    for policy in (LookAlike, LookAlike()):
        good, bad = judge(policy, [{"headers": {"h": "1"}}, {"headers": [("h", None)]}])
        assert (good.outcome, bad.outcome, bad.message) == ("accepted", "refused", None)


def test_a_policy_that_raises_another_exception_has_failed():
    [verdict] = judge(Json, [None], validation_policy="json")
    assert (verdict.outcome, verdict.code) == ("failed", -1)
    assert verdict.message.endswith("Json failed: TypeError")


def test_hints_are_applied():
    seen = []

    class Hinted(RecordValidationPolicy):
        def get_hints(self):
            return RecordIntrospectionHints(False, 2, 0)

        def validate(self, topic, record):
            seen.append(tuple(record))

    judge(Hinted, [{"key": "long", "value": "long", "headers": {"h": "1"}}])
    assert seen == [((), b"lo", None)]
    assert RecordIntrospectionHints() == (True, ALL, ALL)


def test_configure_and_close_are_called_once():
    calls = []

    class Traced(RecordsPolicy):
        def configure(self, configs):
            calls.append(dict(configs))
            with pytest.raises(TypeError):
                configs["x"] = "y"

        def validate(self, topic, partition, records):
            calls.append(partition)

        def close(self):
            calls.append("closed")

    judge(Traced, [b"v"], partition=3, configs={"a": "b"})
    assert calls == [{"a": "b"}, 3, "closed"]


def test_mistakes_of_the_test_itself():
    with pytest.raises(TypeError, match="has no validate"):
        judge(object, [])
    with pytest.raises(TypeError, match="has no valu"):
        judge(Json, [{"valu": b""}])
    with pytest.raises(TypeError, match="not int"):
        judge(Json, [5])
    with pytest.raises(ConfigurationError, match="configure"):
        judge(Small, [], configs={})


def test_records_do_not_show_their_contents():
    record = Record(5, b"secret", b"secret", (Header("h", b"secret"),))
    assert "secret" not in repr(record) + repr(record.headers[0])


@pytest.mark.system
def test_importing_the_interfaces_imports_nothing_heavy():
    script = (
        "import sys, penstock.policy; "
        "print([m for m in ('asyncio', 'aiokafka', 'kio', 'numpy', 'pyarrow', 'uvloop') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


class Levels(RecordValidationPolicy):
    topic_configs = (
        TopicConfig("level", default="low", valid_values=("low", "high")),
        TopicConfig("on", "BOOLEAN"),
    )

    def validate(self, topic, record):
        raise InvalidRecordException(str(sorted(topic.configs.items())))


def test_topics_have_the_keys_that_the_policy_declares():
    [verdict] = judge(Levels, ["a"])
    assert verdict.message == "[('level', 'low')]"
    [verdict] = judge(Levels(), ["a"], topic_configs={"level": "high", "on": " TRUE"})
    assert verdict.message == "[('level', 'high'), ('on', 'true')]"
    for given, text in (({"x": "y"}, "x is not declared"), ({"level": "x"}, "one of low, high")):
        with pytest.raises(ConfigurationError, match=text):
            judge(Levels, ["a"], topic_configs=given)


class Later(BrokerRecordValidator):
    def validate_batch(self, topic_partition, batch):
        if b"later" in batch.values:
            raise RetriableException("the registry is away")
        return ()


class LaterAlone(RecordValidationPolicy):
    def validate(self, topic, record):
        if record.value == b"later":
            raise RetriableException("the registry is away")


@pytest.mark.parametrize("policy", [Later, LaterAlone])
def test_a_record_that_a_policy_cannot_judge_now_is_postponed(policy):
    [first, other] = judge(policy, ["fine", "later"])
    assert first == other
    assert (first.outcome, first.code, first.message) == ("postponed", 7, "the registry is away")
    assert judge(policy, ["fine"]) == [Verdict("accepted")]
