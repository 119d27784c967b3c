"""The policies that are measured."""

import orjson

from penstock.policy import (
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
    RecordValidationPolicy,
)


class Trivial(RecordValidationPolicy):
    """Looks at every value and lets it pass: what judging itself costs."""

    def validate(self, topic, record):
        if record.value is None:
            return


class NoOp(ProduceRequestInterceptor):
    """Gives every record back: what a chain itself costs."""

    def interceptor_topic_pattern(self):
        return "^bench-"

    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value)


class MapField(NoOp):
    """Replaces one field of a JSON value."""

    def process_record(self, key, value, topic, partition, headers):
        document = orjson.loads(value)
        document["customer"] = 0
        return ProduceRequestInterceptorResult(key, orjson.dumps(document))


class DropThird(NoOp):
    """Drops every third record."""

    def process_record(self, key, value, topic, partition, headers):
        if int(key) % 3 == 0:
            raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key, value)
