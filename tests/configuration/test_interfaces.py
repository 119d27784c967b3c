"""Which interface a class has, by its base or by its methods."""

import pytest

from penstock.configuration.interfaces import (
    CREATE_TOPIC,
    INTERCEPTORS,
    RECORDS,
    VALIDATION,
    VALIDATORS,
    belongs_elsewhere,
    interface_of,
)
from penstock.policy import (
    BrokerRecordValidator,
    CreateTopicPolicy,
    ProduceRequestInterceptor,
    RecordsPolicy,
    RecordValidationPolicy,
    RecordValidationPolicyWithContext,
)


class Validate:
    def validate(self, topic, record):
        """KIP-940."""


class ValidateBatch:
    def validate(self, topic, partition, records):
        """KIP-686."""


class WithContext:
    def validate(self, topic, record, context):
        """KIP-940, with the client."""


class BatchWithContext:
    def validate(self, topic, partition, records, *, context):
        """KIP-686, with the client."""


class Static:
    @staticmethod
    def validate(topic, record):
        """KIP-940."""


class Validator:
    def validate_record(self, topic_partition, key, value, headers):
        """KIP-729."""


class Interceptor:
    def process_batch(self, topic, partition, batch):
        """KIP-905."""


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (RecordValidationPolicy, VALIDATION),
        (RecordValidationPolicyWithContext, VALIDATION),
        (RecordsPolicy, RECORDS),
        (BrokerRecordValidator, VALIDATORS),
        (ProduceRequestInterceptor, INTERCEPTORS),
        (Validate, VALIDATION),
        (WithContext, VALIDATION),
        (Static, VALIDATION),
        (ValidateBatch, RECORDS),
        (BatchWithContext, RECORDS),
        (Validator, VALIDATORS),
        (Interceptor, INTERCEPTORS),
    ],
)
def test_each_has_its_key(cls, expected):
    assert interface_of(cls) == expected


class Two(RecordsPolicy, BrokerRecordValidator):
    pass


class TwoDucks(Validator):
    def validate(self, topic, record):
        """KIP-940, too."""


class Anything:
    def validate(self, *arguments):
        """Any of them."""


class One:
    def validate(self, request):
        """As KIP-108 has it."""


class Columns:
    def validate_batch(self, topic, batch):
        """KIP-729 or KIP-940."""


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        (Two, "more than one interface: BrokerRecordValidator and RecordsPolicy"),
        (TwoDucks, r"methods of more than one interface: validate_record\(\) and validate\(\)"),
        (Anything, r"that can be called as that of either RecordsPolicy"),
        (One, r"takes neither the arguments of RecordsPolicy"),
        (Columns, "which two interfaces have"),
        (CreateTopicPolicy, "judges topics, but no records"),
        (object, r"has no validate\(\)"),
    ],
)
def test_no_interface_or_several_are_an_error(cls, why):
    with pytest.raises(TypeError, match=why):
        interface_of(cls)


class AlsoValidates(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return None

    def validate(self, topic, record):
        pass


class Columns(RecordValidationPolicy):
    def validate_batch(self, topic, batch):
        return ()


@pytest.mark.parametrize(
    ("cls", "key", "method", "elsewhere"),
    [
        (AlsoValidates, VALIDATION, "validate", None),
        (AlsoValidates, VALIDATORS, "validate_record", None),
        (AlsoValidates, INTERCEPTORS, "process_record", VALIDATORS),
        (Columns, VALIDATORS, "validate_record", VALIDATION),
        (Columns, CREATE_TOPIC, "validate", VALIDATION),
    ],
)
def test_a_class_may_have_the_method_of_another_interface_as_its_own(cls, key, method, elsewhere):
    assert belongs_elsewhere(cls, key, method) == elsewhere
