"""A gateway with another row in the table of topic level keys; see tests/engine/topic_configs/test_added_key."""

import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, ResourceType

from penstock.configuration.topic_keys import TOPIC_KEYS
from penstock.kafka.local import LocalKafka
from tests.engine.topic_configs.added_key import ADDED
from tests.engine.topic_configs.admin_requests import NOT_BAD, judged_by
from tests.gateways import RunningGateway, gateway_port, wait_until, write_configuration

PROGRAM = [sys.executable, "-m", "tests.engine.topic_configs.added_key"]
INVALID_CONFIG, POLICY_VIOLATION = 40, 44


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of the tests describe the key, too."""
    monkeypatch.setitem(TOPIC_KEYS, ADDED.name, ADDED)


@pytest.fixture(scope="module")
def file(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of `judging`."""
    return write_configuration(
        tmp_path_factory.mktemp("added"),
        kafka.bootstrap_servers,
        gateway_port(),
        {
            "records.policy.class.names.allowed": "policies.*",
            "policy.workers": 1,
            # Other gateways of this cluster do not know the key.
            "topic.settings.topic": "__settings_with_an_added_key",
        },
        NOT_BAD,
    )


@pytest.fixture(scope="module")
def judging(file: Path) -> Iterator[RunningGateway]:
    """A gateway that knows the key."""
    running = RunningGateway(file, PROGRAM)
    yield running
    running.stop()


def described(gateway: RunningGateway, topic: str) -> ConfigEntry:
    """Return the key as an admin client describes it."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": gateway.address})
    return admin.describe_configs([resource])[resource].result(60)[ADDED.name]


def name() -> str:
    return f"added-{uuid.uuid4().hex[:8]}"


def test_a_topic_is_created_altered_and_described_with_the_key(judging, topic_client):
    topic = name()
    topic_client.create(topic, {ADDED.name: "HIGH"})

    assert topic_client.own_settings(topic) == {ADDED.name: "high"}
    assert topic_client.alter(topic, {ADDED.name: "x"}) == INVALID_CONFIG
    assert topic_client.alter(topic, {ADDED.name: "low"}) == 0
    assert topic_client.own_settings(topic) == {ADDED.name: "low"}
    assert topic_client.alter(topic, {ADDED.name: None}) == 0
    entry = described(judging, topic)
    assert (entry.value, entry.is_default) == (ADDED.default, True)


def test_a_topic_with_the_key_is_judged(topic_client):
    topic = name()
    topic_client.create(topic, {ADDED.name: "high"} | judged_by("NotBad"))

    assert topic_client.produce(topic, b"good").error_code == 0
    assert topic_client.produce(topic, b"bad").error_code == POLICY_VIOLATION


def test_kafka_configs_sets_and_shows_the_key(topic_client, kafka_configs):
    topic = name()
    topic_client.create(topic, {})

    kafka_configs(topic, "--alter", "--add-config", "test.level=high")

    assert "test.level=high sensitive=false" in kafka_configs(topic, "--describe")


def test_the_files_default_changes_at_sighup(judging, topic_client, file):
    topic = name()
    topic_client.create(topic, {})
    assert topic_client.own_settings(topic) == {}, "it waits until the broker knows the topic"
    assert described(judging, topic).value == "low"
    before = file.read_text()

    try:
        file.write_text(before + f"topics.added-*.{ADDED.name}=high\n")
        judging.process.send_signal(signal.SIGHUP)
        wait_until(lambda: described(judging, topic).value == "high", what="the new default")
    finally:
        file.write_text(before)
        judging.process.send_signal(signal.SIGHUP)
    wait_until(lambda: described(judging, topic).value == "low", what="the old default")
