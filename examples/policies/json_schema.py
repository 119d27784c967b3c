"""KIP-940: validate values against the JSON Schema that the topic names.

    record.validation.policy.class.name=json_schema.JsonSchema
    topics.orders.record.validation.policy=order.schema.json
    json.schema.folder=/etc/penstock/schemas

The topic's `record.validation.policy` is a file in `json.schema.folder` (by default the working
folder). Tombstones are accepted. Requires orjson and jsonschema-rs.

This is an example of your own class: `penstock.policies.JsonSchema` does more, and is faster.
"""

from pathlib import Path

import jsonschema_rs
from orjson import JSONDecodeError, loads

from penstock.policy import InvalidRecordException, RecordIntrospectionHints, RecordValidationPolicy


class JsonSchema(RecordValidationPolicy):
    """Refuses values that are not JSON, or do not match the topic's schema."""

    def configure(self, configs):
        self._validators = _Validators(Path(configs.get("json.schema.folder", ".")))

    def get_hints(self):
        return RecordIntrospectionHints(access_headers=False, access_key_bytes=0)

    def validate(self, topic, record):
        value = record.value
        if value is None:
            return
        try:
            document = loads(value)
        except JSONDecodeError:
            raise InvalidRecordException("the value is not JSON") from None
        fits, validator = self._validators[topic.validation_policy]
        if not fits(document):
            error = next(validator.iter_errors(document))
            # The position and the rule, but not error.message, which quotes the value.
            place = "".join(f"/{step}" for step in error.instance_path) or "the value"
            rule = "/".join(map(str, error.schema_path))
            raise InvalidRecordException(f"{place} breaks {topic.validation_policy} at /{rule}")


class _Validators(dict):
    """The `is_valid` function and the validator of each schema file, loaded at first use."""

    def __init__(self, folder):
        super().__init__()
        self._folder = folder

    def __missing__(self, name):
        schema = loads((self._folder / name).read_bytes())
        validator = jsonschema_rs.validator_for(schema)
        self[name] = found = (validator.is_valid, validator)
        return found
