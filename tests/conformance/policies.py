"""The policies of the gateways; the file is copied into their folders.

`Wraps` and `Unwraps` run in two gateways, the second behind the first: both rewrite every batch,
and a client reads its records as it wrote them. `Unwraps` refuses records that `Wraps` has not
wrapped: a batch that was not rewritten fails the run.
"""

from penstock.policy import (
    AlterConfigPolicy,
    BrokerRecordValidator,
    CreateTopicPolicy,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    RecordsPolicy,
    RecordValidationPolicy,
)

WRAPPER = b"\x00wrapped\x00"


class AcceptsTopics(CreateTopicPolicy):
    def validate(self, request):
        assert request.topic


class AcceptsConfigs(AlterConfigPolicy):
    def validate(self, request):
        assert request.resource.name


class AcceptsRecords(RecordsPolicy):
    def validate(self, topic, partition, records):
        for record in records:
            assert record.timestamp is not None


class AcceptsEach(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        assert value is None or isinstance(value, bytes)


class AcceptsValues(RecordValidationPolicy):
    def validate(self, topic, record):
        assert record.value is None or isinstance(record.value, bytes)


class Everywhere(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return "^(?!__penstock_)"  # the second gateway writes its state through the first


class Wraps(Everywhere):
    """Prefix the value; the key of a record without one."""

    def process_record(self, key, value, topic, partition, headers):
        if value is not None:
            value = WRAPPER + value
        elif key is not None:
            key = WRAPPER + key
        return ProduceRequestInterceptorResult(key, value)


class Unwraps(Everywhere):
    """Remove the prefix."""

    def process_record(self, key, value, topic, partition, headers):
        if value is not None:
            value = _unwrapped(value)
        elif key is not None:
            key = _unwrapped(key)
        return ProduceRequestInterceptorResult(key, value)


def _unwrapped(data):
    if not data.startswith(WRAPPER):
        raise ValueError("the record was not wrapped")
    return data[len(WRAPPER) :]
