"""Which compiler a schema gets, and what none of them sees."""

import sys

import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads import MAX_BYTES, compile_schema
from penstock.policies.schema_policy.payloads.avro.compile import AvroSchema
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.payloads.json import JsonPayloads


def test_a_schema_is_compiled_by_its_type():
    assert isinstance(compile_schema(SchemaSource("AVRO", '"int"')), AvroSchema)
    assert isinstance(compile_schema(SchemaSource("JSON", "{}")), JsonPayloads)


def test_another_type_cannot_be_used():
    with pytest.raises(
        InvalidSchemaError,
        match=r"^the schema's type is not supported: it must be one of AVRO, JSON, PROTOBUF",
    ):
        compile_schema(SchemaSource("XML", "<a/>"))


@pytest.mark.parametrize("character", ["a", "é", "\ud800"])
def test_size_is_bounded_in_bytes_and_with_references(character):
    half = character * (MAX_BYTES // 2 // len(character.encode(errors="surrogatepass")))
    with pytest.raises(InvalidSchemaError, match="is larger than 8388608 bytes"):
        compile_schema(SchemaSource("AVRO", half, {"name": half}))


def test_a_missing_package_is_named_with_how_to_install_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "penstock.policies.schema_policy.payloads.avro.compile")
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ValueError, match="there is no module fastavro: pip install 'penstock"):
        compile_schema(SchemaSource("AVRO", '"int"'))
