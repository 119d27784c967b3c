"""KIP-940: values are judged by the JSON Schema that the topic names.

    record.validation.policy.class.name=json_schema.JsonSchema
    topics.orders.record.validation.policy=order.schema.json
    json.schema.folder=/etc/penstock/schemas

The topic's `record.validation.policy` is a file in `json.schema.folder` (the working folder
unless set). Tombstones pass. Needs orjson and jsonschema-rs.
"""

from pathlib import Path

import jsonschema_rs
import orjson

from penstock.policy import InvalidRecordException, RecordIntrospectionHints, RecordValidationPolicy


class JsonSchema(RecordValidationPolicy):
    """Refuses values that are not JSON or do not fit the topic's schema."""

    def configure(self, configs):
        self._folder = Path(configs.get("json.schema.folder", "."))
        self._validators = {}

    def get_hints(self):
        return RecordIntrospectionHints(access_headers=False, access_key_bytes=0)

    def validate(self, topic, record):
        value = record.value
        if value is None:
            return
        name = topic.validation_policy
        validator = self._validators.get(name)
        if validator is None:
            validator = self._validators[name] = self._load(name)
        try:
            document = orjson.loads(value)
        except orjson.JSONDecodeError:
            raise InvalidRecordException("the value is not JSON") from None
        if not validator.is_valid(document):
            error = next(validator.iter_errors(document))
            # Which rule, and where; not error.message, which quotes the value.
            place = "".join(f"/{step}" for step in error.instance_path) or "the value"
            raise InvalidRecordException(
                f"{place} breaks {name} at /{'/'.join(map(str, error.schema_path))}"
            )

    def _load(self, name):
        schema = orjson.loads((self._folder / name).read_bytes())
        return jsonschema_rs.validator_for(schema)
