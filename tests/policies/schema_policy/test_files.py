"""Files that refer to themselves, to others without end, and to files outside the folder."""

import json
from uuid import UUID

import pytest

from penstock.policies import SchemaPolicy
from penstock.policies.schema_policy import files
from penstock.policies.schema_policy.files import compile_file
from penstock.policies.schema_policy.settings import SchemaFileName
from penstock.policy import InvalidRecordException, RecordProxy, TopicIdPartition, TopicMetadata
from penstock.policy.testing import judge

pytestmark = pytest.mark.system
PROTO3 = 'syntax = "proto3"; '


def refused(folder, name, message=None):
    with pytest.raises(ValueError, match=r"^schema\.file=") as raised:
        compile_file(folder, SchemaFileName(name, message))
    return str(raised.value)


def test_json_schemas_may_refer_to_themselves_and_to_each_other(tmp_path):
    (tmp_path / "a.json").write_text(
        json.dumps({"properties": {"a": {"$ref": "a.json"}, "b": {"$ref": "b.json"}}})
    )
    (tmp_path / "b.json").write_text(
        json.dumps({"type": "object", "properties": {"a": {"$ref": "a.json"}}})
    )
    schema = compile_file(tmp_path, SchemaFileName("a.json", None))
    good, bad = b'{"a": {"b": {"a": {"b": {}}}}}', b'{"a": {"b": {"a": {"b": 1}}}}'
    assert [position for position, _ in schema.objections([good, bad])] == [1]


def test_proto_files_may_not(tmp_path):
    (tmp_path / "a.proto").write_text(PROTO3 + '\nimport "b.proto"; message A { }')
    (tmp_path / "b.proto").write_text(PROTO3 + '\nimport "a.proto"; message B { }')
    assert "recursively imports itself" in refused(tmp_path, "a.proto", "A")


@pytest.mark.parametrize("link", ["up.avsc", "round.avsc", "folder/up.avsc"])
def test_a_link_leads_to_no_file_outside_the_folder(tmp_path, link):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "up.avsc").write_text('"int"')
    (inside / "up.avsc").symlink_to(outside / "up.avsc")
    (inside / "round.avsc").symlink_to("round.avsc")
    (inside / "folder").symlink_to(outside)
    assert (
        "is outside" in (reason := refused(inside, link)) or "is not the name of a file" in reason
    )


def test_a_link_within_the_folder_is_followed(tmp_path):
    (tmp_path / "of-today").mkdir()
    (tmp_path / "of-today" / "a.avsc").write_text('"boolean"')
    (tmp_path / "a.avsc").symlink_to("of-today/a.avsc")
    schema = compile_file(tmp_path, SchemaFileName("a.avsc", None))
    assert list(schema.objections([b"\1"])) == []


def test_all_files_together_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_MAX_BYTES", 2000)
    (tmp_path / "a.json").write_text(
        json.dumps({"allOf": [{"$ref": "b.json"}, {"$ref": "c.json"}]})
    )
    for name in ("b.json", "c.json"):
        (tmp_path / name).write_text(json.dumps({"title": "x" * 1500}))
    assert "a.json and its references are larger than" in refused(tmp_path, "a.json")


def test_imports_are_found_in_time_that_the_text_bounds(tmp_path):
    (tmp_path / "b.proto").write_text(PROTO3 + "message B { int32 b = 1; }")
    # Each line once more for each line before it would take hours.
    text = PROTO3 + "\n" * 2_000_000 + ' import  "b.proto" ;message A { B b = 1; }'
    (tmp_path / "a.proto").write_text(text)
    schema = compile_file(tmp_path, SchemaFileName("a.proto", "A"))
    assert [position for position, _ in schema.objections([b"\x0a\2\x08\1", b"\x0a\2"])] == [1]


@pytest.mark.parametrize(("formats", "refused"), [("true", True), ("false", False)])
def test_the_key_of_json_schema_decides_whether_formats_are_judged(
    monkeypatch, tmp_path, formats, refused
):
    (tmp_path / "a.json").write_text('{"format": "date"}')
    configs = {"json.schema.formats": formats}
    topic = {"confluent.value.schema.validation": "true", "schema.file": "a.json"}
    policy = SchemaPolicy()
    policy.use_folder(tmp_path)
    policy.configure(configs)
    metadata = TopicMetadata(TopicIdPartition(UUID(int=1), "orders", 0), "", topic)
    record = RecordProxy((), None, b'"x"')
    if refused:
        with pytest.raises(InvalidRecordException, match="must be of format"):
            policy.validate(metadata, record)
    else:
        policy.validate(metadata, record)


RULES_OF_FILES = {
    "confluent.value.schema.validation": "true",
    "schema.validation.level": "rules",
}
BUF_ORDER = """
syntax = "proto3"; package shop; import "buf/validate/validate.proto";
message Other { }
message Order { int64 id = 1 [(buf.validate.field).int64.gt = 0]; }
"""


def judged(monkeypatch, folder, file, values, level="rules"):
    topic_configs = RULES_OF_FILES | {"schema.file": file, "schema.validation.level": level}
    monkeypatch.chdir(folder)
    found = judge(SchemaPolicy, values, topic="orders", topic_configs=topic_configs)
    return [verdict.message for verdict in found]


def test_rules_within_a_proto_file_are_judged_by_at_the_level_of_rules(tmp_path, monkeypatch):
    (tmp_path / "order.proto").write_text(BUF_ORDER)
    values = [b"\x08\x01", b"", b"\x08", None]
    assert judged(monkeypatch, tmp_path, "order.proto#shop.Order", values) == [
        None,
        (
            "the value does not fit schema order.proto: "
            'rule "int64.gt" failed at id: must be greater than 0'
        ),
        "the value does not fit schema order.proto: Protobuf: ends in the middle of a field",
        None,
    ]
    assert judged(monkeypatch, tmp_path, "order.proto#shop.Order", values[:2], "payload") == [
        None,
        None,
    ]


def test_rules_within_other_files_are_judged_by_at_the_level_of_rules(tmp_path, monkeypatch):
    rules = [{"name": "small", "expr": "this < 10"}]
    schema = {"properties": {"id": {"type": "integer", "confluent:rules": rules}}}
    (tmp_path / "order.json").write_text(json.dumps(schema))
    first, second = judged(monkeypatch, tmp_path, "order.json", [b'{"id": 1}', b'{"id": 11}'])
    assert first is None
    assert 'rule "small" failed at $.id: this < 10' in second


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("order.proto#shop.Order", BUF_ORDER.replace("int64.gt = 0", "string.min_len = 1")),
        (
            "order.json",
            json.dumps(
                {"properties": {"a": {"confluent:rules": [{"name": "r", "expr": "this <"}]}}}
            ),
        ),
    ],
)
def test_rules_within_a_file_that_cannot_be_used_are_an_error_at_start(tmp_path, file, text):
    (tmp_path / file.partition("#")[0]).write_text(text)
    policy = SchemaPolicy()
    policy.use_folder(tmp_path)
    policy.configure({})
    with pytest.raises(ValueError, match=r"^schema\.file=order\.\w+: .*rule"):
        policy.prepare_topic("orders", RULES_OF_FILES | {"schema.file": file})
