"""Commands about topics: audit --topics, check, explain, and the file read again on SIGHUP."""

import signal
import uuid

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.conftest import delete_topic
from tests.gateways import run_penstock, without_waiting, write_configuration

POLICIES = """
from penstock.policy import *
class Small(CreateTopicPolicy):
    def validate(self, request):
        if request.topic.startswith("audited-") and request.num_partitions > 3:
            raise PolicyViolationException(f"{request.num_partitions} are more than 3")
        if request.topic.startswith("audited-odd-"):
            raise ValueError("secret")
class Short(AlterConfigPolicy):
    def validate(self, request):
        if int(request.configs.get("retention.ms", 0)) > 1000000000:
            raise PolicyViolationException("too long")
class Curly(RecordsPolicy):
    def validate(self, topic, partition, records):
        if any(not record.value.startswith(b"{") for record in records):
            raise PolicyViolationException("not curly")
"""
BOTH = {
    "create.topic.policy.class.name": "policies.Small",
    "alter.config.policy.class.name": "policies.Short",
    "topic.settings.topic": "",
}


def test_audit_of_topics_lists_topics_that_would_be_refused(kafka, topic, admin, tmp_path):
    large = topic("audited-large", 4)
    long = topic("audited-long", 1, **{"retention.ms": "2000000000"})
    odd = topic("audited-odd", 1)
    fine = topic("audited-fine", 3)
    file = write_configuration(tmp_path, kafka.bootstrap_servers, 9192, BOTH, POLICIES)

    done = run_penstock("audit", "--topics", file)

    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert "topics judged" in lines[0]
    assert f"  {large}  policies.Small  44  4 are more than 3" in lines
    assert f"  {long}  policies.Short  44  too long" in lines
    assert any(line.startswith(f"  {odd}  policies.Small  -1  ValueError at ") for line in lines)
    assert "secret" not in done.stdout
    assert not any(fine in line or "__consumer_offsets" in line for line in lines)
    for name in (large, long, odd):
        delete_topic(admin, name)


def test_audit_of_topics_is_0_without_refusals(kafka, tmp_path):
    rules = {
        "create.topic.policy.class.name": "penstock.policies.TopicRules",
        "topic.rules.partitions.max": "1000",
    }
    file = write_configuration(tmp_path, kafka.bootstrap_servers, 9192, rules)
    done = run_penstock("audit", "--topics", file)
    assert (done.returncode, without_waiting(done.stderr)) == (0, "")
    assert "0 refused, 0 failed" in done.stdout


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("properties", "more", "code", "text"),
    [
        ({}, (), 2, "--topics needs create.topic.policy.class.name"),
        (BOTH, ("--topic", "t"), 2, "--topics judges all topics"),
        (BOTH, ("--bootstrap-server", "127.0.0.1:1"), 3, "127.0.0.1:1"),
        ({"create.topic.policy.class.name": "policies.Nobody"}, (), 2, "no class Nobody"),
        (
            {
                "create.topic.policy.class.name": "penstock.policies.TopicRules",
                "topic.rules.partition.max": "3",
            },
            (),
            2,
            "topic.rules.partitions.max",
        ),
    ],
)
def test_wrong_arguments_are_reported(kafka, tmp_path, properties, more, code, text):
    file = write_configuration(tmp_path, kafka.bootstrap_servers, 9192, properties, POLICIES)
    done = run_penstock("audit", "--topics", file, *more)
    assert done.returncode == code
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_check_loads_and_shows_policies_of_topics(kafka, tmp_path):
    properties = {**BOTH, "records.policy.class.names.allowed": "policies.*"}
    del properties["topic.settings.topic"]
    file = write_configuration(tmp_path, kafka.bootstrap_servers, 9192, properties, POLICIES)
    done = run_penstock("check", file)
    assert done.returncode == 0, done.stderr
    assert "create.topic.policy.class.name policies.Small" in done.stdout
    assert "alter.config.policy.class.name policies.Short" in done.stdout
    assert "__penstock_topic_settings" in done.stdout
    assert "topics may name policies.*" in done.stdout

    broken = POLICIES.replace("class Short(", "class Long(")
    file = write_configuration(tmp_path, kafka.bootstrap_servers, 9192, properties, broken)
    done = run_penstock("check", file)
    assert done.returncode == 2
    assert "alter.config.policy.class.name: policies.Short" in done.stderr


def refusal(of):
    with pytest.raises(KafkaException) as caught:
        of.result(30)
    return caught.value.args[0].code(), caught.value.args[0].str()


def test_sighup_reloads_the_whole_file_or_no_part_of_it(gateway, topic):
    running = gateway({**BOTH, "record.validator.classes": ""}, POLICIES)
    admin = AdminClient({"bootstrap.servers": running.address})
    folder, name = running.file.parent, f"audited-{uuid.uuid4().hex[:8]}"
    workers = set(running.workers())

    def create():
        return admin.create_topics([NewTopic(name, 4)])[name]

    assert refusal(create()) == (44, "4 are more than 3")

    (folder / "policies.py").write_text(POLICIES.replace("than 3", "than three"))
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("reloaded")
    assert refusal(create()) == (44, "4 are more than three")

    empty, missing = "record.validator.classes=\n", "record.validator.classes=policies.Missing\n"
    text = running.file.read_text()
    assert empty in text
    running.file.write_text(f"{text.replace(empty, missing)}\nadvertised.host=elsewhere\n")
    (folder / "policies.py").write_text(POLICIES.replace("than 3", "than others"))
    running.process.send_signal(signal.SIGHUP)
    (failed,) = running.wait_for("not reloaded, the old policies stay in force")
    assert "policies.Missing" in failed["reason"]
    assert refusal(create()) == (44, "4 are more than three")

    text = running.file.read_text().replace("policies.Missing", "")
    running.file.write_text(text.replace("policies.Small", "policies.Large"))
    (folder / "policies.py").write_text(POLICIES.replace("Small", "Large").replace("> 3", "> 9"))
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("reloaded", count=2)
    create().result(30)
    (restart,) = running.wait_for("these keys have changed and take effect at a restart")
    assert restart["keys"] == ["advertised.host"]
    assert workers.isdisjoint(running.workers()), "a process of the first policies still runs"


def test_explain_uses_topic_configs(gateway, topic, admin, kafka):
    settings = f"settings-{uuid.uuid4().hex[:8]}"
    running = gateway(
        {"records.policy.class.names.allowed": "policies.*", "topic.settings.topic": settings},
        POLICIES,
    )
    name = f"explained-{uuid.uuid4().hex[:8]}"
    own = {"records.policy.class.name": "policies.Curly", "records.policy.enabled": "true"}
    through = AdminClient({"bootstrap.servers": running.address})
    through.create_topics([NewTopic(name, 1, config=own)])[name].result(30)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(name, b"round", partition=0)
    assert producer.flush(60) == 0

    done = run_penstock("explain", running.file, "--topic", name, "--offset", "0:0")

    assert done.returncode == 1, done.stderr
    assert "policies.Curly: refused with 44: not curly" in done.stdout
