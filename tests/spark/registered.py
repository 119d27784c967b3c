"""Schemas of a registry, and records that have them."""

import io
import json
import struct

import fastavro

from tests.policies.schema_policy.fake_registry import FakeRegistry

SECRET = "078-05-1120"
PASSWORD = "registry-secret"
USER = f"me:{PASSWORD}"
AVRO = {
    "type": "record",
    "name": "User",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "ssn", "type": "string", "confluent:tags": ["PII"]},
    ],
}


def user(schema_id: int, number: int, ssn: str = SECRET) -> bytes:
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, fastavro.parse_schema(AVRO), {"id": number, "ssn": ssn})
    return b"\x00" + struct.pack(">i", schema_id) + encoded.getvalue()


def register(registry: FakeRegistry, topic: str) -> int:
    """Register the schema of a topic's values; return its id."""
    return registry.register(f"{topic}-value", json.dumps(AVRO))


def contents(schema_id: int) -> tuple[bytes | None, ...]:
    """Values: two good values, between them a bad value, and a tombstone."""
    return user(schema_id, 1), user(schema_id, 2)[:-1], user(schema_id, 3), None


def settings(name: str, **more: object) -> dict[str, object]:
    """The keys that make a policy of this name judge topics whose names begin with `in-`."""
    return {
        "record.validation.policy.class.name": f"policies.{name}",
        "topics.in-*.confluent.value.schema.validation": "true",
        **{key.replace("_", "."): value for key, value in more.items()},
    }
