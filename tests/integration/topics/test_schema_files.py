"""`schema.file` of `SchemaPolicy`, set by admin tools: a file that cannot be used is an error."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from penstock.kafka.local import LocalKafka
from tests.conftest import delete_topic
from tests.engine.topic_configs.admin_requests import alteration, creation
from tests.gateways import gateway_port, write_configuration

FILE, VALIDATES = "schema.file", "confluent.value.schema.validation"
SCHEMA = {"type": "object", "required": ["id"]}
OK, INVALID_CONFIG, INVALID_RECORD = 0, 40, 87


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the configuration file."""
    made = tmp_path_factory.mktemp("schema-files")
    (made / "order.json").write_text(json.dumps(SCHEMA))
    (made / "broken.avsc").write_text("{")
    return made


@pytest.fixture(scope="module")
def file(kafka: LocalKafka, folder: Path) -> Path:
    """The configuration of a gateway without a schema registry."""
    properties = {
        "record.validation.policy.class.name": "penstock.policies.SchemaPolicy",
        "policy.workers": 1,
    }
    return write_configuration(folder, kafka.bootstrap_servers, gateway_port(), properties, "")


@pytest.fixture
def topic(admin: AdminClient) -> Iterator[str]:
    """The first name of topics that end with the test: only SchemaPolicy knows their settings."""
    name = f"files-{uuid.uuid4().hex[:8]}"
    yield name
    for made in admin.list_topics(timeout=30).topics:
        if made.startswith(name):
            delete_topic(admin, made)


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        ({FILE: "none.json"}, FILE, "none.json"),
        ({FILE: "../penstock.properties"}, FILE, "../penstock.properties"),
        ({FILE: "broken.avsc"}, FILE, "broken.avsc"),
        ({FILE: None}, FILE, f"{VALIDATES} needs schema.registry.url, or schema.file"),
        ({FILE: "order.json", "penstock.mode": "mark"}, FILE, ""),
    ],
)
def test_a_value_by_which_each_batch_would_fail_is_not_set(topic_client, topic, changes, key, why):
    given = {VALIDATES: "true", FILE: "order.json"}
    topic_client.create(topic, given)
    new = {name: value for name, value in {**given, **changes}.items() if value is not None}

    [altered] = topic_client.call(alteration(topic, changes)).responses
    [created] = topic_client.call(creation(f"{topic}-new", new)).topics

    if not why:
        assert altered.error_code == OK
        return
    assert altered.error_code == INVALID_CONFIG
    assert f"for configuration {key}: " in altered.error_message
    assert why in altered.error_message
    assert created.error_code == INVALID_CONFIG
    assert why in created.error_message
    assert topic_client.own_settings(topic, *given) == given
    assert topic_client.produce(topic, b'{"id": 1}').error_code == OK
    assert topic_client.produce(topic, b"{}").error_code == INVALID_RECORD
