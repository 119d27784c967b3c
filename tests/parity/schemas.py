"""Good and bad records of topics with schemas, for each type of schema.

Unknown ids are few: a policy worker requests a hundred of them, and then postpones.
"""

import io
import json
import random
import struct
import uuid

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from penstock.policy import Header, Record
from tests.kafka.records.encoding import CODECS

KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"
_UNKNOWN = (0, 2**31 - 1, 2**32 - 1, 900, 901)
_NO_GUID = uuid.UUID(int=7)
_TEXTS = ("", "a", "ord-12", "\u00e4\U0001f600", "\u0000\u2028", "x" * 300)


class Schema:
    """A schema of the subject that a topic's values, or keys, have to be of.

    Attributes:
        schema_type: As a registry names it.
        text: The schema.
        rule_set: What a data contract has besides, or None.
    """

    schema_type = "AVRO"
    text = ""
    rule_set = None

    def payload(self, chance):
        """Return one that fits; what follows the id."""
        raise NotImplementedError


class Avro(Schema):
    text = json.dumps({
        "type": "record", "name": "Order", "namespace": "shop", "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["A", "B"]}},
            {"name": "parts", "type": {"type": "array", "items": ["double", "boolean", "bytes"]}},
            {"name": "next", "type": ["null", "Order"], "default": None},
            {"name": "more", "type": {"type": "map", "values": "int"}},
        ],
    })  # fmt: skip
    rule_set = {
        "domainRules": [
            {"name": "positive", "kind": "CONDITION", "mode": "WRITE", "type": "CEL",
             "expr": "message.id >= 0"}
        ]
    }  # fmt: skip

    def __init__(self):
        self._schema = fastavro.parse_schema(json.loads(self.text))

    def payload(self, chance):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._schema, self._order(chance, 3))
        return out.getvalue()

    def _order(self, chance, depth):
        return {
            "id": chance.choice((0, 1, 7, 2**62)) if chance.random() < 0.95 else -1,
            "note": chance.choice((None, *_TEXTS)),
            "state": chance.choice("AB"),
            "parts": [chance.choice((1.5, True, b"\xff")) for _ in range(chance.randrange(3))],
            "next": self._order(chance, depth - 1) if depth and chance.random() < 0.5 else None,
            "more": {chance.choice(_TEXTS): 7 for _ in range(chance.randrange(3))},
        }


class Json(Schema):
    schema_type = "JSON"
    text = json.dumps({
        "type": "object", "required": ["id"], "additionalProperties": {"type": ["null", "array"]},
        "properties": {"id": {"type": "integer"}, "note": {"maxLength": 9, "type": "string"}},
    })  # fmt: skip

    def payload(self, chance):
        document = {"id": chance.randrange(2**40), "note": chance.choice(_TEXTS[:5])}
        if chance.random() < 0.5:
            document["more"] = [1, 2.5, None, {}]
        return json.dumps(document, ensure_ascii=chance.random() < 0.5).encode()


class Protobuf(Schema):
    """The message is the second of its file, so its index takes two bytes."""

    schema_type = "PROTOBUF"
    text = """
        syntax = "proto2";
        package shop;
        message Other { }
        message Order {
          required int64 id = 1;
          optional string note = 2;
          repeated Order parts = 3;
          optional State state = 4;
          enum State { A = 0; B = 1; }
          optional group Box = 5 { optional bytes inside = 1; }
          repeated double weights = 6 [packed = true];
        }
    """

    def __init__(self):
        kinds = descriptor_pb2.FieldDescriptorProto
        file = descriptor_pb2.FileDescriptorProto(
            name="shop.proto", package="shop", syntax="proto2"
        )
        order = file.message_type.add(name="Order")
        order.enum_type.add(name="State").value.add(name="A", number=0)
        order.enum_type[0].value.add(name="B", number=1)
        order.nested_type.add(name="Box").field.add(
            name="inside", number=1, type=kinds.TYPE_BYTES, label=1
        )
        for number, (name, kind, label, of) in enumerate(
            [
                ("id", kinds.TYPE_INT64, kinds.LABEL_REQUIRED, None),
                ("note", kinds.TYPE_STRING, kinds.LABEL_OPTIONAL, None),
                ("parts", kinds.TYPE_MESSAGE, kinds.LABEL_REPEATED, ".shop.Order"),
                ("state", kinds.TYPE_ENUM, kinds.LABEL_OPTIONAL, ".shop.Order.State"),
                ("box", kinds.TYPE_GROUP, kinds.LABEL_OPTIONAL, ".shop.Order.Box"),
                ("weights", kinds.TYPE_DOUBLE, kinds.LABEL_REPEATED, None),
            ],
            1,
        ):
            order.field.add(name=name, number=number, type=kind, label=label, type_name=of)
        order.field[-1].options.packed = True
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        self._order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))

    def payload(self, chance):
        return b"\x02\x02" + self._message(chance, 3).SerializeToString()

    def _message(self, chance, depth):
        message = self._order(id=chance.choice((-1, 0, 2**62)))
        if chance.random() < 0.7:
            message.note = chance.choice(_TEXTS)
        if chance.random() < 0.5:
            message.state = chance.randrange(2)
        if chance.random() < 0.3:
            message.box.inside = b"\xff\x00"
            message.weights.extend([1.5, float("nan")])
        if depth and chance.random() < 0.5:
            message.parts.append(self._message(chance, depth - 1))
        return message


TYPES = {"Avro": Avro, "JSON": Json, "Protobuf": Protobuf}
TOPIC_CONFIGS = {
    "topics.parity-*.confluent.value.schema.validation": "true",
    "topics.parity-*.confluent.key.schema.validation": "true",
    "topics.parity-*.schema.validation.level": "rules",
}


class Generator:
    """Records of a registry's schema, many of them spoiled."""

    def __init__(self, registry, name, topics, seed):
        """Register the schemas.

        Args:
            registry: A `FakeRegistry`.
            name: A key of `TYPES`.
            topics: The topics that the records will be in.
            seed: The seed of the generated records.
        """
        self._chance = random.Random(seed)
        self._schema = TYPES[name]()
        self._key = Json() if name == "Avro" else Avro()
        known = {}
        for topic in topics:
            for side, schema in (("value", self._schema), ("key", self._key)):
                subject = f"{topic}-{side}"
                known[side] = registry.register(
                    subject, schema.text, schema.schema_type, rule_set=schema.rule_set
                )
        elsewhere = registry.register("elsewhere", '"string"')
        self._ids = {
            side: (schema_id, known["key"], elsewhere) for side, schema_id in known.items()
        }
        self._guids = {
            schema_id: uuid.UUID(registry.guid(schema_id))
            for schema_id in (*known.values(), elsewhere)
        }

    def record(self, number, now_ms):
        headers = [Header("n", b"%d" % number)]
        key = self._framed("key", self._key, KEY_HEADER, headers)
        value = self._framed("value", self._schema, VALUE_HEADER, headers)
        return Record(now_ms + number % 1000, key, value, tuple(headers))

    def codec(self):
        return self._chance.choice(list(CODECS))

    def _framed(self, side, schema, header, headers):
        chance = self._chance
        scale = 1.0 if side == "value" else 0.2  # the key's objection hides that to the value
        if chance.random() < 0.1 * scale:
            return chance.choice((None, None, b"", b"\x00\x00\x00", b"{}"))
        payload = schema.payload(chance)
        if chance.random() < 0.4 * scale:
            payload = self._spoiled(payload)
        ids = self._ids[side]
        schema_id = chance.choice(ids) if chance.random() < 0.2 * scale else ids[0]
        is_known = chance.random() > 0.1 * scale
        if chance.random() < 0.2:
            prefix = b"\x01" + (self._guids[schema_id] if is_known else _NO_GUID).bytes
        else:
            prefix = b"\x00" + struct.pack(">I", schema_id if is_known else chance.choice(_UNKNOWN))
        if chance.random() < 0.2:
            headers.append(Header(header, self._in_header(prefix, schema, payload)))
            if chance.random() < 0.1 * scale:
                headers.append(Header(header, chance.choice((None, b"", prefix, prefix[:-1]))))
            return payload[2:] if schema.schema_type == "PROTOBUF" else payload
        return prefix + payload

    def _in_header(self, prefix, schema, payload):
        indexes = payload[:2] if schema.schema_type == "PROTOBUF" else b""
        return prefix + (indexes if self._chance.random() < 0.9 else b"\x02\x08")

    def _spoiled(self, payload):
        chance = self._chance
        match chance.randrange(5):
            case 0:
                return payload[: chance.randrange(len(payload) + 1)]
            case 1:
                return payload + chance.choice((b"\x00", b" ", b"\xff" * 9, payload))
            case 2:
                return chance.randbytes(chance.randrange(12))
            case 3:
                return b"\x02\x02" + chance.choice((b"\x08\x01\x3d\x00", b"\x2b\x2c", b"[" * 130))
            case _:
                changed = bytearray(payload)
                if changed:
                    changed[chance.randrange(len(changed))] = chance.randrange(256)
                return bytes(changed)
