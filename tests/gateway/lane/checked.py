"""Batches that are judged by JSON Schemas, and their inline and native judges."""

import json

from penstock.configuration import load_configuration
from penstock.engine.inline import InlineJudge
from penstock.engine.modes.marks import NAMES as MARKS
from penstock.engine.plans.declared import classes_here
from penstock.policy import Header, Record
from tests.gateways import write_configuration
from tests.kafka.records.encoding import encode_batch

CLASS = "penstock.policies.JsonSchema"
SCHEMAS = ("first.json", "key=key.json,value=second.json")
"""Values of a topic's `record.validation.policy`."""
_FILES = {
    "first.json": {
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": "integer"}, "tags": {"uniqueItems": True}},
    },
    "second.json": {"anyOf": [{"required": ["name"]}, {"required": ["id"]}], "maxProperties": 2},
    "key.json": {"type": "string", "pattern": "^k[0-9]*$"},
}
_VALUES = (b'{"id": 1}', b'{"id": 2, "name": "n"}', b'{"name": "n", "tags": [1, 2]}', b"{}",
           b'{"id": 3, "tags": [1, 1], "x": "\\u00e9"}', b"nothing", None)  # fmt: skip
_KEYS = (b'"k1"', b'"k"', b'"x"', None)
_POOLS = (
    ((b'{"id": 1}', b'{"id": 2, "name": "n"}'), _KEYS[:2]),
    ((b'{"id": 3}',), _KEYS),
    ((b'{"name": "n"}',), _KEYS[:2]),
    (_VALUES, _KEYS),
)
"""Values and keys that fit both schemas, the first, the second, or perhaps none."""


def inline_judge(folder, clock=lambda: 0.0, inline_max_bytes=32 * 1024):
    """Return a judge that accepts batches inline, at any speed."""
    for name, schema in _FILES.items():
        (folder / name).write_text(json.dumps(schema))
    properties = {
        "record.validation.policy.class.name": CLASS,
        "policy.inline.max.bytes": str(inline_max_bytes),
    }
    for number, text in enumerate(SCHEMAS):
        properties[f"topics.t{number}.record.validation.policy"] = text
    file = write_configuration(folder, "127.0.0.1:1", 9, properties, "")
    configuration = load_configuration(
        file, read_declared=lambda *_: (), describe_classes=classes_here
    ).policies
    return InlineJudge(configuration, clock=clock, cpu_clock=clock)


def some_records(chance, most=4):
    """Return random records, of which none or all may be accepted."""
    ((values, keys),) = chance.choices(_POOLS, (6, 2, 2, 1))
    headers = (Header("h", b"1"),) if chance.random() < 0.2 else ()
    if chance.random() < 0.05:
        headers = (*headers, Header(chance.choice((*MARKS, "__mark.x")), None))
    return [
        Record(number, chance.choice(keys), chance.choice(values), headers)
        for number in range(chance.randrange(1, most))
    ]


def large_records(chance):
    """Return records of up to a megabyte that native threads judge in slices."""
    padding = chance.choice((b"x" * 9_000, chance.randbytes(4_000).hex().encode()))
    records = some_records(chance, most=120)
    for number in range(len(records)):
        value = records[number].value
        if value is not None and value.endswith(b"}") and len(value) > 2:
            padded = b'%s, "padding": "%s"}' % (value[:-1], padding)
            records[number] = records[number]._replace(value=padded)
    return records


def checked_records(chance, *, numbered=0.4, large=0.0):
    """Return a batch; it may be compressed, of a producer with sequence numbers, or broken.

    `numbered` is the share of those with sequence numbers, `large` that of large batches.
    """
    codec = chance.randrange(1, 5) if chance.random() < 0.3 else 0
    producer = {}
    if chance.random() < numbered:
        sequence = chance.randrange(20)
        producer = {"producer_id": chance.choice((7, 8)), "producer_epoch": 0,
                    "base_sequence": sequence}  # fmt: skip
    records = large_records(chance) if chance.random() < large else some_records(chance)
    data = bytearray(encode_batch(records, codec=codec, **producer))
    if chance.random() < 0.03:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)
