"""The audit trail of a gateway: every outcome, with the client, and without contents of records."""

import signal
import subprocess
import time
import uuid
from datetime import UTC, datetime

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from penstock.kafka.local import free_ports
from tests.audit_records import checked, lines_of
from tests.conftest import create_acls, create_topic
from tests.gateways import (
    PENSTOCK,
    RunningGateway,
    gateway_port,
    run_penstock,
    wait_until,
    write_configuration,
)
from tests.integration.reading import read_topic, values_of
from tests.integration.trail import (
    CHECK,
    POLICIES,
    as_user,
    produce,
    secured,
    secured_admin,
    upstream_as,
)
from tests.kafka.records.encoding import encode_batch, values
from tests.metrics import scrape
from tests.raw import RawClient, produce_request
from tests.secured import acl

__all__ = ["secured", "secured_admin"]

TOPICS = {
    "create.topic.policy.class.name": "policies.Small",
    "alter.config.policy.class.name": "policies.Kept",
}
SECRET = (b"secret", b"k3y")


@pytest.fixture
def audit_topic():
    return f"audit-{uuid.uuid4().hex[:8]}"


def records_in(kafka, topic, count):
    """Wait for records in the topic, and return them in the order of their numbers."""

    def found():
        return values_of(read_topic(kafka.bootstrap_servers, topic))

    wait_until(lambda: len(found()) >= count, what=f"{count} records in {topic}")
    lines = found()
    for line in lines:
        for secret in SECRET:
            assert secret not in line
    return sorted((checked(line) for line in lines), key=lambda record: record["number"])


def test_each_outcome_of_records(kafka, gateway, topic, audit_topic):
    before = datetime.now(UTC)
    running = gateway({**CHECK, "audit.topic": audit_topic}, POLICIES)
    name = topic()
    assert produce(
        running.broker_address(), name,
        [b"secret-good"], [b"secret-good", b"secret-bad", b"secret-good", b"bad"],
        [b"secret-fail"], [b"secret-later"],
    ) == [0, 87, -1, 7]  # fmt: skip
    produce(running.broker_address(), name, [b"secret-bad"], client_id=None, acks=0)

    refused, failed, postponed, unanswered = records_in(kafka, audit_topic, 4)
    for refusal in (refused, failed, postponed, unanswered):
        assert refusal["gateway"].endswith(running.address)
        assert (refusal["subject"], refusal["topic"], refusal["partition"]) == ("records", name, 0)
        assert (refusal["address"], refusal["principal"]) == ("127.0.0.1", None)
        assert refusal["policy"] == "policies.Check"
        at = datetime.fromisoformat(refusal["time"])
        assert before.timestamp() - 1 < at.timestamp() < time.time() + 1
    assert refused["reasons"] == [
        {"record": n, "policy": "policies.Check", "message": "bad is not good"} for n in (1, 3)
    ]
    assert [refusal["outcome"] for refusal in (refused, failed, postponed)] == [
        "refused", "failed", "postponed",
    ]  # fmt: skip
    assert [refusal["code"] for refusal in (refused, failed, postponed)] == [87, -1, 7]
    assert [refusal["records"] for refusal in (refused, failed, postponed)] == [4, 1, 1]
    assert [refusal["record_errors"] for refusal in (refused, failed, postponed)] == [2, 0, 0]
    assert (refused["client_id"], unanswered["client_id"]) == ("shop", None)
    assert "ZeroDivisionError" in failed["reasons"][0]["message"]
    assert postponed["reasons"][0]["message"] == "not now"
    digests = {refusal["plan"] for refusal in (refused, failed, postponed, unanswered)}
    (digest,) = digests
    assert f"  plan {digest}\n" in run_penstock("check", running.file).stdout


def test_another_plan_of_a_topic(kafka, gateway, topic, audit_topic):
    name, other = topic(), topic()
    (port,) = free_ports(1)
    properties = {
        "audit.topic": audit_topic,
        "topic.settings.topic": f"settings-{audit_topic}",
        "metrics.listener": f":{port}",
    }
    running = gateway({**CHECK, **properties}, POLICIES)
    wait_until(lambda: f'topic="{other}",plan=' in scrape(port).text, what="plans")
    produce(running.broker_address(), name, [b"bad"])
    admin = AdminClient({"bootstrap.servers": running.address, "client.id": "an admin"})
    entry = ConfigEntry("penstock.mode", "quarantine", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)
    refusal, own = records_in(kafka, audit_topic, 2)
    assert (own["subject"], own["topic"]) == ("plan", name)
    assert (own["former_plan"], own["cause"]) == (refusal["plan"], "topic")
    policies = running.file.with_name("policies.py")
    policies.write_text(f"{policies.read_text()}# changed\n")
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("reloaded")

    def changes():
        records = records_in(kafka, audit_topic, 4)
        return {each["topic"]: each for each in records if each["subject"] == "plan"}

    wait_until(lambda: {name, other} <= changes().keys(), what="changes by the reload")
    assert {change["cause"] for change in changes().values()} == {"reload"}
    assert changes()[name]["former_plan"] == own["plan"]
    assert changes()[other]["former_plan"] == refusal["plan"]


def test_topics_partitions_and_configs(kafka, gateway, audit_topic):
    running = gateway({**TOPICS, "audit.topic": audit_topic}, POLICIES)
    admin = AdminClient({"bootstrap.servers": running.address, "client.id": "an admin"})
    small, large = (f"t-{uuid.uuid4().hex[:8]}" for _ in range(2))
    create_topic(admin, small)
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic(large, 3)])[large].result(60)
    with pytest.raises(KafkaException):
        admin.create_partitions([NewPartitions(small, 5)])[small].result(60)
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, small, incremental_configs=[entry])
    with pytest.raises(KafkaException):
        next(iter(admin.incremental_alter_configs([resource]).values())).result(60)

    created, widened, altered = records_in(kafka, audit_topic, 3)
    assert [(refusal["subject"], refusal["topic"]) for refusal in (created, widened, altered)] == [
        ("topic", large), ("topic", small), ("configs", small),
    ]  # fmt: skip
    assert (altered["resource_type"], altered["resource_name"]) == ("TOPIC", small)
    assert created["policy"] == widened["policy"] == "policies.Small"
    for refusal in (created, widened, altered):
        assert (refusal["outcome"], refusal["code"], refusal["client_id"]) == (
            "refused",
            44,
            "an admin",
        )
        assert (refusal["partition"], refusal["records"], refusal["address"]) == (
            None,
            None,
            "127.0.0.1",
        )
    assert altered["reasons"] == [
        {"record": None, "policy": "policies.Kept", "message": "retention stays"}
    ]


def test_observed_refusals_are_not_in_the_trail(kafka, gateway, topic, audit_topic):
    watched, strict = topic("watched"), topic("strict")
    running = gateway(
        {
            **CHECK,
            **TOPICS,
            "audit.topic": audit_topic,
            "topics.watched-*.penstock.mode": "observe",
        },
        POLICIES,
    )
    batches = [b"secret-bad"], [b"secret-fail"], [b"secret-later"]
    assert produce(running.broker_address(), watched, *batches) == [0, 0, 0]
    for event in ("records would be refused", "policy would fail", "records would be postponed"):
        running.wait_for(event)
    admin = AdminClient({"bootstrap.servers": running.address})
    large = f"watched-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(large, 3)])[large].result(60)
    running.wait_for("topic would be refused")
    assert produce(running.broker_address(), strict, [b"secret-bad"]) == [87]

    (only,) = records_in(kafka, audit_topic, 1)
    # Its number says that nothing is missing before it: nothing else was even left out.
    assert (only["topic"], only["number"]) == (strict, 1)


@pytest.mark.parametrize("policies", [CHECK, TOPICS], ids=["of records", "of topics"])
def test_clients_cannot_write_the_trail_through_the_gateway(
    kafka, gateway, topic, audit_topic, policies
):
    running = gateway({**policies, "audit.topic": audit_topic}, POLICIES)
    assert produce(running.broker_address(), audit_topic, [b"forged"]) == [17]
    assert produce(running.broker_address(), topic(), [b"good"]) == [0]
    assert read_topic(kafka.bootstrap_servers, audit_topic) == []


def test_metrics_count_written_lines(kafka, gateway, topic, audit_topic):
    port = free_ports(1)[0]
    running = gateway({**CHECK, "audit.topic": audit_topic, "metrics.listener": f":{port}"},
                      POLICIES)  # fmt: skip
    produce(running.broker_address(), topic(), *[[b"bad"]] * 30)

    def counted():
        return scrape(port).of("penstock_audit_records_total")

    wait_until(lambda: counted()["written",] == 30, what="30 records")
    assert counted() == {("written",): 30, ("left_out",): 0}
    assert scrape(port)("penstock_audit_held_bytes") == 0


def test_records_that_brokers_always_refuse_are_left_out_and_logged(kafka, admin, gateway, topic):
    audit_topic = topic("audit", **{"max.message.bytes": "100"})
    port = free_ports(1)[0]
    running = gateway({**CHECK, "audit.topic": audit_topic, "metrics.listener": f":{port}"},
                      POLICIES)  # fmt: skip
    assert produce(running.broker_address(), topic(), [b"bad"]) == [87]

    (event,) = running.wait_for("refusals left out of the audit trail")
    assert (event["to"], event["count"]) == (audit_topic, 1)
    assert scrape(port)("penstock_audit_records_total", result="left_out") == 1


@pytest.mark.slow
def test_records_are_written_that_would_be_too_large_together(kafka, gateway, topic):
    audit_topic = topic("audit", **{"max.message.bytes": "1500"})
    running = gateway({**CHECK, "audit.topic": audit_topic}, POLICIES)
    orders = topic(partitions=300)
    bad = encode_batch(values(b"bad"))
    request = produce_request([(orders, [(n, bad) for n in range(300)])])
    with RawClient(running.broker_address(), timeout_s=60) as client:
        client.call(request)

    found = records_in(kafka, audit_topic, 300)
    assert [record["number"] for record in found] == list(range(1, 301))
    assert not running.events("refusals left out of the audit trail")


def started(kafka, folder, properties):
    """Run a gateway that is not expected to start; give its exit code and its output."""
    file = write_configuration(folder, kafka.bootstrap_servers, gateway_port(), properties)
    done = subprocess.run([*PENSTOCK, "gateway", str(file)], capture_output=True, text=True,
                          timeout=120, check=False)  # fmt: skip
    return done.returncode, done.stderr


def test_a_compacted_topic_would_lose_records(kafka, topic, tmp_path):
    name = topic("audit", **{"cleanup.policy": "compact"})
    code, output = started(kafka, tmp_path, {"audit.topic": name})
    assert code == 2
    assert f"audit.topic: {name} has cleanup.policy=compact; it must be delete" in output


def test_a_file_in_a_missing_folder_is_an_error_at_the_start(kafka, tmp_path):
    code, output = started(kafka, tmp_path, {"audit.file": "missing/audit.jsonl"})
    assert code == 2
    assert "audit.file: " in output
    assert "No such file or directory" in output


def test_the_file_over_a_kill_and_a_restart(gateway, topic):
    running = gateway({**CHECK, "audit.file": "audit.jsonl"}, POLICIES)
    path, name = running.file.parent / "audit.jsonl", topic()
    produce(running.broker_address(), name, *[[b"secret-bad"]] * 5)
    wait_until(lambda: len(lines_of(path)) == 5, what="5 lines")
    running.restart(kill=True)
    produce(running.broker_address(), name, *[[b"secret-bad"]] * 3)
    assert running.stop() == 0  # the end waits for queued lines

    found = lines_of(path)
    assert [line["number"] for line in found] == [1, 2, 3, 4, 5, 1, 2, 3]
    assert len({line["run"] for line in found}) == 2
    text = path.read_bytes()
    for secret in SECRET:
        assert secret not in text


@pytest.mark.parametrize("reload", ["works", "fails"])
def test_the_file_is_rotated(gateway, topic, reload):
    running = gateway({**CHECK, "audit.file": "audit.jsonl"}, POLICIES)
    path, name = running.file.parent / "audit.jsonl", topic()
    produce(running.broker_address(), name, [b"bad"])
    wait_until(lambda: len(lines_of(path)) == 1, what="a line")
    old = path.with_suffix(".1")
    path.rename(old)
    if reload == "fails":
        (running.file.parent / "broken").touch()
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("reloaded" if reload == "works"
                     else "not reloaded, the old policies stay in force")  # fmt: skip
    wait_until(path.exists, what="a new file")
    produce(running.broker_address(), name, [b"bad"])
    wait_until(lambda: len(lines_of(path)) == 1, what="a line in the new file")

    assert len(lines_of(old)) == 1
    assert [line["number"] for line in (*lines_of(old), *lines_of(path))] == [1, 2]


def allow(admin, name, user, *operations):
    create_acls(admin, *(acl(name, operation, user=user) for operation in operations))


def test_the_principal_is_the_authenticated_user(secured, secured_admin, tmp_path):
    create_topic(secured_admin, "orders")
    allow(secured_admin, "orders", "alice", AclOperation.ALL)
    file = write_configuration(
        tmp_path, secured.bootstrap_servers, gateway_port(),
        {**CHECK, **upstream_as("admin"), "audit.file": "audit.jsonl"}, POLICIES,
    )  # fmt: skip
    running = RunningGateway(file)
    try:
        producer = Producer({**as_user(running.address, "alice"), "client.id": "her shop"})
        producer.produce("orders", b"secret-bad")
        assert producer.flush(60) == 0
        wait_until(lambda: lines_of(tmp_path / "audit.jsonl"), what="a line")
    finally:
        running.stop()

    (found,) = lines_of(tmp_path / "audit.jsonl")
    assert (found["principal"], found["client_id"], found["address"], found["topic"]) == (
        "User:alice", "her shop", "127.0.0.1", "orders",
    )  # fmt: skip


def test_a_missing_write_permission_is_an_error(secured, secured_admin, tmp_path):
    create_topic(secured_admin, "no-trail")
    allow(secured_admin, "no-trail", "trail", AclOperation.DESCRIBE)
    properties = {**upstream_as("trail"), "audit.topic": "no-trail"}
    code, output = started(secured, tmp_path, properties)
    assert code == 2
    assert "Write is not allowed; the principal of upstream.* needs Describe and Write" in output
    code, output = started(secured, tmp_path, {**properties, "audit.topic": "not-there"})
    assert code == 2
    assert "needs Describe and Write on it, and Create if it does not exist" in output


@pytest.mark.slow
def test_a_permission_revoked_for_a_while_loses_no_refusal(secured, secured_admin, tmp_path):
    for name in ("judged", "kept-trail"):
        create_topic(secured_admin, name)
    allow(secured_admin, "judged", "alice", AclOperation.ALL)
    allow(secured_admin, "kept-trail", "trail", AclOperation.ALL)
    file = write_configuration(
        tmp_path, secured.bootstrap_servers, gateway_port(),
        {**CHECK, **upstream_as("trail"), "audit.topic": "kept-trail"}, POLICIES,
    )  # fmt: skip
    running = RunningGateway(file)
    producer = Producer(as_user(running.address, "alice"))

    def refuse(count):
        for _ in range(count):
            producer.produce("judged", b"secret-bad")
            assert producer.flush(60) == 0  # refused, and answered

    def found():
        settings = {key: value for key, value in as_user("", "admin").items() if value}
        stored = read_topic(secured.bootstrap_servers, "kept-trail", settings=settings)
        return [checked(line)["number"] for line in values_of(stored)]

    try:
        refuse(2)
        wait_until(lambda: found() == [1, 2], what="the first refusals")
        denied = acl("kept-trail", AclOperation.WRITE, AclPermissionType.DENY, user="trail")
        create_acls(secured_admin, denied)
        refuse(3)
        running.wait_for("the audit trail cannot be written now")
        refuse(3)
        rule = AclBindingFilter(
            ResourceType.TOPIC, "kept-trail", ResourcePatternType.LITERAL, "User:trail", "*",
            AclOperation.WRITE, AclPermissionType.DENY,
        )  # fmt: skip
        for done in secured_admin.delete_acls([rule]).values():
            done.result(60)
        wait_until(lambda: len(found()) >= 8, what="what was kept")
        assert sorted(set(found())) == list(range(1, 9))
        running.wait_for("the audit trail is written again")
    finally:
        running.stop()
    assert not running.events("refusals left out of the audit trail")
