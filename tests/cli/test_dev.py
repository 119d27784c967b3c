"""What `penstock dev` tells a new user."""

import shlex
import sys
from pathlib import Path

from penstock.cli.dev import _create_topics, _greet, _named_topics, _read
from penstock.configuration import Address, load_configuration
from penstock.engine.plans.plan import Plan

KAFKA, GATEWAY, CONSOLE = "k:1", Address("127.0.0.1", 2), Address("127.0.0.1", 3)


def pasted(output: str) -> list[list[str]]:
    return [shlex.split(line) for line in output.splitlines() if "penstock.local.produce" in line]


def test_the_command_can_be_pasted_wherever_the_clone_is(capsys, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/home/a b/pen$tock/.venv/bin/python")
    _greet(Path("f"), KAFKA, GATEWAY, CONSOLE, Path("/tmp/it's mine"), ["orders"])

    output = capsys.readouterr().out
    assert pasted(output) == [
        [
            "/home/a b/pen$tock/.venv/bin/python",
            "-m",
            "penstock.local.produce",
            "127.0.0.1:2",
            "orders",
            '{"id": 1, "amount": 12.5}',
            '{"id": 2, "amount": -1}',
        ]
    ]
    assert "http://127.0.0.1:3/ " in output


def test_with_a_file_the_command_is_for_its_first_topic(capsys):
    _greet(Path("f"), KAFKA, GATEWAY, CONSOLE, None, ["pay ments", "orders"])
    [command] = pasted(capsys.readouterr().out)
    assert command[3:] == ["127.0.0.1:2", "pay ments", "{}"]


def test_a_file_that_names_no_topic_has_no_command(capsys):
    _greet(Path("f"), KAFKA, GATEWAY, CONSOLE, None, [])
    assert pasted(capsys.readouterr().out) == []


def test_topics_are_those_without_a_wildcard(tmp_path):
    file = tmp_path / "f.properties"
    file.write_text(
        "upstream.bootstrap.servers=k:1\n"
        "topics.b-*.records.policy.enabled=false\n"
        "topics.orders.records.policy.enabled=false\n"
        "topics.orders.penstock.mode=observe\n"
        "topics.a?.records.policy.enabled=false\n"
    )
    assert _named_topics(load_configuration(file)) == ["orders"]


def test_a_topic_that_cannot_be_created_is_one_line(kafka, capsys):
    _create_topics(kafka.bootstrap_servers, ["no topic", "dev-can-create-this"])
    assert capsys.readouterr().out.startswith("topic no topic is not created: ")
    _create_topics(kafka.bootstrap_servers, ["dev-can-create-this"])
    assert "already exists" in capsys.readouterr().out


def test_dead_letter_topics_fit_a_cluster_of_one_broker(tmp_path):
    file = tmp_path / "penstock.properties"
    file.write_text(
        "upstream.bootstrap.servers=kafka:9092\n"
        "record.validator.classes=a.B\n"
        "penstock.mode=quarantine\n"
        "errors.deadletterqueue.topic.replication.factor=3\n"
    )
    configuration = _read(file, "127.0.0.1:9")
    plan = Plan(configuration.policies).for_topic("orders")
    assert plan is not None
    assert (plan.dead_letter_topic, plan.dead_letter_replicas) == ("orders.dead", 1)
