"""Topic level keys that the validation policy declares and reads, through a real gateway."""

import signal
import uuid
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from penstock.kafka.local import LocalKafka
from tests.conftest import create_topic
from tests.engine.topic_configs.admin_requests import TopicClient
from tests.gateways import RunningGateway, gateway_port, wait_until, write_configuration

POLICIES = """
from penstock.policy import *

class Levels(RecordValidationPolicy):
    topic_configs = (
        TopicConfig("shop.validation", "BOOLEAN", "false", "Whether.", switches_on=True),
        TopicConfig("shop.level", "STRING", "low", "How much.", ("low", "high")),
        TopicConfig("shop.size", "INT"),
    )
    def validate(self, topic, record):
        if record.value == b"tell":
            raise InvalidRecordException(
                repr((topic.validation_policy, sorted(topic.configs.items()))))
"""


@pytest.fixture(scope="module")
def file(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of `judging`."""
    return write_configuration(
        tmp_path_factory.mktemp("declared"),
        kafka.bootstrap_servers,
        gateway_port(),
        {
            "record.validation.policy.class.name": "policies.Levels",
            "topics.declared-file-*.shop.validation": "true",
            "policy.workers": 1,
            # Other gateways of this cluster do not know the keys.
            "topic.settings.topic": "__settings_with_declared_keys",
        },
        POLICIES,
    )


@pytest.fixture
def admin_client(judging: RunningGateway) -> AdminClient:
    return AdminClient({"bootstrap.servers": judging.address})


def name(kind: str = "topic") -> str:
    return f"declared-{kind}-{uuid.uuid4().hex[:8]}"


def alter(admin: AdminClient, topic: str, key: str, value: str | None) -> None:
    kind = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(key, value, incremental_operation=kind)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def described(admin: AdminClient, topic: str) -> dict[str, tuple[str | None, bool]]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(30)
    return {
        key: (entry.value, entry.is_default)
        for key, entry in found.items()
        if key.startswith("shop.")
    }


def error_of_policy(running: RunningGateway, topic: str) -> str | None:
    """Produce a record; return the policy's message, or None if it does not judge the topic."""
    with TopicClient(running.broker_address()) as client:
        response = client.produce(topic, b"tell")
    if response.error_code == 0:
        return None
    assert response.error_code == 87
    return response.record_errors[0].batch_index_error_message


def test_a_key_on_a_topic_enables_and_disables_the_policy(judging, admin_client):
    topic = name()
    create_topic(admin_client, topic, 1, {})
    assert error_of_policy(judging, topic) is None
    assert described(admin_client, topic) == {
        "shop.validation": ("false", True), "shop.level": ("low", True), "shop.size": (None, True),
    }  # fmt: skip

    alter(admin_client, topic, "shop.validation", "TRUE")
    alter(admin_client, topic, "shop.size", "7")
    assert error_of_policy(judging, topic) == (
        "('', [('shop.level', 'low'), ('shop.size', '7'), ('shop.validation', 'true')])"
    )
    assert described(admin_client, topic)["shop.validation"] == ("true", False)
    alter(admin_client, topic, "shop.validation", None)
    assert error_of_policy(judging, topic) is None


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("shop.level", "x", "String must be one of: low, high"),
        ("shop.size", "x", "Not a number of type INT"),
        ("shop.validation", "x", "Expected value to be either true or false"),
    ],
)
def test_an_invalid_value_is_refused_as_by_a_broker(admin_client, key, value, why):
    topic = name()
    create_topic(admin_client, topic, 1, {})
    for attempt in (
        lambda: alter(admin_client, topic, key, value),
        lambda: create_topic(admin_client, name(), 1, {key: value}),
    ):
        with pytest.raises(KafkaException) as raised:
            attempt()
        error = raised.value.args[0]
        assert error.code() == 40
        assert error.str() == f"Invalid value {value} for configuration {key}: {why}"


@pytest.mark.slow
def test_defaults_of_the_file_apply_and_topic_configs_survive_a_restart(
    judging, admin_client, file
):
    by_file, by_topic = name("file"), name()
    create_topic(admin_client, by_file, 1, {})
    create_topic(admin_client, by_topic, 1, {"shop.validation": "true", "shop.level": "high"})
    expected = "('', [('shop.level', 'high'), ('shop.validation', 'true')])"
    assert error_of_policy(judging, by_topic) == expected
    assert "('shop.level', 'low')" in str(error_of_policy(judging, by_file))

    judging.restart()
    assert error_of_policy(judging, by_topic) == expected
    assert described(admin_client, by_topic)["shop.level"] == ("high", False)


def test_kafka_configs_sets_and_shows_the_keys(admin_client, kafka_configs):
    topic = name()
    create_topic(admin_client, topic, 1, {})

    kafka_configs(topic, "--alter", "--add-config", "shop.validation=true")

    assert "shop.validation=true sensitive=false" in kafka_configs(topic, "--describe")


def test_a_reload_changes_the_keys(judging, admin_client, file):
    topic = name()
    create_topic(admin_client, topic, 1, {})
    module = file.parent / "policies.py"
    before = module.read_text()
    added = '("low", "high")),\n        TopicConfig("shop.more"),'
    try:
        module.write_text(before.replace('("low", "high")),', added))
        judging.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "shop.more" in described(admin_client, topic), timeout_s=60)
    finally:
        module.write_text(before)
        judging.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "shop.more" not in described(admin_client, topic), timeout_s=60)


def code_of(running: RunningGateway, topic: str) -> int:
    with TopicClient(running.broker_address()) as client:
        return client.produce(topic, b"tell").error_code


@pytest.mark.slow
def test_keys_of_a_policy_that_is_removed_from_the_file(kafka: LocalKafka, tmp_path: Path):
    own_topic = f"__settings_{uuid.uuid4().hex[:8]}"
    properties = {"topic.settings.topic": own_topic, "policy.workers": 1}
    with_policy = properties | {"record.validation.policy.class.name": "policies.Levels"}
    port = gateway_port()

    def write(chosen: dict[str, object]) -> Path:
        return write_configuration(tmp_path, kafka.bootstrap_servers, port, chosen, POLICIES)

    running = RunningGateway(write(with_policy))
    try:
        admin = AdminClient({"bootstrap.servers": running.address})
        has_keys, has_none, was_off = name(), name(), name()
        create_topic(admin, has_keys, 1, {"shop.validation": "true"})
        create_topic(admin, was_off, 1, {"shop.level": "high"})
        create_topic(admin, has_none, 1, {})
        assert error_of_policy(running, has_keys) is not None

        # After a reload or a restart nothing of a topic that has one of the keys passes.
        write(properties)
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: code_of(running, has_keys) == -1, timeout_s=60)
        for restarts in (False, True):
            if restarts:
                running.restart()
            codes = [code_of(running, topic) for topic in (has_keys, was_off, has_none)]
            assert codes == [-1, -1, 0]
            # The keys are unknown: they are not shown, and deleting one changes nothing.
            assert described(admin, has_keys) == {}
            alter(admin, has_keys, "shop.validation", None)
            with pytest.raises(
                KafkaException, match=r"Unknown topic config name: shop\.validation"
            ):
                alter(admin, has_keys, "shop.validation", "false")
            assert code_of(running, has_keys) == -1

        # With the policy back in the file everything is as it was.
        write(with_policy)
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: code_of(running, was_off) == 0, timeout_s=60)
        assert described(admin, was_off)["shop.level"] == ("high", False)
        assert described(admin, has_keys)["shop.validation"] == ("true", False)
        assert error_of_policy(running, has_keys) is not None

        # A gateway that has no policy at all reads no keys of topics, unless the file says where.
        write({"policy.workers": 1})
        running.restart()
        assert [code_of(running, topic) for topic in (has_keys, was_off, has_none)] == [0, 0, 0]
        assert running.events("no topic has a policy: every record passes")
    finally:
        running.stop()
