"""What to do next: commands that the program takes, and keys of the file."""

import shlex

import pytest

from penstock.cli import complete_parser
from penstock.jobs.report.next_steps import keys_in_force, next_steps
from tests.jobs.report.samples import records, report_of

SPLIT = "good, bad = split_rows(rows, plan)"


def lines(*some, **about):
    return [block for step in next_steps(report_of(*some, **about)) for block in step.blocks]


@pytest.mark.system  # the parser of all commands imports PySpark
@pytest.mark.parametrize(
    ("source", "name"), [("orders", "orders"), ("orders,o*", "orders"), ("o*", "a b")]
)
@pytest.mark.parametrize("server", [None, "kafka:9092"])
def test_the_commands_are_commands(source, name, server):
    commands = lines(
        records(name, count=9), records(name, first=7, message="bad"),
        records("other", count=5), source=source, bootstrap_server=server,
    )  # fmt: skip
    as_typed = [line.replace("\\\n", "") for line in commands]
    parser, _ = complete_parser()
    parsed = [parser.parse_args(shlex.split(line)[1:]) for line in as_typed]
    assert [arguments.command for arguments in parsed] == ["explain", "split", "gateway", "audit"]
    explain, split, _, audit = parsed
    assert (explain.topic, explain.offset) == (name, "0:7")
    assert (split.accepted.name, split.rejected.name) == (f"{name}-clean", f"{name}-dead")
    assert audit.topic == source
    assert {explain.bootstrap_server, split.bootstrap_server, audit.bootstrap_server} == {server}


def test_without_bad_records_there_is_no_split():
    assert [line.split()[1] for line in lines(records(count=9))] == ["gateway", "audit"]
    assert [line.split()[1] for line in lines()] == ["gateway", "audit"]


def test_files_are_audited_again_as_files():
    [gateway, audit] = lines(records(message="bad"), source="in.parquet", is_topic=False)
    assert "--input in.parquet" in audit
    assert "gateway" in gateway


def test_the_keys_that_judge_come_before_the_gateway():
    keys = ("a=b", "c=d")
    gateway, _ = next_steps(report_of(records(), keys=keys))
    assert gateway.blocks == ("a=b\nc=d", "penstock gateway /etc/penstock.properties")


def test_only_keys_that_enable_the_policies_of_these_topics_are_shown():
    properties = {
        "upstream.bootstrap.servers": "kafka:9092",
        "upstream.sasl.jaas.config": "password=secret",
        "record.validator.classes": "a.B",
        "produce.request.interceptors": "c.D",
        "record.validation.policy.class.name": "e.F",
        "topics.orders*.record.validation.policy": "order.json",
        "topics.orders.eu.records.policy.enabled": "true",
        "topics.clicks.record.validation.policy": "click.json",
        "topics.orders.secret": "secret",
        "some.key": "secret",
    }
    declared = {"topics.orders*.shop.level": "high", "topics.other.shop.level": "low"}
    assert keys_in_force(declared, ["orders.eu"], ["shop.level"]) == (
        "topics.orders*.shop.level=high",
    )
    assert keys_in_force(properties, ["orders.eu"]) == (
        "record.validator.classes=a.B",
        "produce.request.interceptors=c.D",
        "record.validation.policy.class.name=e.F",
        "topics.orders*.record.validation.policy=order.json",
        "topics.orders.eu.records.policy.enabled=true",
    )


@pytest.mark.system  # the parser of all commands imports PySpark
@pytest.mark.parametrize(("why", "splits"), [({}, []), ({"message": "bad"}, [SPLIT])])
def test_rows_are_split_in_a_notebook_and_audited_again_as_rows(why, splits):
    *split, audit = lines(records(**why), source="table:a b", is_topic=False, is_rows=True)
    assert [block.splitlines()[-1] for block in split] == splits
    parser, _ = complete_parser()
    parsed = parser.parse_args(shlex.split(audit.replace("\\\n", ""))[1:])
    assert (parsed.command, parsed.input, parsed.rows) == ("audit", "table:a b", True)


def test_a_frame_has_a_plan_already():
    about = {"source": "a frame", "is_topic": False, "is_rows": True}
    assert lines(records(message="bad"), **about) == [
        f"from penstock.spark import split_rows\n{SPLIT}"
    ]
    assert lines(records(), **about) == []
