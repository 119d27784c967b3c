"""A topic's own policies, set with common admin clients and tools.

The same round trip with each: a topic is created with its own policy, which judges its records from
the first on; the policy is disabled and deleted, and disallowed changes are refused; a topic that
is created again has no policy.
"""

import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import AlterConfigOp, ConfigResourceType
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.errors import KafkaError as PythonKafkaError

from penstock.kafka.local import run_tool
from tests.gateways import RunningGateway, gateway_port, write_configuration
from tests.go import go_program
from tests.integration.reading import read_topic, values_of
from tests.interop.conftest import JAVA
from tests.java import program
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, produced

pytestmark = pytest.mark.slow

POLICY, ENABLED = "records.policy.class.name", "records.policy.enabled"
VALIDATION, RETENTION = "record.validation.policy", "retention.ms"
SHOWN = (VALIDATION, POLICY, ENABLED, RETENTION)
POLICIES = """
from penstock.policy import *

class NoBad(RecordsPolicy):
    def validate(self, topic, partition, records):
        if any(record.value.startswith(b"bad") for record in records):
            raise PolicyViolationException("bad is not good")

class NotAllowed(NoBad): pass

class StartsOtherwise(RecordValidationPolicy):
    def validate(self, topic, record):
        if record.value.startswith(topic.validation_policy.encode()):
            raise InvalidRecordException(f"{topic.validation_policy} is not good")
"""
PROPERTIES = {
    "records.policy.class.names.allowed": "policies.NoBad",
    "record.validation.policy.class.name": "policies.StartsOtherwise",
}
ALLOWED = {POLICY: "policies.NoBad", ENABLED: "true", RETENTION: "86400000"}
MAY_NOT_BE_NAMED = (
    "Invalid value policies.NotAllowed for configuration records.policy.class.name: Class "
    "policies.NotAllowed may not be named: it is neither in the gateway's configuration file nor "
    "allowed by its records.policy.class.names.allowed"
)
NO_BOOLEAN = (
    "Invalid value maybe for configuration records.policy.enabled: Expected value to be either "
    "true or false"
)
NO_LONG = "Invalid value long for configuration retention.ms: Not a number of type LONG"
NO_LIST = f"Can't APPEND to key {POLICY} because its type is not LIST."
OK, INVALID_CONFIG, POLICY_VIOLATION, INVALID_RECORD = 0, 40, 44, 87


@pytest.fixture(scope="module")
def gateway_address(kafka, tmp_path_factory) -> Iterator[str]:
    """A gateway that allows policies in topic configs."""
    file = write_configuration(
        tmp_path_factory.mktemp("topic-settings"),
        kafka.bootstrap_servers,
        gateway_port(),
        PROPERTIES,
        POLICIES,
    )
    running = RunningGateway(file)
    yield running.address
    assert running.stop() == 0
    assert [line for line in running.log if line["level"] in {"error", "not JSON"}] == []


@pytest.fixture
def name() -> str:
    """Return the name of a topic that does not exist."""
    return f"settings-{uuid.uuid4().hex[:8]}"


# Libraries of Python


class Librdkafka:
    """confluent-kafka's clients. Methods return the code and text of the error."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._admin = AdminClient({"bootstrap.servers": address})

    @staticmethod
    def _outcome(futures: Mapping[Any, Any]) -> tuple[int, str]:
        (future,) = futures.values()
        try:
            future.result(60)
        except KafkaException as failure:
            return failure.args[0].code(), failure.args[0].str()
        return OK, ""

    def create(self, topic: str, configs: Mapping[str, str]) -> tuple[int, str]:
        return self._outcome(self._admin.create_topics([NewTopic(topic, 1, 1, config=configs)]))

    def delete(self, topic: str) -> tuple[int, str]:
        return self._outcome(self._admin.delete_topics([topic]))

    def change(self, topic: str, configs: Mapping[str, str | None]) -> tuple[int, str]:
        """Set some configs, and delete those with None."""
        entries = [
            ConfigEntry(
                key,
                value,
                incremental_operation=AlterConfigOpType.DELETE
                if value is None
                else AlterConfigOpType.SET,
            )
            for key, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        return self._outcome(self._admin.incremental_alter_configs([resource]))

    def replace(self, topic: str, configs: Mapping[str, str]) -> tuple[int, str]:
        """Set some configs, and reset all others, by the old AlterConfigs."""
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config=dict(configs))
        with pytest.deprecated_call():
            futures = self._admin.alter_configs([resource])
        return self._outcome(futures)

    def describe(self, topic: str) -> dict[str, tuple[str | None, str]]:
        """Return values and sources."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (future,) = self._admin.describe_configs([resource]).values()
        configs = future.result(60)
        return {key: (configs[key].value, ConfigSource(configs[key].source).name) for key in SHOWN}

    def produce(self, topic: str, value: bytes) -> tuple[int, str]:
        producer = Producer({"bootstrap.servers": self._address, "log_level": 0})
        outcome = []
        producer.produce(topic, value, on_delivery=lambda error, _: outcome.append(error))
        assert producer.flush(60) == 0
        return (outcome[0].code(), outcome[0].str()) if outcome[0] else (OK, "")

    def close(self) -> None:
        """Nothing has to be closed."""


class KafkaPython:
    """kafka-python's clients, which look up keys before they alter them."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._admin = KafkaAdminClient(bootstrap_servers=address)

    def create(self, topic: str, configs: Mapping[str, str]) -> tuple[int, str]:
        topics = {topic: {"num_partitions": 1, "replication_factor": 1, "configs": dict(configs)}}
        (result,) = self._admin.create_topics(topics, raise_errors=False)["topics"]
        return result["error_code"], result["error_message"] or ""

    def delete(self, topic: str) -> tuple[int, str]:
        (result,) = self._admin.delete_topics([topic], raise_errors=False)["topics"]
        return result["error_code"], result["error_message"] or ""

    def change(self, topic: str, configs: Mapping[str, str | None]) -> tuple[int, str]:
        """Set some configs, and delete those with None."""
        operations = {
            key: (AlterConfigOp.SET if value is not None else AlterConfigOp.DELETE, value)
            for key, value in configs.items()
        }
        return self._altered(topic, operations, incremental=True)

    def replace(self, topic: str, configs: Mapping[str, str]) -> tuple[int, str]:
        """Set configs by the old AlterConfigs, together with all other set configs."""
        return self._altered(topic, dict(configs), incremental=False)

    def _altered(self, topic: str, configs: dict, *, incremental: bool) -> tuple[int, str]:
        resource = PythonConfigResource(ConfigResourceType.TOPIC, topic, configs)
        text = self._admin.alter_configs([resource], incremental=incremental)["topic"][topic]
        if text == "OK":
            return OK, ""
        code, text = text.removeprefix("[Error ").split("] ", 1)
        return int(code), text.partition(": ")[2]

    def describe(self, topic: str) -> dict[str, tuple[str | None, str]]:
        """Return values and sources."""
        resource = PythonConfigResource(ConfigResourceType.TOPIC, topic, None)
        configs = self._admin.describe_configs([resource], config_filter="all")["topic"][topic]
        return {key: (configs[key]["value"], configs[key]["config_source"]) for key in SHOWN}

    def produce(self, topic: str, value: bytes) -> tuple[int, str]:
        producer = KafkaProducer(bootstrap_servers=self._address, enable_idempotence=False)
        try:
            producer.send(topic, value).get(60)
        except PythonKafkaError as error:
            return error.errno, str(error)
        finally:
            producer.close()
        return OK, ""

    def close(self) -> None:
        self._admin.close()


@pytest.fixture(params=[Librdkafka, KafkaPython])
def client(request, gateway_address) -> Iterator[Any]:
    made = request.param(gateway_address)
    yield made
    made.close()


def check_invalid_changes(client: Any, name: str) -> None:
    """No part of a change is applied if a part of it is invalid."""
    before = client.describe(name)
    for configs, why in (
        ({POLICY: "policies.NotAllowed"}, MAY_NOT_BE_NAMED),
        ({ENABLED: "maybe"}, NO_BOOLEAN),
        ({ENABLED: "maybe", RETENTION: "3600000"}, NO_BOOLEAN),
    ):
        assert client.change(name, configs) == (INVALID_CONFIG, why)
        assert client.replace(name, configs) == (INVALID_CONFIG, why)
    assert client.change(name, {ENABLED: "true", RETENTION: "long"})[0] == INVALID_CONFIG
    assert client.describe(name) == before


def test_python_libraries_set_and_delete_policies_of_a_topic(client, name, kafka):
    assert client.create(name, {POLICY: "policies.NotAllowed"}) == (
        INVALID_CONFIG,
        MAY_NOT_BE_NAMED,
    )
    assert client.create(name, ALLOWED) == (OK, "")
    assert client.produce(name, b"bad-1")[0] == POLICY_VIOLATION
    assert client.produce(name, b"good-1")[0] == OK
    assert client.describe(name) == {
        VALIDATION: (None, "DEFAULT_CONFIG"),
        **{key: (value, "DYNAMIC_TOPIC_CONFIG") for key, value in ALLOWED.items()},
    }

    assert client.change(name, {ENABLED: "false"}) == (OK, "")
    assert client.produce(name, b"bad-2")[0] == OK

    check_invalid_changes(client, name)
    assert client.change(name, {POLICY: None, ENABLED: None, VALIDATION: "worse"}) == (OK, "")
    assert client.produce(name, b"worse-1")[0] == INVALID_RECORD
    assert client.produce(name, b"bad-3")[0] == OK
    assert client.describe(name) == {
        VALIDATION: ("worse", "DYNAMIC_TOPIC_CONFIG"),
        POLICY: (None, "DEFAULT_CONFIG"),
        ENABLED: ("false", "DEFAULT_CONFIG"),
        RETENTION: ("86400000", "DYNAMIC_TOPIC_CONFIG"),
    }
    stored = read_topic(kafka.bootstrap_servers, name)
    assert values_of(stored) == [b"good-1", b"bad-2", b"bad-3"]

    assert client.delete(name) == (OK, "")
    assert client.create(name, {}) == (OK, "")
    assert client.produce(name, b"bad-4")[0] == OK
    assert {source for _, source in client.describe(name).values()} == {"DEFAULT_CONFIG"}


def test_the_old_alter_configs_of_librdkafka_resets_omitted_keys(gateway_address, name):
    client = Librdkafka(gateway_address)
    client.create(name, {})

    assert client.replace(name, {POLICY: "policies.NoBad", ENABLED: "true"}) == (OK, "")
    assert client.produce(name, b"bad-1")[0] == POLICY_VIOLATION

    assert client.replace(name, {RETENTION: "3600000"}) == (OK, "")
    assert client.produce(name, b"bad-2")[0] == OK
    assert client.describe(name)[POLICY] == (None, "DEFAULT_CONFIG")


def test_the_old_alter_configs_of_kafka_python_keeps_omitted_keys(gateway_address, name):
    """It describes the set keys, and sets them again: the description must include ours."""
    client = KafkaPython(gateway_address)
    client.create(name, ALLOWED)

    assert client.replace(name, {RETENTION: "3600000"}) == (OK, "")

    assert client.produce(name, b"bad-1")[0] == POLICY_VIOLATION
    assert client.describe(name)[POLICY] == ("policies.NoBad", "DYNAMIC_TOPIC_CONFIG")
    client.close()


# The tools of a Kafka download


class Tools:
    """kafka-configs and kafka-topics, each run in a new process."""

    def __init__(self, address: str, topic: str) -> None:
        self._address = address
        self._topic = topic

    def configs(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_tool(
            "kafka-configs", "--bootstrap-server", self._address, "--topic", self._topic, *arguments
        )

    def topics(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_tool(
            "kafka-topics", "--bootstrap-server", self._address, "--topic", self._topic, *arguments
        )

    def alter(self, *arguments: str) -> None:
        done = self.configs("--alter", *arguments)
        assert done.returncode == 0, done.stderr[-2000:]
        assert done.stdout == f"Completed updating config for topic {self._topic}.\n"

    def described(self) -> set[str]:
        """Return the keys that are set on the topic."""
        first, *lines = self.configs("--describe").stdout.splitlines()
        assert first == f"Dynamic configs for topic {self._topic} are:"
        return {line.strip() for line in lines}

    def produce(self, value: bytes) -> int:
        """Return the error code that a producer gets."""
        records = values(value, timestamp=int(time.time() * 1000))  # retention.ms is changed
        request = produce_request([(self._topic, [(0, encode_batch(records))])])
        with RawClient(self._address) as client:
            (partition,) = produced(client.call(request)).values()
        return partition.error_code


@pytest.mark.kips("B50")
def test_kafka_configs_sets_and_deletes_policies_of_a_topic(gateway_address, name, kafka):
    tools = Tools(gateway_address, name)
    assert tools.topics("--create").returncode == 0

    tools.alter("--add-config", f"{POLICY}=policies.NoBad,{ENABLED}=true")
    assert [tools.produce(b"bad-1"), tools.produce(b"good-1")] == [POLICY_VIOLATION, OK]
    set_on_topic, default = "DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"
    policy, enabled = f"{POLICY}=policies.NoBad", f"{ENABLED}=true"
    assert tools.described() == {
        f"{policy} sensitive=false synonyms={{{set_on_topic}:{policy}}}",
        f"{enabled} sensitive=false synonyms={{{set_on_topic}:{enabled}, {default}:{ENABLED}=false}}",
    }

    tools.alter("--add-config", f"{ENABLED}=false,{RETENTION}=3600000")
    assert tools.produce(b"bad-2") == OK

    tools.alter("--add-config", f"{ENABLED}=true", "--delete-config", f"{POLICY},{RETENTION}")
    assert tools.produce(b"bad-3") == OK
    assert {line.partition(" ")[0] for line in tools.described()} == {f"{ENABLED}=true"}
    stored = read_topic(kafka.bootstrap_servers, name)
    assert values_of(stored) == [b"good-1", b"bad-2", b"bad-3"]


def test_kafka_configs_shows_the_reason_of_a_refusal(gateway_address, name):
    tools = Tools(gateway_address, name)
    Librdkafka(gateway_address).create(name, {})
    wrong = {f"{POLICY}=policies.NotAllowed": MAY_NOT_BE_NAMED, f"{ENABLED}=maybe": NO_BOOLEAN}

    with ThreadPoolExecutor() as at_once:
        runs = at_once.map(lambda configs: tools.configs("--alter", "--add-config", configs), wrong)

    for done, why in zip(runs, wrong.values(), strict=True):
        assert done.returncode == 1
        assert f"InvalidConfigurationException: {why}" in done.stderr


def test_kafka_topics_refuses_our_keys_without_a_request(gateway_address, name, kafka):
    done = Tools(gateway_address, name).topics("--create", "--config", f"{ENABLED}=true")

    assert done.returncode == 1
    assert f"Unknown topic config name: {ENABLED}" in done.stdout
    found = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=60)
    assert name not in found.topics


# Java


@pytest.fixture(scope="module")
def topic_admin() -> list[str]:
    """The command line of TopicAdmin.java."""
    return program(JAVA / "TopicAdmin.java")


def lines_of(command: list[str]) -> list[list[str]]:
    """Run a program; return its lines, split at tabs."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
    return [line.split("\t") for line in done.stdout.splitlines()]


JAVA_OUTPUT = [
    ["not created", "InvalidConfigurationException", MAY_NOT_BE_NAMED],
    ["created"],
    ["described", VALIDATION, "null", "DEFAULT_CONFIG"],
    ["described", POLICY, "policies.NoBad", "DYNAMIC_TOPIC_CONFIG"],
    ["described", ENABLED, "true", "DYNAMIC_TOPIC_CONFIG"],
    ["described", RETENTION, "86400000", "DYNAMIC_TOPIC_CONFIG"],
    ["not stored bad-1", "PolicyViolationException", "bad is not good"],
    ["stored good-1"],
    ["config", VALIDATION, "null", "DEFAULT_CONFIG", "STRING"],
    ["config", POLICY, "policies.NoBad", "DYNAMIC_TOPIC_CONFIG", "CLASS"],
    ["config", ENABLED, "true", "DYNAMIC_TOPIC_CONFIG", "BOOLEAN"],
    ["config", RETENTION, "86400000", "DYNAMIC_TOPIC_CONFIG", "LONG"],
    ["altered"],  # validated only
    ["not stored bad-2", "PolicyViolationException", "bad is not good"],
    ["altered"],
    ["stored bad-3"],
    ["not altered", "InvalidConfigurationException", MAY_NOT_BE_NAMED],
    ["not altered", "InvalidConfigurationException", NO_BOOLEAN],
    ["not altered", "InvalidConfigurationException", NO_LONG],
    ["not altered", "InvalidConfigurationException", NO_LIST],
    ["config", VALIDATION, "null", "DEFAULT_CONFIG", "STRING"],
    ["config", POLICY, "policies.NoBad", "DYNAMIC_TOPIC_CONFIG", "CLASS"],
    ["config", ENABLED, "false", "DYNAMIC_TOPIC_CONFIG", "BOOLEAN"],
    ["config", RETENTION, "86400000", "DYNAMIC_TOPIC_CONFIG", "LONG"],
    ["altered"],
    ["not stored worse-1", "InvalidRecordException", "worse is not good"],
    ["config", VALIDATION, "worse", "DYNAMIC_TOPIC_CONFIG", "STRING"],
    ["config", POLICY, "null", "DEFAULT_CONFIG", "CLASS"],
    ["config", ENABLED, "false", "DEFAULT_CONFIG", "BOOLEAN"],
    ["config", RETENTION, "86400000", "DYNAMIC_TOPIC_CONFIG", "LONG"],
    ["deleted"],
    ["created"],
    ["config", VALIDATION, "null", "DEFAULT_CONFIG", "STRING"],
    ["config", POLICY, "null", "DEFAULT_CONFIG", "CLASS"],
    ["config", ENABLED, "false", "DEFAULT_CONFIG", "BOOLEAN"],
    ["config", RETENTION, "604800000", "DEFAULT_CONFIG", "LONG"],
    ["stored bad-4"],
    ["stored worse-2"],
]


def test_java_sets_and_deletes_policies_of_a_topic(gateway_address, name, topic_admin, kafka):
    """The client of Kafka 4 no longer has alterConfigs."""
    lines = lines_of([*topic_admin, gateway_address, name])

    assert lines == JAVA_OUTPUT
    assert values_of(read_topic(kafka.bootstrap_servers, name)) == [b"bad-4", b"worse-2"]


# Go


KADM_OUTPUT = [
    ["not created", "INVALID_CONFIG", MAY_NOT_BE_NAMED],
    ["created"],
    ["described", VALIDATION, "", "DEFAULT_CONFIG"],
    ["described", POLICY, "policies.NoBad", "DYNAMIC_TOPIC_CONFIG"],
    ["described", ENABLED, "true", "DYNAMIC_TOPIC_CONFIG"],
    ["described", RETENTION, "86400000", "DYNAMIC_TOPIC_CONFIG"],
    ["not stored bad-1", "POLICY_VIOLATION", ""],
    ["stored good-1"],
    ["config", VALIDATION, "null", "DEFAULT_CONFIG"],
    ["config", POLICY, "policies.NoBad", "DYNAMIC_TOPIC_CONFIG"],
    ["config", ENABLED, "true", "DYNAMIC_TOPIC_CONFIG"],
    ["config", RETENTION, "86400000", "DYNAMIC_TOPIC_CONFIG"],
    ["altered"],
    ["stored bad-2"],
    ["not altered", "INVALID_CONFIG", MAY_NOT_BE_NAMED],
    ["not altered", "INVALID_CONFIG", NO_BOOLEAN],
    ["not altered", "INVALID_CONFIG", NO_LONG],
    ["replaced"],
    ["not stored bad-3", "POLICY_VIOLATION", ""],
    ["config", VALIDATION, "null", "DEFAULT_CONFIG"],
    ["config", POLICY, "policies.NoBad", "DYNAMIC_TOPIC_CONFIG"],
    ["config", ENABLED, "true", "DYNAMIC_TOPIC_CONFIG"],
    ["config", RETENTION, "604800000", "DEFAULT_CONFIG"],
    ["altered"],
    ["not stored worse-1", "INVALID_RECORD", ""],
    ["stored bad-4"],
    ["deleted"],
    ["created"],
    ["config", VALIDATION, "null", "DEFAULT_CONFIG"],
    ["config", POLICY, "null", "DEFAULT_CONFIG"],
    ["config", ENABLED, "false", "DEFAULT_CONFIG"],
    ["config", RETENTION, "604800000", "DEFAULT_CONFIG"],
]


@pytest.mark.go
def test_kadm_sets_and_deletes_policies_of_a_topic(gateway_address, name):
    lines = lines_of([*go_program("topics"), gateway_address, name])

    assert lines == KADM_OUTPUT
