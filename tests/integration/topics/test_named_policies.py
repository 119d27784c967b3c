"""Named policies at a gateway: topics that name them, through admin tools and across reloads."""

import signal
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8

from penstock.kafka.local import LocalKafka, free_ports
from tests.engine.topic_configs.admin_requests import TopicClient, creation
from tests.gateways import RunningGateway, gateway_port, wait_until, write_configuration
from tests.metrics import scrape

KEY = "penstock.policies"
POLICIES = """
from penstock.policy import *

class Without(RecordValidationPolicy):
    def configure(self, configs):
        self.bad = configs["bad"].encode()
    def validate(self, topic, record):
        if self.bad in (record.value or b""):
            raise InvalidRecordException(f"it has {self.bad.decode()}")

class Some(Without):
    def prepare_topic(self, topic, configs):
        if topic.endswith("-fails"):
            raise KeyError(topic)
        if topic.endswith("-other"):
            raise ValueError(f"it has no schema for topic {topic}")

class Batches(RecordsPolicy):
    def configure(self, configs):
        self.most = int(configs["most"])
    def validate(self, topic, partition, records):
        if len(list(records)) > self.most:
            raise PolicyViolationException(f"more than {self.most}")

class Mark(ProduceRequestInterceptor):
    def configure(self, configs):
        self.mark = configs["mark"].encode()
    def interceptor_topic_pattern(self):
        return "^named-"
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value + self.mark)
"""
NAMED = {
    "policies": "no-a,no-b,small,mark,some",
    "policies.some.type": "policies.Some",
    "policies.some.bad": "s",
    "policies.no-a.type": "policies.Without",
    "policies.no-a.bad": "a",
    "policies.no-b.type": "policies.Without",
    "policies.no-b.bad": "b",
    "policies.small.type": "policies.Batches",
    "policies.small.most": "2",
    "policies.mark.type": "policies.Mark",
    "policies.mark.mark": "b",
    "topics.named-*.penstock.policies": "no-a",
}
INVALID_CONFIG, POLICY_VIOLATION, INVALID_RECORD = 40, 44, 87
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def file(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory, metrics_port: int) -> Path:
    return write_configuration(
        tmp_path_factory.mktemp("named"),
        kafka.bootstrap_servers,
        gateway_port(),
        {
            **NAMED,
            "policy.workers": 1,
            "topic.settings.topic": "__settings_with_named_policies",
            "metrics.listener": f"127.0.0.1:{metrics_port}",
        },
        POLICIES,
    )


@pytest.fixture
def topic() -> str:
    return f"named-{uuid.uuid4().hex[:8]}"


def alter(client: TopicClient, topic: str, operation: int, value: str | None, key: str = KEY):
    """Alter the key in one way; return the error code and the message."""
    change = AlterableConfig(name=key, config_operation=i8(operation), value=value)
    resource = AlterConfigsResource(resource_type=i8(2), resource_name=topic, configs=(change,))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    (result,) = client.call(request).responses
    return result.error_code, result.error_message


def test_the_files_default_holds(topic_client, topic):
    topic_client.create(topic, {})

    refused = topic_client.produce(topic, b"1", b"a")
    assert refused.error_code == INVALID_RECORD
    assert [error.batch_index_error_message for error in refused.record_errors] == ["it has a"]
    assert topic_client.produce(topic, b"b").error_code == 0


def test_a_topic_is_created_with_policies_and_judged_in_order(topic_client, topic):
    topic_client.create(topic, {KEY: "no-b , no-a,small"})

    assert topic_client.own_settings(topic) == {KEY: "no-b,no-a,small"}
    refused = topic_client.produce(topic, b"ab", b"a", b"b")
    messages = [error.batch_index_error_message for error in refused.record_errors]
    assert messages == ["it has b", "it has a", "it has b"]
    assert topic_client.produce(topic, b"1", b"2", b"3").error_code == POLICY_VIOLATION
    assert topic_client.produce(topic, b"1", b"2").error_code == 0


def test_interceptors_run_first(topic_client, topic):
    topic_client.create(topic, {KEY: "no-b,mark"})

    refused = topic_client.produce(topic, b"1")
    assert [error.batch_index_error_message for error in refused.record_errors] == ["it has b"]
    assert alter(topic_client, topic, SET, "no-a,mark") == (0, None)
    assert topic_client.produce(topic, b"1").error_code == 0


def test_a_policy_that_cannot_judge_the_topic_is_an_invalid_config(topic_client, topic):
    for name, why in (
        (f"{topic}-other", f"some: it has no schema for topic {topic}-other"),
        (f"{topic}-fails", "the gateway's log says why"),
    ):
        expected = f"Invalid value no-a,some for configuration {KEY}: {why}"
        (result,) = topic_client.call(creation(name, {KEY: "no-a,some"})).topics
        assert (result.error_code, result.error_message) == (INVALID_CONFIG, expected)
        topic_client.create(name, {})
        assert alter(topic_client, name, SET, "no-a,some") == (INVALID_CONFIG, expected)
    topic_client.create(topic, {KEY: "no-a,some"})


def test_an_unknown_name_is_an_invalid_config(topic_client, topic):
    (result,) = topic_client.call(creation(topic, {KEY: "no-c"})).topics
    assert result.error_code == INVALID_CONFIG
    assert result.error_message == (
        f"Invalid value no-c for configuration {KEY}: there is no policy no-c; there are no-a, "
        "no-b, small, mark, some; did you mean no-b?"
    )
    topic_client.create(topic, {})
    for value in ("no-a,gone", "no-a,no-a", "no a"):
        code, message = alter(topic_client, topic, SET, value)
        assert (code, value in message) == (INVALID_CONFIG, True)
    assert topic_client.own_settings(topic) == {}


def test_a_list_is_appended_to_and_subtracted_from(topic_client, topic):
    topic_client.create(topic, {})

    # To what holds for the topic, which is the file's default.
    assert alter(topic_client, topic, APPEND, "no-b,no-a") == (0, None)
    assert topic_client.own_settings(topic) == {KEY: "no-a,no-b"}
    assert alter(topic_client, topic, APPEND, "gone")[0] == INVALID_CONFIG
    assert alter(topic_client, topic, SUBTRACT, "no-a") == (0, None)
    assert topic_client.own_settings(topic) == {KEY: "no-b"}
    assert alter(topic_client, topic, SUBTRACT, "no-b") == (0, None)
    assert topic_client.own_settings(topic) == {KEY: ""}
    assert topic_client.produce(topic, b"ab").error_code == 0
    assert alter(topic_client, topic, DELETE, None) == (0, None)
    assert topic_client.own_settings(topic) == {}
    code, message = alter(topic_client, topic, APPEND, "observe", "penstock.mode")
    assert (code, message) == (
        INVALID_CONFIG, "Can't APPEND to key penstock.mode because its type is not LIST.",
    )  # fmt: skip


def test_admin_tools_set_and_show_the_list(judging, topic_client, kafka_configs, topic):
    topic_client.create(topic, {})

    kafka_configs(topic, "--alter", "--add-config", f"{KEY}=[no-b,small]")

    assert f"{KEY}=no-b,small sensitive=false" in kafka_configs(topic, "--describe")
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": judging.address})
    entry = admin.describe_configs([resource])[resource].result(60)[KEY]
    assert (entry.value, entry.is_default) == ("no-b,small", False)


def test_a_reload_removes_and_adds_policies(judging, topic_client, topic, file):
    topic_client.create(topic, {KEY: "no-a,no-b"})
    before = file.read_text()

    def code(*values: bytes) -> int:
        return topic_client.produce(topic, *values).error_code

    try:
        without = before.replace("policies=no-a,no-b,", "policies=no-a,")
        file.write_text(without)
        judging.process.send_signal(signal.SIGHUP)
        wait_until(lambda: code(b"good") != 0, what="the policies without no-b")
        refused = topic_client.produce(topic, b"good")
        assert "cannot run: penstock.policies: there is no policy no-b" in (refused.error_message)
        assert alter(topic_client, topic, SUBTRACT, "no-b") == (0, None)
        wait_until(lambda: code(b"good") == 0, what="the topic's own setting")

        changed = before.replace("policies.no-a.bad=a", "policies.no-a.bad=x")
        file.write_text(changed)
        judging.process.send_signal(signal.SIGHUP)
        wait_until(lambda: code(b"x") == INVALID_RECORD, what="the other settings of no-a")
        assert code(b"a") == 0
    finally:
        file.write_text(before)
        judging.process.send_signal(signal.SIGHUP)
    wait_until(lambda: code(b"a") == INVALID_RECORD, what="the old settings")


def test_metrics_have_the_names_of_policies(metrics_port, topic_client, topic):
    topic_client.create(topic, {KEY: "no-a,no-b"})
    topic_client.produce(topic, b"1", b"2")
    topic_client.produce(topic, b"b")

    counted = scrape(metrics_port)
    both = counted("penstock_records_total", topic=topic, policy="no-a, no-b", outcome="accepted")
    by_no_b = counted("penstock_records_total", topic=topic, policy="no-b", outcome="refused")
    assert (both, by_no_b) == (2, 1)


def test_if_the_key_is_not_allowed_no_operation_changes_it(kafka, tmp_path, topic):
    """Otherwise a client could subtract a policy that the file requires."""
    running = RunningGateway(
        write_configuration(
            tmp_path,
            kafka.bootstrap_servers,
            gateway_port(),
            {
                **NAMED,
                "topic.settings.keys.allowed": "penstock.mode",
                "topic.settings.topic": "__settings_without_named_policies",
            },
            POLICIES,
        )
    )
    try:
        with TopicClient(running.broker_address()) as client:
            client.create(topic, {})
            for operation in (SET, APPEND, SUBTRACT):
                code, message = alter(client, topic, operation, "no-a")
                assert (code, "topic.settings.keys.allowed" in message) == (INVALID_CONFIG, True)
            assert client.own_settings(topic) == {}
            assert client.produce(topic, b"a").error_code == INVALID_RECORD
    finally:
        running.stop()


MISNAMED = [
    ("penstock.polices", "did you mean penstock.policies?"),
    ("penstock.quarantine.ratio", "did you mean penstock.quarantine.max.ratio?"),
    ("policies.no-a.mode", "it belongs in the gateway's configuration file"),
    (
        "topics.x-*.penstock.mode",
        "it belongs in the gateway's configuration file; on a topic, it is penstock.mode",
    ),
]


def test_the_error_about_a_misspelt_key_names_a_similar_key(topic_client, topic):
    topic_client.create(topic, {})
    for key, meant in MISNAMED:
        expected = INVALID_CONFIG, f"Unknown topic config name: {key}; {meant}"
        (result,) = topic_client.call(creation(f"{topic}-new", {key: "no-a"})).topics
        assert (result.error_code, result.error_message) == expected
        assert alter(topic_client, topic, SET, "no-a", key) == expected


def test_other_unknown_keys_get_the_message_of_the_broker(topic_client, topic):
    topic_client.create(topic, {})

    expected = alter(topic_client, topic, SET, "no-a", "retention.m")

    assert expected == (INVALID_CONFIG, "Unknown topic config name: retention.m")
