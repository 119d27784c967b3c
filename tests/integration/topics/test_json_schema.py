"""`penstock.policies.JsonSchema` at a gateway: schemas that topics name, and invalid schemas."""

import json
import uuid
from pathlib import Path

import pytest

from penstock.kafka.local import LocalKafka
from tests.engine.topic_configs.admin_requests import alteration, creation
from tests.gateways import gateway_port, write_configuration

SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
KEY = "record.validation.policy"
OK, INVALID_CONFIG, INVALID_RECORD = 0, 40, 87


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the configuration file."""
    made = tmp_path_factory.mktemp("json-schema")
    (made / "schemas").mkdir()
    (made / "schemas" / "order.json").write_text(json.dumps(SCHEMA))
    (made / "schemas" / "broken.json").write_text('{"$ref": "none.json"}')
    return made


@pytest.fixture(scope="module")
def file(kafka: LocalKafka, folder: Path) -> Path:
    """The configuration of a gateway whose schemas are in a folder next to the file."""
    properties = {
        "record.validation.policy.class.name": "penstock.policies.JsonSchema",
        "json.schema.folder": "schemas",
        "policy.workers": 1,
    }
    return write_configuration(folder, kafka.bootstrap_servers, gateway_port(), properties, "")


def name() -> str:
    return f"schema-{uuid.uuid4().hex[:8]}"


def test_a_topic_names_its_schema(topic_client):
    topic = name()
    topic_client.create(topic, {KEY: "order.json"})

    assert topic_client.produce(topic, b'{"id": 1}').error_code == OK
    answer = topic_client.produce(topic, b'{"id": 1}', b'{"id": "Secret"}', b"{}", b"[")
    assert answer.error_code == INVALID_RECORD
    messages = {
        error.batch_index: error.batch_index_error_message for error in answer.record_errors
    }
    assert messages == {
        1: "the value at /id must be of type integer",
        2: 'the value lacks the property "id"',
        3: "the value is not JSON",
    }


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("none.json", "none.json: the folder of schemas does not have this file"),
        ("../penstock.properties", "../penstock.properties is outside the folder of schemas"),
        (
            "broken.json",
            "broken.json: $ref to none.json: none.json: the folder of schemas does not have this file",
        ),
        ("a=b", "must name a schema file, like order.schema.json, or key=FILE,value=FILE, not a=b"),
    ],
)
def test_a_schema_that_cannot_be_used_is_not_set(topic_client, text, why):
    topic = name()
    topic_client.create(topic, {KEY: "order.json"})
    begin = f"Invalid value {text} for configuration {KEY}: "

    [altered] = topic_client.call(alteration(topic, {KEY: text})).responses
    [created] = topic_client.call(creation(name(), {KEY: text})).topics

    assert (altered.error_code, created.error_code) == (INVALID_CONFIG, INVALID_CONFIG)
    assert altered.error_message.startswith(begin + why)
    assert created.error_message.startswith(begin + why)
    assert topic_client.own_settings(topic) == {KEY: "order.json"}
    assert topic_client.produce(topic, b'{"id": "x"}').error_code == INVALID_RECORD


def test_with_a_deleted_schema_all_records_are_refused(topic_client, folder):
    """Until it exists again: no worker had read it before."""
    file = folder / "schemas" / f"{name()}.json"
    file.write_text(json.dumps(SCHEMA))
    topic = name()
    topic_client.create(topic, {KEY: file.name})
    file.unlink()

    deleted = topic_client.produce(topic, b'{"id": 1}')
    file.write_text(json.dumps(SCHEMA))
    back = topic_client.produce(topic, b'{"id": 1}')

    assert deleted.error_code not in {OK, INVALID_RECORD}
    assert back.error_code == OK
