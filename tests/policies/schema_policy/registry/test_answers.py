"""Answers as the API has them, and what else may listen there."""

import json

import pytest

from penstock.policies.schema_policy.registered import RegisteredSchema, SchemaReference
from penstock.policies.schema_policy.registry import answers
from penstock.policies.schema_policy.registry.answers import UnreadableAnswerError

GUID = "89791762-2336-4186-9674-299b90a802e2"


def body(content):
    return json.dumps(content).encode()


def test_the_default_type_is_avro():
    assert answers.schema(body({"schema": '"int"'})) == RegisteredSchema("AVRO", '"int"')


def test_all_fields_of_an_answer_are_read():
    found = answers.schema(
        body(
            {
                "subject": "orders-value",
                "version": 3,
                "id": 17,
                "guid": GUID.upper(),
                "schemaType": "PROTOBUF",
                "schema": "syntax",
                "references": [
                    {"name": "a.proto", "subject": "a", "version": 2},
                    {"name": "b.proto", "subject": "b", "version": -1},
                ],
                "metadata": {"tags": {"a": ["PII"]}},
                "ruleSet": {"domainRules": []},
                "ts": 1,
            }
        )
    )
    assert found == RegisteredSchema(
        "PROTOBUF",
        "syntax",
        (SchemaReference("a.proto", "a", 2), SchemaReference("b.proto", "b", -1)),
        17,
        GUID,
        {"tags": {"a": ["PII"]}},
        {"domainRules": []},
    )


def test_nothing_may_be_null():
    found = answers.schema(
        body(
            dict.fromkeys(("schemaType", "references", "metadata", "ruleSet", "id", "guid"))
            | {"schema": ""}
        )
    )
    assert found == RegisteredSchema("AVRO", "")


GOOD = {"schema": '"int"'}


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        "text",
        {"schema": 1},
        {"schema": "\ud800"},
        GOOD | {"schemaType": 1},
        GOOD | {"schemaType": "x" * 1001},
        GOOD | {"references": {}},
        GOOD | {"references": [1]},
        GOOD | {"references": [{"name": "a", "subject": "b"}]},
        GOOD | {"references": [{"name": "a", "subject": "b", "version": 0}]},
        GOOD | {"references": [{"name": "a", "subject": "b", "version": True}]},
        GOOD | {"references": [{"name": "", "subject": "b", "version": 1}]},
        GOOD | {"references": [{"name": "a", "subject": "b", "version": 1}] * 1001},
        GOOD | {"metadata": []},
        GOOD | {"ruleSet": "x"},
        GOOD | {"id": "17"},
        GOOD | {"id": 2**31},
        GOOD | {"guid": "x"},
        {"error_code": 40403, "message": "not found"},
    ],
)
def test_other_answers_about_a_schema_are_unreadable(content):
    with pytest.raises(UnreadableAnswerError) as caught:
        answers.schema(body(content))
    assert "int" not in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"", b"<html>", b"\xff\xfe", b"[" * 100_000, b"9" * 10_000, b'{"schema": "', b"{}x"]
)
def test_an_answer_that_is_no_json_is_unreadable(data):
    with pytest.raises(UnreadableAnswerError, match="JSON"):
        answers.schema(data)
    assert not answers.means_unknown(data)


def test_subjects_are_read_with_their_versions():
    listed = [{"subject": "a", "version": 1}, {"subject": ":.ctx:b", "version": 2, "more": 1}]
    assert answers.subject_versions(body(listed)) == (("a", 1), (":.ctx:b", 2))
    assert answers.subject_versions(b"[]") == ()
    for content in ({}, ["a"], [{"subject": "a"}], [{"subject": None, "version": 1}]):
        with pytest.raises(UnreadableAnswerError):
            answers.subject_versions(body(content))


def test_a_version_has_a_number():
    assert answers.version(body({"version": 3})) == 3
    for content in ({}, {"version": "3"}, {"version": 0}, []):
        with pytest.raises(UnreadableAnswerError):
            answers.version(body(content))


def test_a_guid_has_an_id_in_each_context():
    listed = body([{"context": ".", "id": 17}, {"context": ".other", "id": 3}])
    assert answers.id_in_context(listed, ".") == 17
    assert answers.id_in_context(listed, ".other") == 3
    assert answers.id_in_context(listed, ".third") is None
    assert answers.id_in_context(body([{"id": 17}]), ".") == 17
    with pytest.raises(UnreadableAnswerError):
        answers.id_in_context(body([{"context": "."}]), ".")


@pytest.mark.parametrize("code", [40401, 40402, 40403, 40404, 40406])
def test_a_registrys_own_word_means_unknown(code):
    assert answers.means_unknown(body({"error_code": code, "message": "x"}))


@pytest.mark.parametrize(
    "content",
    [{"error_code": 404}, {"error_code": "40403"}, {}, [], {"error_code": [40403]}, 40403],
)
def test_anything_else_does_not_mean_unknown(content):
    assert not answers.means_unknown(body(content))
