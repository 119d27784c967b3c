"""Which method of a class is called, and which classes are refused at start."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.engine.batch_methods import (
    OF_INTERCEPTORS,
    OF_VALIDATION_POLICIES,
    OF_VALIDATORS,
    callables,
)
from penstock.policy import (
    BrokerRecordValidator,
    ProduceRequestInterceptor,
    RecordValidationPolicy,
)
from tests.engine.chains import instances


class Record(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return None


class Batch(BrokerRecordValidator):
    def validate_batch(self, topic_partition, batch):
        yield from ()


class Both(Record):
    def validate_batch(self, topic_partition, batch):
        return ()


class Stricter(Both):
    """What it adds stands in the method for a record."""

    def validate_record(self, topic_partition, key, value, headers):
        return super().validate_record(topic_partition, key, value, headers)


class Untouched(Both):
    """Overrides neither."""


class Mixed(Batch, Record):
    """Inherits the method for a batch from the first of its bases."""


class SwitchedOff(Both):
    validate_batch = None


class Chosen(Record):
    def __init__(self):
        self.validate_batch = lambda topic_partition, batch: ()


class LookAlike:
    def validate_batch(self, topic_partition, batch, option=None):
        return ()


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (Record, (True, False)),
        (Batch, (False, True)),
        (Both, (True, True)),
        (Stricter, (True, False)),
        (Untouched, (True, True)),
        (Mixed, (True, True)),
        (SwitchedOff, (True, False)),
        (Chosen, (True, True)),
        (LookAlike, (False, True)),
    ],
)
def test_the_method_that_speaks_for_the_class_is_called(cls, expected):
    by_record, by_batch = callables(cls(), OF_VALIDATORS)
    assert (by_record is not None, by_batch is not None) == expected
    [policy] = instances(validators=[cls]).validators.values()
    assert (policy.validate is not None, policy.validate_batch is not None) == expected


@pytest.mark.parametrize("methods", [OF_VALIDATORS, OF_VALIDATION_POLICIES, OF_INTERCEPTORS])
def test_an_interface_alone_has_no_method_for_batches(methods):
    assert callables(methods.interfaces[0](), methods).by_batch is None


class Async(BrokerRecordValidator):
    async def validate_batch(self, topic_partition, batch):
        return ()


class AsyncGenerator(RecordValidationPolicy):
    async def validate_batch(self, topic, batch):
        yield 0, "never"


class TooFew(BrokerRecordValidator):
    def validate_batch(self, batch):
        return ()


class TooMany(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return ""

    def process_batch(self, topic, partition, batch, more):
        return ()


class WithoutTopic(RecordValidationPolicy):
    def validate(self, record):
        pass


class WithoutHeaders(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value):
        pass


class Short(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return ""

    def process_record(self, key, value):
        pass


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"validators": [Async]}, r"Async: validate_batch\(\) must not be async"),
        ({"validation": AsyncGenerator}, r"AsyncGenerator: validate_batch\(\) must not be async"),
        ({"validators": [TooFew]}, r"TooFew: validate_batch\(\) must take 2 arguments"),
        ({"interceptors": [TooMany]}, r"TooMany: process_batch\(\) must take 3 arguments"),
        (
            {"validation": WithoutTopic},
            r"WithoutTopic: validate\(\) must take 2 arguments besides self: topic, record",
        ),
        (
            {"validators": [WithoutHeaders]},
            r"validate_record\(\) must take 4 .*: topic_partition, key, value, headers",
        ),
        ({"interceptors": [Short]}, r"Short: process_record\(\) must take 5 arguments"),
    ],
)
def test_a_method_with_a_wrong_signature_is_refused_at_start(given, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        instances(**given)


def test_a_class_without_either_method_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"no method validate_record\(\) or validate_batch\(\)"):
        callables(object(), OF_VALIDATORS)
