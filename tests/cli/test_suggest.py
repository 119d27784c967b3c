"""`penstock suggest`: proposals from a file or from a topic."""

import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from penstock import cli
from tests.conftest import create_topic

VALUES = [json.dumps({"id": n, "kind": "ab"[n % 2]}).encode() for n in range(300)]


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps({"key": "k", "value": v.decode()}) + "\n" for v in VALUES))
    return path


def run(*arguments):
    return cli.main([str(argument) for argument in ("suggest", *arguments)])


def test_suggestions_from_a_file_of_records(file, lines, tmp_path, capsys):
    out = tmp_path / "out"
    before = file.read_text()
    assert run(file, "--topic", "t", "--input", lines, "--output", out) == 0
    shown = capsys.readouterr().out
    assert "topic t: 300 records" in shown
    assert 'policies.t-rules.rules.kind=value.kind in ["a", "b"]' in shown
    assert json.loads((out / "t.schema.json").read_text())["required"] == ["id", "kind"]
    written = (out / "suggested.properties").read_text()
    assert written in shown
    assert file.read_text() == before
    assert run(file, "--topic", "t", "--input", lines, "--output", out) == 2
    assert "exists already; no file is overwritten" in capsys.readouterr().err


def test_suggestions_from_a_sample_are_counted_over_all_records(file, tmp_path, capsys):
    lines, out = tmp_path / "records.jsonl", tmp_path / "out"
    bad = [b'{"id": 1}', b'{"id": "1", "kind": "a"}', b'{"id": 2, "kind": "c"}']
    lines.write_text(
        "".join(
            json.dumps(
                {"topic": "t", "partition": 0, "offset": n, "key": "k!", "value": v.decode()}
            )
            + "\n"
            for n, v in enumerate([*VALUES, *bad])
        )
    )
    assert run(file, "--topic", "t", "--input", lines, "--limit", 250, "--output", out) == 0
    whole = out / "whole.properties"
    whole.write_text(file.read_text() + (out / "suggested.properties").read_text())

    report = tmp_path / "report"
    audit = ["audit", whole, "--input", lines, "--local", "--report", report]
    assert cli.main([str(argument) for argument in audit]) == 0
    found = json.loads((report / "report.json").read_text())
    assert (found["judged"], found["refused"]) == (303, 3)
    assert {reason["policy"] for reason in found["reasons"]} <= {"t-schema", "t-rules"}


def test_no_more_records_than_the_limit_are_read(file, lines, capsys):
    assert run(file, "--topic", "t", "--input", lines, "--limit", 7) == 0
    assert "topic t: 7 records" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "none.jsonl"], "--input none.jsonl: cannot be read"),
        (["--input", "/dev/null"], "there are no records of t to read"),
        (["--tolerance", "0.7", "--input", "/dev/null"], "--tolerance must be less than 0.5"),
    ],
)
def test_wrong_arguments(file, arguments, message, capsys):
    assert run(file, "--topic", "t", *arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../../x", "..", "a/b", "x" * 250])
def test_the_topic_is_no_path(file, lines, tmp_path, capsys, name):
    out = tmp_path / "a" / "out"
    for options in ([file, "--input", lines], ["--rows", "--input", lines]):
        assert run(*options, f"--topic={name}", "--output", out) == 2
        assert f"--topic {name}: " in capsys.readouterr().err
    assert not list(tmp_path.glob("**/*.schema.json"))


def test_suggestions_from_a_topic_of_the_cluster(file, kafka, capsys):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    name = "suggest-orders"
    create_topic(admin, name, 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "compression.type": "zstd"})
    for number, value in enumerate(VALUES):
        producer.produce(name, value, key=b"k", partition=number % 2, headers={"trace": b"x"})
    assert producer.flush(60) == 0
    server = ("--bootstrap-server", kafka.bootstrap_servers)
    assert run(file, "--topic", name, *server) == 0
    shown = capsys.readouterr().out
    assert f"topic {name}: 300 records" in shown
    assert "every record has the headers trace" in shown
    assert run(file, "--topic", name, *server, "--from", "0:100,1:150") == 0
    assert f"topic {name}: 50 records" in capsys.readouterr().out
    assert run(file, "--topic", name, *server, "--from", "latest") == 2
    assert "there are no records" in capsys.readouterr().err
    assert run(file, "--topic", "suggest-none", *server) in {2, 3}
    assert "suggest-none" in capsys.readouterr().err


def test_an_unavailable_cluster_is_3(file, capsys, monkeypatch):
    from penstock.kafka.cluster import offsets
    from penstock.kafka.cluster.errors import ClusterError

    def unavailable(*_):
        raise ClusterError("away")

    monkeypatch.setattr(offsets.Cluster, "topic", unavailable)
    assert run(file, "--topic", "t") == 3
    assert "127.0.0.1:1: away" in capsys.readouterr().err


def test_control_characters_are_not_printed(file, tmp_path, capsys):
    path = tmp_path / "records.jsonl"
    line = {"key": "k", "value": {"a\x1b[2Jx\x9b\u202e": 1}}
    path.write_text((json.dumps(line) + "\n") * 100)
    assert run(file, "--topic", "t", "--input", path) == 0
    shown = capsys.readouterr().out
    assert "1 properties" in shown
    assert all(character.isprintable() for character in shown.replace("\n", ""))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topic", "t", "--input", "a"], "name FILE; only rows (--rows) are read without it"),
        (["FILE", "--input", "a"], "name --topic T; only rows (--rows) are read without it"),
        (["FILE", "--topic", "t", "--master", "local"], "--master requires --rows"),
        (["--rows"], "--rows: name the rows: --input PATH, or --input table:NAME"),
        (["--rows", "--input", "a", "--bootstrap-server", "a:1"], "no cluster is needed"),
    ],
)
def test_records_need_a_file_and_a_topic_and_rows_an_input(file, arguments, message, capsys):
    assert run(*(str(file) if text == "FILE" else text for text in arguments)) == 2
    assert message in capsys.readouterr().err
