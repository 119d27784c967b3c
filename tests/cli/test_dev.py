"""The output of `penstock dev` for a new user."""

import asyncio
import os
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from penstock.cli.dev import (
    _create_topics,
    _greet,
    _named_topics,
    _read,
    _reload_when_saved,
    _saved,
    _Terminal,
)
from penstock.cli.process.reloading import NOT_RELOADED
from penstock.configuration import Address, load_configuration
from penstock.engine.plans.plan import Plan
from penstock.engine.verdict import STORED, Outcome, PolicyVerdict
from penstock.gateway.refusal_log import Refused, _event
from tests.gateways import is_running, wait_until

KAFKA, GATEWAY, CONSOLE = "k:1", Address("127.0.0.1", 2), Address("127.0.0.1", 3)


def command_in(output: str) -> list[list[str]]:
    return [
        shlex.split(line) for line in output.splitlines() if "penstock.kafka.local.produce" in line
    ]


def test_the_command_can_be_pasted_for_any_path_of_the_clone(capsys, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/home/a b/pen$tock/.venv/bin/python")
    _greet(Path("f"), KAFKA, GATEWAY, CONSOLE, Path("/tmp/it's mine"), ["orders"])

    output = capsys.readouterr().out
    assert command_in(output) == [
        [
            "/home/a b/pen$tock/.venv/bin/python",
            "-m",
            "penstock.kafka.local.produce",
            "127.0.0.1:2",
            "orders",
            '{"id": 1, "amount": 12.5}',
            '{"id": 2, "amount": -1}',
        ]
    ]
    assert "http://127.0.0.1:3/ " in output


def test_with_a_file_the_command_is_for_its_first_topic(capsys):
    _greet(Path("f"), KAFKA, GATEWAY, CONSOLE, None, ["pay ments", "orders"])
    [command] = command_in(capsys.readouterr().out)
    assert command[3:] == ["127.0.0.1:2", "pay ments", "{}"]


def test_for_a_file_without_topics_no_command_is_shown(capsys):
    _greet(Path("f"), KAFKA, GATEWAY, CONSOLE, None, [])
    assert command_in(capsys.readouterr().out) == []


def test_only_topics_without_a_wildcard_are_created(tmp_path):
    file = tmp_path / "f.properties"
    file.write_text(
        "upstream.bootstrap.servers=k:1\n"
        "topics.b-*.records.policy.enabled=false\n"
        "topics.orders.records.policy.enabled=false\n"
        "topics.orders.penstock.mode=observe\n"
        "topics.a?.records.policy.enabled=false\n"
    )
    assert _named_topics(load_configuration(file)) == ["orders"]


def test_a_topic_that_cannot_be_created_is_reported_in_a_single_line(kafka, tmp_path, capsys):
    file = tmp_path / "penstock.properties"
    _create_topics(kafka.bootstrap_servers, file, ["no topic", "dev-can-create-this"])
    assert capsys.readouterr().out.startswith("topic no topic is not created: ")
    _create_topics(kafka.bootstrap_servers, file, ["dev-can-create-this"])
    assert "already exists" in capsys.readouterr().out


def test_dead_letter_topics_fit_a_cluster_of_a_single_broker(tmp_path):
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


def test_a_file_that_is_saved_twice_at_once_has_changed(tmp_path):
    """A file system may give both saves the same time."""
    file = tmp_path / "penstock.properties"
    file.write_text("a=1\n")
    before, seen = file.stat(), _saved(file)
    file.write_text("a=1\nb=2\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert _saved(file) != seen


class Reloads:
    """Replaces a gateway: reloads themselves are not tested here."""

    def __init__(self):
        self.done = asyncio.Event()
        self.errors = []

    async def reload(self, configuration):
        if self.errors:
            raise self.errors.pop()

    def reloaded(self, *, worked, why_not=""):
        assert worked is not bool(why_not)
        if worked:
            self.done.set()

    def kept_until_restart(self, configuration):
        return ()


async def test_a_topic_that_is_named_for_the_first_time_is_created(kafka, tmp_path, capsys):
    file = tmp_path / "penstock.properties"
    file.write_text("upstream.bootstrap.servers=k:1\ntopics.dev-old.penstock.mode=observe\n")
    gateway = Reloads()
    watching = asyncio.create_task(
        _reload_when_saved(gateway, file, kafka.bootstrap_servers, {"dev-old"})
    )
    await asyncio.sleep(0)  # it looks at the file
    with file.open("a") as more:
        more.write("topics.dev-new.penstock.mode=observe\n")
    output = ""
    with capture_logs():
        await gateway.done.wait()
        while "\n" not in output.removeprefix("reloaded\n"):
            await asyncio.sleep(0.05)
            output += capsys.readouterr().out
    watching.cancel()
    assert output == "reloaded\ntopic dev-new is created\n"
    assert _create_topics(kafka.bootstrap_servers, file, ["dev-new"]) == []


@pytest.mark.system
async def test_an_error_of_the_gateway_does_not_end_the_reloads(tmp_path, capsys):
    file = tmp_path / "penstock.properties"
    file.write_text("upstream.bootstrap.servers=k:1\n")
    gateway = Reloads()
    gateway.errors.append(KeyError("a defect"))
    watching = asyncio.create_task(_reload_when_saved(gateway, file, KAFKA, set()))
    await asyncio.sleep(0)  # it looks at the file
    for text in ("policy.workers=1\n", "policy.timeout.ms=900\n"):
        with file.open("a") as more:
            more.write(text)
        await asyncio.sleep(1.5)
    await gateway.done.wait()
    watching.cancel()
    output = capsys.readouterr().out
    assert "not reloaded, the old policies stay in force: an error of the gateway" in output
    assert output.endswith("\nreloaded\n")


@pytest.mark.system
async def test_an_endless_import_of_a_class_does_not_delay_the_command(tmp_path):
    """Ctrl-C does not reach the process that imports it, which ends with the command."""
    file, pid = tmp_path / "penstock.properties", tmp_path / "pid"
    file.write_text("upstream.bootstrap.servers=k:1\n")
    watching = asyncio.create_task(_reload_when_saved(Reloads(), file, KAFKA, set()))
    await asyncio.sleep(0)  # it looks at the file
    (tmp_path / "endless.py").write_text(
        "import os, pathlib, time\n"
        f"pathlib.Path({str(tmp_path / 'new')!r}).write_text(str(os.getpid()))\n"
        f"pathlib.Path({str(tmp_path / 'new')!r}).rename({str(pid)!r})\n"
        "time.sleep(600)\n"
    )
    with file.open("a") as more:
        more.write("record.validation.policy.class.name=endless.Policy\n")
    async with asyncio.timeout(40):  # it is given up after 60 s
        while not pid.exists():
            await asyncio.sleep(0.05)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    await asyncio.to_thread(wait_until, lambda: not is_running(int(pid.read_text())), 40)


OTHERS = (Outcome.REFUSED, Outcome.POSTPONED, Outcome.FAILED)


@pytest.mark.parametrize(
    ("outcome", "is_observed"),
    [(outcome, False) for outcome in (*STORED, *OTHERS)] + [(outcome, True) for outcome in OTHERS],
)
def test_printed_refusals_are_not_logged_too(outcome, is_observed):
    verdict = PolicyVerdict(outcome=outcome, code=87, policy="p", message="no")
    event = _event(Refused("t", 0, "c", verdict, is_observed=is_observed))
    with pytest.raises(structlog.DropEvent):
        _Terminal()(None, "info", {"event": event})


@pytest.mark.parametrize(
    ("event", "is_shown"),
    [
        ({"event": "reloaded"}, False),
        ({"event": NOT_RELOADED, "reason": "no"}, False),
        ({"event": NOT_RELOADED, "exception": "KeyError"}, True),
        ({"event": "configuration", "text": "a is unknown"}, True),
    ],
)
def test_the_result_of_a_reload_is_printed_once(event, is_shown):
    with nullcontext() if is_shown else pytest.raises(structlog.DropEvent):
        assert event["event"] in _Terminal()(None, "info", dict(event))
