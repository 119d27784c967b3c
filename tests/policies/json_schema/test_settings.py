"""The keys `json.schema.*`, and a topic's own text."""

import pytest

from penstock.policies.json_schema.settings import JsonSchemaSettings, schema_names


def test_defaults():
    assert JsonSchemaSettings.read({"other.key": "x"}) == JsonSchemaSettings(
        folder=".", formats=False, null_values=True, null_keys=False
    )


def test_every_key():
    configs = {"folder": " schemas ", "formats": "TRUE", "null.values": "refuse", "null.keys": "accept"}  # fmt: skip

    read = JsonSchemaSettings.read({f"json.schema.{key}": value for key, value in configs.items()})

    assert read == JsonSchemaSettings(
        folder="schemas", formats=True, null_values=False, null_keys=True
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("formats", "yes", "json.schema.formats must be true or false, not yes"),
        ("null.values", "", "json.schema.null.values must be accept or refuse, not nothing"),
        ("null.keys", "true", "json.schema.null.keys must be accept or refuse, not true"),
        ("format", "true", "json.schema.format is unknown; there are json.schema.folder, json"),
    ],
)
def test_impossible_settings_are_refused(key, value, message):
    with pytest.raises(ValueError, match=message):
        JsonSchemaSettings.read({f"json.schema.{key}": value})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("order.schema.json", {"value": "order.schema.json"}),
        (" a/b.json ", {"value": "a/b.json"}),
        ("key=k.json", {"key": "k.json"}),
        ("key=k.json,value=v.json", {"key": "k.json", "value": "v.json"}),
        ("value = v.json , key = k.json", {"key": "k.json", "value": "v.json"}),
        ("key=k.json,v.json", {"key": "k.json", "value": "v.json"}),
    ],
)
def test_a_topic_names_its_schemas(text, names):
    assert schema_names(text) == names


@pytest.mark.parametrize("text", ["", ",", "a.json,b.json", "key=", "header=h.json", "key=a,key=b"])
def test_texts_that_name_no_schema(text):
    with pytest.raises(ValueError, match=r"must name a schema file, like order.schema.json, or"):
        schema_names(text)
