"""KIP-940, a batch at a time with Arrow: values begin with the id of a schema that is known.

    record.validation.policy.class.name=known_schemas.KnownSchemas
    topics.orders.record.validation.policy=7,8,12

The value of the topic's key lists the ids. A value begins with a zero byte and the id in four
bytes, as serializers write it that work with a schema registry. Tombstones pass. One call looks at
the whole batch, and on Spark nothing is copied out of its columns.
"""

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from penstock.policy import InvalidRecordException, RecordIntrospectionHints, RecordValidationPolicy

_PREFIX_BYTES = 5
_MESSAGE = "the value does not begin with the id of a known schema"


class KnownSchemas(RecordValidationPolicy):
    """Refuses values that were written with another schema, or with none."""

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
            yield from ((n, _MESSAGE) for n, one in enumerate(known.to_pylist()) if not one)


@lru_cache
def _prefixes(ids):
    return [bytes([0]) + int(one).to_bytes(4, "big") for one in ids.split(",")]


@lru_cache
def _known(ids):
    return pa.array([None, *_prefixes(ids)], pa.binary())  # a null is a tombstone
