"""Policies for the tasks, with their effects on a record."""

from penstock.policy import (
    BrokerRecordValidator,
    InvalidRecordException,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
    RetriableException,
)


class NoBad(BrokerRecordValidator):
    """Refuses values that begin with "bad", and fails on those that begin with "odd"."""

    def validate_record(self, topic_partition, key, value, headers):
        if value is not None and value.startswith(b"bad"):
            return InvalidRecordException("bad is not good")
        if value is not None and value.startswith(b"odd"):
            raise ZeroDivisionError
        return None


class Mask(ProduceRequestInterceptor):
    """Masks "secret", drops "drop", fails on "fail"; other records stay unchanged."""

    def interceptor_topic_pattern(self):
        return "."

    def process_record(self, key, value, topic, partition, headers):
        if value is not None and value.startswith(b"drop"):
            raise ProduceRequestInterceptorSkipRecordException
        if value is not None and value.startswith(b"fail"):
            raise ZeroDivisionError
        if value is not None and b"secret" in value:
            return ProduceRequestInterceptorResult(key, value.replace(b"secret", b"******"))
        return ProduceRequestInterceptorResult(key, value)


class Repair(ProduceRequestInterceptor):
    """Changes "bad" to "good"."""

    def interceptor_topic_pattern(self):
        return "."

    def process_record(self, key, value, topic, partition, headers):
        if value is not None and value.startswith(b"drop"):
            raise ProduceRequestInterceptorSkipRecordException
        if value is not None and value.startswith(b"bad "):
            value = b"good " + value[4:]
        return ProduceRequestInterceptorResult(key, value)


class Later(BrokerRecordValidator):
    """Cannot decide about values that begin with "later" while `away` is set."""

    away = True

    def validate_record(self, topic_partition, key, value, headers):
        if self.away and value is not None and value.startswith(b"later"):
            raise RetriableException("the registry is unavailable")
