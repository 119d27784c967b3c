"""Schemas of a registry, and records that have them."""

import json
from typing import Any

from tests.gateways import RunningGateway
from tests.kafka.records.encoding import encode_batch, values
from tests.policies.schema_policy.fake_registry import FakeRegistry
from tests.policies.schema_policy.orders import avro, framed
from tests.raw import RawClient, errors, produce_request, produced

SECRET = "4111-1111"
VALIDATION = "confluent.value.schema.validation"
JSON_ORDER = {
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
}


def settings(registry: FakeRegistry, **more: object) -> dict[str, object]:
    """Return a gateway's properties, for topics whose names begin with `judged`."""
    return {
        "record.validation.policy.class.name": "penstock.policies.SchemaPolicy",
        "schema.registry.url": registry.url,
        f"topics.judged*.{VALIDATION}": "true",
        # Gateways of other tests do not know the keys.
        "topic.settings.topic": "__settings_with_schemas",
        "policy.workers": 1,
    } | {key.replace("_", "."): value for key, value in more.items()}


def call(
    running: RunningGateway, topic: str, batches: dict[int, bytes], **options: Any
) -> dict[int, Any]:
    """Produce a batch to each partition; return the responses by partition."""
    with RawClient(running.address, 60) as client:
        request = produce_request([(topic, list(batches.items()))], timeout_ms=60_000, **options)
        found = produced(client.call(request))
    return {index: answer for (_, index), answer in found.items()}


def produce_and_error(
    running: RunningGateway, topic: str, value: bytes | None
) -> tuple[int, str | None]:
    """Produce a single record; return the error code and the text."""
    answer = call(running, topic, {0: encode_batch(values(value))})[0]
    texts = [text for _, text in errors(answer)]
    return answer.error_code, texts[0] if texts else answer.error_message


def order(schema_id: int, number: int = 1, note: str | None = SECRET) -> bytes:
    return framed(schema_id, avro({"id": number, "note": note}))


def text_of(schema: object) -> str:
    return json.dumps(schema)
