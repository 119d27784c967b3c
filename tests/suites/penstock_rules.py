"""Runs Penstock on the cases that Confluent's client for Python gets."""

from functools import cache
from io import BytesIO
from typing import Any

import fastavro
import orjson
from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads import compile_schema
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.registered import RegisteredSchema
from penstock.policies.schema_policy.rules.rules import compile_rules
from tests.policies.schema_policy.messages import Messages
from tests.suites.rule_cases import Case, avro_schema, json_schema, protobuf_file


def answer(case: Case) -> str:
    """Return why a value is refused; empty where it is not."""
    text, compiled, payload = _of_format(case)
    rules = [
        {key: value for key, value in rule.items() if value is not None} for rule in case.rules
    ]
    registered = RegisteredSchema(case.format, text, rule_set={"domainRules": rules})
    try:
        ready = compile_rules(registered, compiled, SchemaSource(case.format, text))
    except InvalidSchemaError as error:
        return f"unusable: {error}"
    return ready.objection(compiled.decode(payload)) or ""


def _of_format(case: Case) -> tuple[str, Any, bytes]:
    """Return a schema, the same compiled, and the value as a payload."""
    if case.format == "AVRO":
        text = avro_schema(case.within)
        out = BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(orjson.loads(text)), case.value)
        return text, _compiled("AVRO", text), out.getvalue()
    if case.format == "JSON":
        text = json_schema(case.within)
        return text, _compiled("JSON", text), orjson.dumps(case.value)
    of = _message(case.within)
    return "", Messages(of), b"\0" + of(**case.value).SerializeToString()


@cache
def _compiled(kind: str, text: str) -> Any:
    return compile_schema(SchemaSource(kind, text))


@cache
def _message(within: tuple[str, str] | None) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(protobuf_file(within, "shop"))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
