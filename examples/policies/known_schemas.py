"""KIP-940, a batch at a time with Arrow: require that values begin with the id of a known schema.

    record.validation.policy.class.name=known_schemas.KnownSchemas
    topics.orders.record.validation.policy=7,8,12

The topic's key lists the ids. A value begins with a zero byte and the id in four bytes, as
serializers with a schema registry write it. Tombstones are accepted. One call judges the whole
batch. On Spark, the columns are not copied.
"""

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from penstock.policy import InvalidRecordException, RecordIntrospectionHints, RecordValidationPolicy

_PREFIX_BYTES = 5
_MESSAGE = "the value does not begin with the id of a known schema"


class KnownSchemas(RecordValidationPolicy):
    """Refuses values that were written with another schema, or without a schema."""

    def get_hints(self):
        return RecordIntrospectionHints(
            access_headers=False, access_key_bytes=0, access_value_bytes=_PREFIX_BYTES
        )

    def validate(self, topic, record):
        if record.value is not None and record.value not in _prefixes(topic.validation_policy):
            raise InvalidRecordException(_MESSAGE)

    def validate_batch(self, topic, batch):
        known = pc.is_in(batch.values_arrow, _known(topic.validation_policy))
        if known.false_count:
            for position, is_known in enumerate(known.to_pylist()):
                if not is_known:
                    yield position, _MESSAGE


@lru_cache
def _prefixes(ids):
    return [bytes([0]) + int(number).to_bytes(4, "big") for number in ids.split(",")]


@lru_cache
def _known(ids):
    return pa.array([None, *_prefixes(ids)], pa.binary())  # a null is a tombstone
