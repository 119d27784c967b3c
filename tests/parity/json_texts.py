"""A JSON schema, and texts that it decides on."""

SCHEMA = {
    "type": ["object", "array"],
    "required": ["id"],
    "properties": {
        "id": {"pattern": "^ord-[0-9]{2}$"},
        "amount": {"multipleOf": 0.01, "maximum": 1e30},
        "lines": {"items": {"$ref": "line.json"}},
    },
    "propertyNames": {"maxLength": 9},
    "items": {"maxItems": 3},
}
LINE = {"type": "object", "additionalProperties": {"type": "integer"}}
TEXTS = [
    b'{"id": "ord-12"}', b'{"id": "ord-1"}', b'{"id": "ord-12", "amount": 19.99}', b'{"id": 7, "amount": 1e400}',
    b'{"id": 7, "amount": 0.001}', b'{"id": 7, "lines": [{"a": 1}, {"a": "x"}]}', b'{"id": 7, "lines": [1]}',
    b'{"id": 7, "id": "x"}', b'{"id": "x", "id": 7}', b'{"id": 1, "a very long name": 1}', b"[" * 127 + b"]" * 127,
    b"[" * 128 + b"]" * 128, b"[[1, 2, 3], [1, 2, 3, 4]]", b'{"id": "\\ud800"}', b'{"id": 18446744073709551616}',
]  # fmt: skip
