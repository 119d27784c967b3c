"""The file says which topic level keys may be set on topics."""

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
    NewTopic,
    ResourceType,
)

from penstock.configuration.topic_keys import MODE, RECORDS_POLICY_ENABLED
from penstock.kafka.local import LocalKafka
from tests.engine.topic_configs.admin_requests import NOT_BAD, TopicClient, judged_by
from tests.gateways import gateway_port, wait_until, write_configuration

INVALID_CONFIG, POLICY_VIOLATION = 40, 44
WHY = (
    "Configuration penstock.mode cannot be set on a topic: the gateway's configuration file does "
    "not allow it (topic.settings.keys.allowed)"
)


@pytest.fixture(scope="module")
def file(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of `judging`."""
    return write_configuration(
        tmp_path_factory.mktemp("allowed"),
        kafka.bootstrap_servers,
        gateway_port(),
        {
            "records.policy.class.names.allowed": "policies.*",
            "policy.workers": 1,
            "topic.settings.topic": "__settings_of_some_keys",
        },
        NOT_BAD,
    )


def test_a_disallowed_key_is_refused_read_only_and_without_effect(judging, file):
    topic, other = (f"allowed-{uuid.uuid4().hex[:8]}" for _ in range(2))
    admin = AdminClient({"bootstrap.servers": judging.address})
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def mode() -> ConfigEntry:
        return admin.describe_configs([resource])[resource].result(60)[MODE]

    def alter(key: str, value: str | None, *, validate_only: bool = False) -> None:
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        changed = ConfigResource(ResourceType.TOPIC, topic)
        changed.add_incremental_config(ConfigEntry(key, value, incremental_operation=operation))
        [done] = admin.incremental_alter_configs([changed], validate_only=validate_only).values()
        done.result(60)

    with TopicClient(judging.broker_address()) as client:
        client.create(topic, {**judged_by("NotBad"), MODE: "observe"})
        assert client.produce(topic, b"bad").error_code == 0, "the mode is observe"
        # A broker that has stored a record of the topic describes it, too.
        assert (mode().value, mode().is_read_only) == ("observe", False)

        before = file.read_text()
        file.write_text(before + "topic.settings.keys.allowed=records.policy.*\n")
        judging.process.send_signal(signal.SIGHUP)
        wait_until(lambda: mode().is_read_only, what="the new keys")
        assert client.produce(topic, b"bad").error_code == POLICY_VIOLATION
        assert (mode().value, mode().is_read_only) == ("observe", True)
        for only in (True, False):
            with pytest.raises(KafkaException) as raised:
                alter(MODE, "observe", validate_only=only)
            assert raised.value.args[0].code() == INVALID_CONFIG
            assert raised.value.args[0].str() == WHY
            new = NewTopic(other, 1, 1, config={MODE: "observe"})
            [done] = admin.create_topics([new], validate_only=only).values()
            with pytest.raises(KafkaException) as raised:
                done.result(60)
            assert raised.value.args[0].code() == INVALID_CONFIG
            assert WHY in raised.value.args[0].str()
        alter(RECORDS_POLICY_ENABLED, "true")
        alter(MODE, None)
        assert (mode().value, mode().is_read_only) == ("enforce", True)

        file.write_text(before)
        judging.process.send_signal(signal.SIGHUP)
        wait_until(lambda: not mode().is_read_only, what="all keys")
        alter(MODE, "observe")
        assert client.produce(topic, b"bad").error_code == 0
