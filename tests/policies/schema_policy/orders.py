"""Schemas of orders, and values in their formats."""

import io
import struct
from typing import Any

import fastavro

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
ORDER_2 = ORDER | {"fields": [*ORDER["fields"], {"name": "to", "type": "string", "default": ""}]}
JSON_ORDER = {
    "title": "order",
    "type": "object",
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
}


def avro(value: object, schema: Any = ORDER) -> bytes:
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, fastavro.parse_schema(schema), value)
    return encoded.getvalue()


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\x00" + struct.pack(">i", schema_id) + payload


CONTRACT = {
    "domainRules": [
        {
            "name": "positive",
            "kind": "CONDITION",
            "mode": "WRITE",
            "type": "CEL",
            "expr": "message.id > 0",
            "doc": "ids count from one",
        }
    ]
}
