"""The names of dead letter topics at work: what a client reaches with the gateway's principal."""

import json

import pytest
from confluent_kafka import KafkaException, Producer, TopicCollection
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from penstock.engine.topic_configs.index import TopicConfigRecord, topic_key
from tests.conftest import create_topic
from tests.gateways import RunningGateway, gateway_port, wait_until, write_configuration
from tests.integration.reading import read_topic, topic_id
from tests.integration.secure_brokers import secured, secured_admin
from tests.secured import acl, as_admin, as_alice, files, upstream_as_admin

__all__ = ["files", "secured", "secured_admin"]

pytestmark = [pytest.mark.system, pytest.mark.thorough]

NAME = "errors.deadletterqueue.topic.name"
SETTINGS = "__penstock_topic_settings"
POLICIES = """
from penstock.policy import *

class Check(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("it is bad") if value.startswith(b"bad") else None

class Names(CreateTopicPolicy):
    def validate(self, request):
        if request.topic.startswith("loose"):
            raise PolicyViolationException(
                f"no {request.topic} with {request.num_partitions}, {request.replication_factor}, "
                f"{sorted(request.configs)}")
"""
FILE = {
    "record.validator.classes": "policies.Check",
    "create.topic.policy.class.name": "policies.Names",
    "policies": "keys",
    "policies.keys.type": "KeyRequired",
    "penstock.mode": "quarantine",
    "topics.orders.penstock.mode": "enforce",
    "topics.orders.penstock.policies": "keys",
    "topics._*.errors.deadletterqueue.topic.name": "_${topic}",
    "topics.pre-*.errors.deadletterqueue.topic.name": "suf${topic}",
    "errors.deadletterqueue.topic.replication.factor": "1",
}


class Attack:
    """A gateway before a Kafka with ACLs, its client `alice`, and what the broker has stored."""

    def __init__(self, running, kafka, files, tls):
        self.running, self.kafka, self.files = running, kafka, files
        login = as_alice(running.address, files)
        self.settings = login if tls else {**login, "security.protocol": "SASL_PLAINTEXT"}
        self.alice = AdminClient(self.settings)

    def alter(self, topic, key, value):
        """Set a key on a topic as alice; return the error, or None."""
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        return error_of(self.alice.incremental_alter_configs([resource])[resource])

    def create(self, topic, **configs):
        """Create a topic with configs as alice; return the error, or None."""
        new = NewTopic(topic, 1, 1, config={k.replace("__", "."): v for k, v in configs.items()})
        return error_of(self.alice.create_topics([new])[topic])

    def produce(self, topic, *values):
        """Send records, one in each batch; return the errors, or None."""
        seen = []
        producer = Producer({**self.settings, "message.timeout.ms": 60_000, "linger.ms": 0})
        for value in values:
            producer.produce(
                topic, value, key=b"k", on_delivery=lambda error, _: seen.append(error)
            )
            producer.flush(90)
        return seen

    def refused(self, topic, value, why):
        """Send a record that is refused, with a reason that the log has: librdkafka has it not."""
        (error,) = self.produce(topic, value)
        assert error.code() == 87
        wait_until(lambda: any(why in json.dumps(event) for event in list(self.running.log)))

    def stored(self, topic):
        """Return the values in a topic at the broker; None if it does not exist."""
        login = as_admin(self.kafka.bootstrap_servers, self.files)
        if topic not in AdminClient(login).list_topics(timeout=30).topics:
            return None
        return [row[2] for row in read_topic(self.kafka.bootstrap_servers, topic, settings=login)]


def error_of(done):
    try:
        done.result(60)
    except KafkaException as error:
        return error.args[0]
    return None


@pytest.fixture(scope="module", params=[("1", True), ("0", False)], ids=["native+tls", "python"])
def attack(request, secured, files, secured_admin, tmp_path_factory):
    lane, tls = request.param
    port = gateway_port()
    protocol = "SASL_SSL" if tls else "SASL_PLAINTEXT"
    file = write_configuration(
        tmp_path_factory.mktemp("names"),
        secured.bootstrap_servers,
        port,
        {
            **FILE,
            "listeners": f"{protocol}://127.0.0.1:{port}",
            **({"ssl.keystore.location": files.key("gateway.pem", "127.0.0.1")} if tls else {}),
            **upstream_as_admin(files),
        },
        POLICIES,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENSTOCK_NATIVE_LANE", lane)
        running = RunningGateway(file)
    rights = [acl(name) for name in ("ord", "_penstock_topic_settings")]
    prefixes = [
        acl(name, operation, pattern=ResourcePatternType.PREFIXED)
        for name in ("mine-", "loose-", "pre-")
        for operation in (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS)
    ]
    for done in secured_admin.create_acls([*rights, *prefixes]).values():
        done.result(60)
    existing = secured_admin.list_topics(timeout=30).topics
    if "orders" not in existing:
        create_topic(secured_admin, "orders")
    yield Attack(running, secured, files, tls)
    assert running.stop() == 0


def ensured(admin, topic, partitions=1):
    if topic not in admin.list_topics(timeout=30).topics:
        create_topic(admin, topic, partitions)


@pytest.mark.cases(1)
def test_a_client_does_not_reach_a_topic_whose_name_begins_with_that_of_its_own(
    attack, secured_admin
):
    ensured(secured_admin, "ord")
    for error in (
        attack.alter("ord", NAME, "${topic}ers"),
        attack.create("ord", errors__deadletterqueue__topic__name="${topic}ers"),
        attack.alter("ord", NAME, "orders"),
    ):
        assert error is not None
    assert attack.alter("ord", NAME, "${topic}ers").name() == "INVALID_CONFIG"
    # What an earlier version of the gateway stored has no effect.
    record = TopicConfigRecord("ord", {NAME: "${topic}ers"}, "older")
    key = topic_key(topic_id(secured_admin, "ord")).encode()
    _write(attack, SETTINGS, key, record.encode())
    attack.running.restart()
    assert attack.produce("ord", b"bad 1") == [None]
    assert attack.stored("orders") == []
    assert b"bad 1" in attack.stored("ord.dead")


@pytest.mark.cases(1)
def test_a_client_does_not_reach_the_topics_of_the_gateway(attack, secured_admin):
    ensured(secured_admin, "_penstock_topic_settings")
    before = attack.stored(SETTINGS)
    forged = json.dumps({"version": 1, "topic": "orders", "settings": {"penstock.mode": "observe"},
                         "gateway": "x"}).encode()  # fmt: skip
    attack.refused("_penstock_topic_settings", b"bad" + forged, "the topic of topic.settings.topic")
    assert attack.stored(SETTINGS) == before


@pytest.mark.cases(1)
def test_a_topic_with_policies_of_its_own_gets_no_dead_letters(attack, secured_admin):
    """Its policies are set by another principal, while dead letters go there."""
    topic = f"mine-{attack.running.pid}"
    create_topic(secured_admin, topic)
    assert attack.produce(topic, b"bad 1") == [None]
    dead = f"{topic}.dead"
    assert attack.stored(dead) == [b"bad 1"]
    assert attack.alter(dead, "penstock.policies", "keys") is None
    assert attack.produce(topic, b"good") == [None]
    why = f"{dead}, the dead letter topic of {topic}, has its own policies"
    attack.refused(topic, b"bad 2", why)
    assert attack.stored(dead) == [b"bad 1"]
    assert attack.stored(topic) == [b"good"]
    assert attack.alter(dead, "penstock.policies", "") is None
    assert attack.produce(topic, b"bad 3") == [None]


def test_a_policy_judges_the_topics_that_the_gateway_creates(attack, secured_admin):
    topic = f"loose-{attack.running.pid}"
    create_topic(secured_admin, topic, 3)
    attack.refused(topic, b"bad 1", f"no {topic}.dead with 3, 1, ['max.message.bytes']")
    for value in (b"bad 2", b"bad 3"):
        attack.refused(topic, value, f"{topic}.dead cannot be created: no {topic}.dead")
    requests = [event for event in attack.running.log if event.get("topic") == f"{topic}.dead"]
    assert len(requests) == 1, "the policy does not judge it for each batch"
    assert attack.produce(topic, b"good") == [None]
    assert attack.stored(f"{topic}.dead") is None
    assert attack.stored(topic) == [b"good"]


@pytest.mark.cases(1)
def test_a_client_without_the_right_to_create_gets_one_dead_letter_topic(attack, secured_admin):
    topic = f"pre-{attack.running.pid}"
    create_topic(secured_admin, topic, 3)
    assert attack.create(f"{topic}-other").name() == "TOPIC_AUTHORIZATION_FAILED"
    assert attack.produce(topic, b"bad 1") == [None]
    assert attack.stored(f"suf{topic}") == [b"bad 1"]
    found = secured_admin.describe_topics(_collection(f"suf{topic}"))[f"suf{topic}"].result(60)
    assert len(found.partitions) == 3
    assert attack.alter(topic, NAME, "${topic}.dead") is None
    attack.refused(topic, b"bad 2", f"topic suf{topic} exists")
    assert attack.stored(f"{topic}.dead") is None


def _collection(topic):
    return TopicCollection([topic])


def _write(attack, topic, key, value):
    producer = Producer(as_admin(attack.kafka.bootstrap_servers, attack.files))
    producer.produce(topic, value, key)
    assert producer.flush(60) == 0
