"""Named policies that declare their keys."""

import json

from penstock.policy import (
    ConfigKey,
    InvalidRecordException,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    RecordValidationPolicy,
)


class Limit(RecordValidationPolicy):
    """Refuses records in which a number is too large."""

    config_keys = (
        ConfigKey("field", documentation="The field with the number.", required=True),
        ConfigKey("max", "DOUBLE", documentation="The largest accepted number.", required=True),
    )

    def configure(self, configs):
        self._field = configs["field"]
        self._max = float(configs["max"])

    def validate(self, topic, record):
        try:
            found = json.loads(record.value or b"null")[self._field]
        except (ValueError, KeyError, TypeError):
            raise InvalidRecordException(f"there is no number {self._field}") from None
        if not isinstance(found, (int, float)) or found > self._max:
            raise InvalidRecordException(f"{self._field} must be a number up to {self._max:g}")


class Mask(ProduceRequestInterceptor):
    """Replaces a field with asterisks."""

    config_keys = (ConfigKey("field", documentation="The field.", required=True),)

    def configure(self, configs):  # KIP-905 passes no argument, but a named policy gets its keys
        self._field = configs["field"]

    def interceptor_topic_pattern(self):
        return ""  # each topic whose penstock.policies lists it

    def process_record(self, key, value, topic, partition, headers):
        document = json.loads(value or b"null")
        if isinstance(document, dict) and self._field in document:
            value = json.dumps({**document, self._field: "***"}).encode()
        return ProduceRequestInterceptorResult(key, value)
