"""Schema files: valid files, refused files with their messages, and no file outside the folder."""

import os
import urllib.request

import pytest

from penstock.policies.json_schema.check import compile_check
from penstock.policies.json_schema.files import MAX_BYTES, SchemaError, SchemaFiles
from tests.policies.json_schema.schemas import Judged, compiled, write

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def judged(folder, implementation=None):
    files = SchemaFiles(folder, "schema.json")
    if implementation is None:
        return Judged(compile_check(files, formats=False))
    return Judged(compiled(files, implementation))


def objection(folder, name="schema.json"):
    """The error of a schema, or None."""
    try:
        compile_check(SchemaFiles(folder, name), formats=False)
    except SchemaError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "schema.json is not JSON: Expecting property name"),
        ('{"maximum": NaN}', "schema.json is not JSON: NaN is not a number"),
        ('{"type": "string", "type": "array"}', "schema.json has 'type' twice in one object"),
        ("[]", "schema.json is not a schema, which is an object, true or false"),
        ("\ufeff{}", "schema.json is not JSON: "),
        ('{"$schema": "http://json-schema.org/draft-03/schema#"}', "schema.json: $schema must be one of http"),
        ('{"$schema": 7}', "schema.json: $schema must be one of http"),
        ('{"type": "strin"}', 'schema.json is not a valid schema at /type: "strin" is not valid under'),
        ('{"pattern": "("}', '"(" is not a '),
        ('{"$ref": "no.json"}', "schema.json: $ref to no.json: no.json: the folder of schemas does not have this file"),
        ('{"$ref": "#/$defs/no"}', "/$defs/no"),
        ('{"items": {"$ref": "#/allOf/00"}, "allOf": [{}]}', "/allOf/00"),
        ('{"items": {"$ref": "#/allOf/+0"}, "allOf": [{}]}', "/allOf/+0"),
        ('{"items": {"$ref": "#/$defs/%+1"}, "$defs": {"\\u0001": {}}}', "/$defs/%+1"),
        ('{"$ref": "http://localhost:9/x.json"}', "no file in the folder of schemas has this $id"),
        ('{"$ref": "../../../etc/passwd"}', "$ref to etc/passwd: etc/passwd: the folder of schemas does not have this file"),
        ('{"$ref": "file:///etc/passwd"}', "etc/passwd: the folder of schemas does not have this file"),
        ('{"$ref": "file:///%2e%2e/%2e%2e/etc/passwd"}', "etc/passwd"),
        ('{"$ref": "%2e%2e%2fother"}', "is outside the folder of schemas"),
        ('{"$ref": "#"}', "leads back to itself without a step into the document"),
        ("[" * 100_000, "schema.json is not JSON"),
        ('{"allOf":[' * 400 + "{}" + "]}" * 400, "schema.json"),
        ('{"$comment": "' + "x" * MAX_BYTES + '"}', f"schema.json is larger than {MAX_BYTES} bytes"),
    ],
    ids=range(23),
)  # fmt: skip
def test_an_unusable_schema_is_refused_with_a_reason(tmp_path, text, message):
    folder = tmp_path / "schemas"
    folder.mkdir()
    (tmp_path / "other").write_text("{}")
    write(folder, schema=text)

    assert message in objection(folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.json", "no.json: the folder of schemas does not have this file"),
        ("../other.json", "../other.json is outside the folder of schemas"),
        ("/etc/passwd", "/etc/passwd is outside the folder of schemas"),
        ("link.json", "link.json is outside the folder of schemas"),
        ("inner", "inner is not a file"),
        ("a\0b", "cannot be read"),
        ("pipe", "pipe is not a file"),
    ],
)
def test_a_name_outside_the_folder_is_refused(tmp_path, name, message):
    folder = tmp_path / "schemas"
    (folder / "inner").mkdir(parents=True)
    write(tmp_path, other={})
    (folder / "link.json").symlink_to(tmp_path / "other.json")
    os.mkfifo(folder / "pipe")

    assert message in objection(folder, name)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"items": 3}, "schema.json: $ref to b.json: it is not a valid schema at /items: 3 is not"),
        ({"type": "strin"}, "schema.json: $ref to b.json: it is not a valid schema at /type: "),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "$ref to b.json: it: $schema must"),
        ({"pattern": "(a"}, '"(a" is not a '),
        ("{", "schema.json: $ref to b.json: b.json is not JSON"),
        ({"$ref": "c.json"}, "$ref to c.json: c.json: the folder of schemas does not have this file"),
    ],
)  # fmt: skip
def test_the_files_that_are_referred_to_are_schemas_themselves(tmp_path, other, message):
    write(tmp_path, schema={"properties": {"a": {"$ref": "b.json"}}}, b=other)

    assert message in objection(tmp_path)


def test_references_lead_to_files_of_the_folder(tmp_path):
    (tmp_path / "inner").mkdir()
    write(tmp_path, schema={"$ref": "inner/a.json#/$defs/x"}, b={"type": "integer"})
    write(tmp_path / "inner", a={"$defs": {"x": {"$ref": "../b.json"}}})
    check = judged(tmp_path)

    assert check.objection(b"1") is None
    assert check.objection(b'"a"', "value") == "the value must be of type integer"


def test_a_file_is_found_by_the_id_that_it_has(tmp_path):
    (tmp_path / "inner").mkdir()
    write(tmp_path, schema={"$id": "https://x.org/s/order", "items": {"$ref": "sku"}}, broken="{")
    write(tmp_path / "inner", a={"$id": "https://x.org/s/sku", "type": "integer"})
    check = judged(tmp_path)

    assert check.objection(b'["a"]', "value") == "the value at /0 must be of type integer"


def test_the_links_of_a_mounted_folder_are_followed(tmp_path):
    """As Kubernetes mounts a ConfigMap."""
    (tmp_path / "..data").mkdir()
    write(tmp_path / "..data", schema={})
    (tmp_path / "schema.json").symlink_to("..data/schema.json")

    assert objection(tmp_path) is None


def test_nothing_is_fetched(tmp_path, monkeypatch):
    """A unit test that opens a connection fails in any case; here, the usual function fails, too."""
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_: pytest.fail("fetched"))
    for reference in ("http://127.0.0.1:9/x", "https://example.com/x", "ftp://example.com/x"):
        write(tmp_path, schema={"$ref": reference})
        assert "schemas are never fetched" in objection(tmp_path)


def test_the_drafts_metaschemas_are_known(tmp_path):
    write(tmp_path, schema={"$schema": DRAFT_7, "$ref": DRAFT_7})
    check = judged(tmp_path)

    assert check.objection(b'{"type": 3}', "value") is not None
    assert check.objection(b'{"type": "string"}', "value") is None


def test_a_file_that_names_no_draft_is_of_that_of_the_schema(tmp_path):
    """Read as 2020-12, `items` could not be a list and `additionalItems` would say nothing."""
    other = {"items": [{"type": "integer"}], "additionalItems": False}
    write(tmp_path, schema={"$schema": DRAFT_7, "$ref": "b.json"}, b=other)
    check = judged(tmp_path)

    for text, fits in ((b"[1]", True), (b'["a"]', False), (b"[1, 2]", False)):
        assert (check.objection(text) is None) == fits


def test_files_may_be_of_several_drafts(tmp_path, implementation):
    other = {"$schema": DRAFT_7, "items": [{"type": "integer"}]}
    write(tmp_path, schema={"items": {"$ref": "b.json"}}, b=other)
    check = judged(tmp_path, implementation)

    assert check.objection(b"[[1, 2]]") is None
    assert check.objection(b'[["a"]]') == "the value at /0/0 must be of type integer"


@pytest.mark.parametrize(
    "uri",
    [
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft-07/schema#",
    ],
)
def test_a_draft_is_known_by_each_way_to_write_it(tmp_path, uri, implementation):
    write(tmp_path, schema={"$schema": uri, "items": [{"type": "integer"}]})

    assert judged(tmp_path, implementation).objection(b'["a"]') is not None


def test_a_custom_metaschema_is_a_file(tmp_path, implementation):
    base = "https://json-schema.org/draft/2020-12"
    vocabulary = {f"{base}/vocab/core": True, f"{base}/vocab/applicator": True}
    meta = {"$id": "https://acme.com/meta", "$schema": f"{base}/schema", "$vocabulary": vocabulary}
    schema = {
        "$schema": "https://acme.com/meta",
        "properties": {"a": {"type": "string"}, "b": False},
    }
    write(tmp_path, meta=meta, schema=schema)
    check = judged(tmp_path, implementation)

    assert check.objection(b'{"a": 1}') is None  # types are of another vocabulary
    assert check.objection(b'{"b": 1}') == "the value at /b may not be there"


def test_a_nested_relative_id_is_joined_once(tmp_path, implementation):
    write(
        tmp_path,
        schema={
            "$id": "https://acme.com/a/root.json",
            "items": {"$ref": "inner/"},
            "$defs": {
                "inner": {
                    "$id": "inner/",
                    "$ref": "one.json",
                    "$defs": {"one": {"$id": "one.json", "type": "integer"}},
                }
            },
        },
    )

    assert judged(tmp_path, implementation).objection(b'["a"]') is not None
    assert judged(tmp_path, implementation).objection(b"[1]") is None


def test_look_around_may_be_used(tmp_path, implementation):
    write(tmp_path, schema={"pattern": "^(?!x)[a-z]+$"})
    check = judged(tmp_path, implementation)

    assert check.objection(b'"abc"') is None
    assert check.objection(b'"xbc"') == 'the value must match "^(?!x)[a-z]+$"'


def test_look_around_that_goes_back_without_an_end_refuses(tmp_path, implementation):
    write(tmp_path, schema={"pattern": "^(?=(a+)+$)(a+)+$"})
    check = judged(tmp_path, implementation)

    assert check.objection(b'"' + b"a" * 10_000 + b'b"') is not None
