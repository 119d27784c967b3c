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
    """Returns every record: the cost of the chain itself."""

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


class TrivialBatch(RecordValidationPolicy):
    """`Trivial`, a batch at a time."""

    def validate_batch(self, topic, batch):
        for value in batch.values:
            if value is None:
                break
        return ()


class NoOpBatch(ProduceRequestInterceptor):
    """`NoOp`, a batch at a time."""

    def interceptor_topic_pattern(self):
        return "^bench-"

    def process_batch(self, topic, partition, batch):
        return ()


class MapFieldBatch(NoOpBatch):
    """`MapField`, a batch at a time."""

    def process_batch(self, topic, partition, batch):
        keys = batch.keys
        for position, value in enumerate(batch.values):
            document = orjson.loads(value)
            document["customer"] = 0
            yield (
                position,
                ProduceRequestInterceptorResult(keys[position], orjson.dumps(document)),
            )


class DropThirdBatch(NoOpBatch):
    """`DropThird`, a batch at a time."""

    def process_batch(self, topic, partition, batch):
        for position, key in enumerate(batch.keys):
            if int(key) % 3 == 0:
                yield position, ProduceRequestInterceptorSkipRecordException
