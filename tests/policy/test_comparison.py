"""`judge` fails the test of a policy whose two methods do not agree."""

import pytest

from penstock.policy import (
    BrokerRecordValidator,
    InvalidRecordException,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
    RecordIntrospectionHints,
    RecordValidationPolicy,
)
from penstock.policy.testing import judge


class Digits(RecordValidationPolicy):
    """Refuses values that hold digits; what differs in a test is overridden in both methods."""

    message = "digits"

    def validate(self, topic, record):
        if any(byte in b"0123456789" for byte in record.value):
            raise InvalidRecordException("digits")

    def validate_batch(self, topic, batch):
        for index, value in enumerate(batch.values):
            if any(byte in b"0123456789" for byte in value):
                yield index, "digits"


def test_methods_that_agree():
    verdicts = judge(Digits, [b"a", b"1", b"b"], validation_policy="x")
    assert [(v.outcome, v.message) for v in verdicts] == [
        ("accepted", None), ("refused", "digits"), ("accepted", None)
    ]  # fmt: skip
    failed = judge(Digits, [b"a", None], validation_policy="x")
    assert {v.outcome for v in failed} == {"failed"}
    assert judge(Digits, []) == []


class OtherPosition(Digits):
    validate = Digits.validate

    def validate_batch(self, topic, batch):
        return [(index + 1, message) for index, message in super().validate_batch(topic, batch)]


class OtherMessage(Digits):
    validate = Digits.validate

    def validate_batch(self, topic, batch):
        return [(index, "a digit") for index, _ in super().validate_batch(topic, batch)]


class PassesTombstones(Digits):
    validate = Digits.validate

    def validate_batch(self, topic, batch):
        for index, value in enumerate(batch.values):
            if value is not None and value.isdigit():
                yield index, "digits"


class LooksAround(RecordValidationPolicy):
    """Has no other method, and finds a record good or bad by its neighbours."""

    def validate_batch(self, topic, batch):
        return [(0, "many")] if len(batch) > 2 else []


class LooksAtPairs(RecordValidationPolicy):
    def validate_batch(self, topic, batch):
        return [(0, "two")] if len(batch) == 2 else []


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        (OtherPosition, "record 1 of 4 is failed where .* refused with 'digits' record by record"),
        (
            OtherMessage,
            "refused with 'a digit' where all .* refused with 'digits' record by record",
        ),
        (PassesTombstones, "record 3 of 4 is accepted where .* failed record by record"),
        (LooksAround, "record 0 of 4 is refused with 'many' where .* accepted each in a batch of"),
        (LooksAtPairs, "record 0 of 4 is accepted where .* refused with 'two' in two batches"),
    ],
)
def test_methods_that_disagree(policy, complaint):
    with pytest.raises(AssertionError, match=complaint):
        judge(policy, [b"a", b"1", b"b", None], validation_policy="x")


class Upper(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return "t"

    def process_record(self, key, value, topic, partition, headers):
        if value == b"drop":
            raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key, value.upper())

    def process_batch(self, topic, partition, batch):
        for index, value in enumerate(batch.values):
            if value == b"drop":
                yield index, ProduceRequestInterceptorSkipRecordException
            else:
                yield index, ProduceRequestInterceptorResult(batch.keys[index], value.upper())


class Lower(Upper):
    process_record = Upper.process_record

    def process_batch(self, topic, partition, batch):
        for index, value in enumerate(batch.values):
            yield index, ProduceRequestInterceptorResult(batch.keys[index], value.lower())


def test_interceptors():
    verdicts = judge(Upper, [b"a", b"drop", b"b"], topic="t")
    assert [(v.outcome, v.value) for v in verdicts] == [
        ("accepted", b"A"), ("dropped", None), ("accepted", b"B")
    ]  # fmt: skip
    assert judge(Lower, [b"a"], topic="x")
    with pytest.raises(
        AssertionError, match=r"record 0 of 1 .*accepted.*another key or value"
    ) as e:
        judge(Lower, [b"a"], topic="t")
    assert "b'a'" not in str(e.value)


def test_hints_hold_for_batches():
    class Start(RecordValidationPolicy):
        def get_hints(self):
            return RecordIntrospectionHints(False, 0, 2)

        def validate_batch(self, topic, batch):
            assert batch.keys == (None,) * len(batch)
            return [(n, value.decode()) for n, value in enumerate(batch.values)]

    assert [v.message for v in judge(Start, [b"abc", b"de"])] == ["ab", "de"]


def test_duck_typing_with_one_method():
    class Dropping:
        def interceptor_topic_pattern(self):
            return ""

        def process_batch(self, topic, partition, batch):
            return [(0, ProduceRequestInterceptorSkipRecordException)][: batch.values[0] == b"x"]

    assert [v.outcome for v in judge(Dropping, ["x"])] == ["dropped"]

    class Ambiguous:
        def validate_batch(self, topic, batch):
            return ()

    with pytest.raises(TypeError, match="derive from BrokerRecordValidator or RecordValid"):
        judge(Ambiguous, ["x"])

    class Clear(Ambiguous, BrokerRecordValidator):
        """Says which it is."""

    assert [v.outcome for v in judge(Clear, ["x"])] == ["accepted"]
