"""`buf/validate/validate.proto` where a schema imports it and no reference has it."""

from base64 import b64encode

import pytest
from google.protobuf import descriptor_pb2

from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.payloads.protobuf.buf_validate import (
    NAME,
    is_missing,
    serialized,
)

IMPORTS = f'syntax = "proto3"; import "{NAME}"; message A {{ }}'


def described(*imports):
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", dependency=imports)
    return b64encode(file.SerializeToString()).decode()


@pytest.mark.parametrize(
    ("text", "references", "expected"),
    [
        (IMPORTS, {}, True),
        (IMPORTS, {NAME: "of the registry"}, False),
        ('syntax = "proto3"; message A { }', {}, False),
        ('syntax = "proto3"; import "b.proto"; message A { }', {"b.proto": IMPORTS}, True),
        (described(NAME), {}, True),
        (described("b.proto"), {}, False),
    ],
)
def test_it_is_missing_if_no_reference_has_it(text, references, expected):
    assert expected == is_missing(SchemaSource("PROTOBUF", text, references))


def test_it_is_that_of_the_installed_package():
    file = descriptor_pb2.FileDescriptorProto.FromString(serialized())
    assert (file.name, file.package) == (NAME, "buf.validate")
    assert {entry.name for entry in file.extension} >= {"message", "field", "oneof", "predefined"}
