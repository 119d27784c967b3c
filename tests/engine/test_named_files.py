"""The content of files that the values of keys name."""

import json
import os

import pytest

from penstock.engine.plans.named_files import NamedFiles


def content(folder, value, **options):
    return NamedFiles([folder]).content(value, **options)


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "schemas"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.json").write_text('{"type": "object"}')
    (folder / "b.json").write_text('{"type": "object"}')
    (folder / "c.json").write_text('{"type": "array"}')
    return folder


def test_a_text_that_names_no_file_counts_as_it_is(place):
    for text in (
        "",
        "a",
        "value.amount > 0",
        "x=y,z",
        "a" * 5000,
        "no.json",
        "http://a.json",
        "..",
    ):
        assert content(place, text) == (text, ())


def test_names_do_not_count_but_content_and_fragments_do(place):
    a, b, c = (content(place, f"{name}.json").text for name in "abc")
    assert a == b == content(place, str(place / "a.json")).text == content(place, "./a.json").text
    assert a != c
    assert content(place, "a.json#x").text == f"{a}#x"
    assert content(place, "key=a.json,value=c.json").text == f"key={a},value={c}"


def test_the_first_folder_that_has_the_file_counts(place):
    (place / "deep" / "c.json").write_text("{}")
    found = NamedFiles([place / "deep", place])
    assert found.content("c.json") == content(place / "deep", "c.json")
    assert found.content("a.json") == content(place, "a.json")


def test_files_outside_the_folder_count_only_where_the_file_names_them(place, tmp_path):
    (tmp_path / "out.json").write_text("{}")
    for name in ("../out.json", str(tmp_path / "out.json")):
        assert content(place, name).text.startswith("sha256:")
        assert content(place, name, anywhere=False).text == name


@pytest.mark.parametrize(
    ("name", "text", "other"),
    [
        ("s.json", '{"items": [{"$ref": "deep/t.json#/a"}]}', "deep/t.json"),
        ("deep/s.json", '{"$ref": "t.json"}', "deep/t.json"),
        ("deep/s.json", '{"$ref": "/t.json"}', "t.json"),
        ("s.json", '{"$id": "http://x/s.json", "$ref": "t.json"}', "deep/with_id.json"),
        ("s.json", '{"$ref": "http://x/t.json#/a"}', "deep/with_id.json"),
        ("s.proto", 'syntax = "proto3";\nimport public "deep/t.proto";\n', "deep/t.proto"),
    ],
)
def test_files_that_a_schema_refers_to_count(place, name, text, other):
    (place / name).write_text(text)
    digests = set()
    for number in range(2):
        (place / other).write_text(json.dumps({"$id": "http://x/t.json", "maximum": number}))
        digests.add(content(place, name).text)
    assert len(digests) == 2


def test_references_in_circles_end_and_those_outside_do_not_count(place, tmp_path):
    (tmp_path / "out.json").write_text("{}")
    (place / "s.json").write_text('{"$ref": "t.json", "a": {"$ref": "../out.json"}}')
    (place / "t.json").write_text('{"$ref": "s.json"}')
    before = content(place, "s.json")
    (tmp_path / "out.json").write_text("[]")
    assert content(place, "s.json") == before


def test_the_schema_of_schemas_is_not_searched(place, monkeypatch):
    (place / "s.json").write_text('{"$schema": "https://json-schema.org/draft/2020-12/schema"}')
    monkeypatch.setattr(NamedFiles, "_by_id", None)
    assert content(place, "s.json").text.startswith("sha256:")


def test_a_folder_counts_by_its_name(place):
    assert content(place, str(place / "deep")).text == "deep"
    assert content(place, "./deep").text == "./deep"


def test_a_pipe_is_not_opened(place):
    os.mkfifo(place / "pipe.json")
    assert content(place, "pipe.json") == ("pipe.json", ())


def test_a_file_that_is_too_large_is_named(place, monkeypatch):
    monkeypatch.setattr("penstock.engine.plans.named_files._BYTES_MAX", 10)
    assert content(place, "a.json").unreadable == ("a.json: too large, or too many files",)


def test_each_value_is_read_once(place):
    files = NamedFiles([place])
    before = files.content("a.json")
    (place / "a.json").write_text("[]")
    assert files.content("a.json") == before
