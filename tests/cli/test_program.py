"""The program itself: its versions, its help, and the modules that a command imports."""

import importlib
import io
import json
import platform
import re
import subprocess
import sys
from importlib import metadata

import pytest

import penstock
from penstock.cli import COMMANDS, main
from penstock.gateway.lane.availability import describe_lane
from tests.gateways import PENSTOCK, write_configuration

pytestmark = pytest.mark.system

SLOW = {"uvloop", "aiokafka", "confluent_kafka", "kio", "pyspark", "pandas", "pyarrow", "jgo"}
"""Libraries that are slow to import; each is needed by some commands only."""
IMPORTED_BY = """
import json, sys
from penstock.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as error:
    code = error.code
assert code == 0, code
print(json.dumps(sorted(sys.modules)))
"""
POLICIES = """
from penstock.policy import *
class One(BrokerRecordValidator):
    def validate_record(self, *_): pass
class Small(CreateTopicPolicy):
    def validate(self, request): pass
"""


def imported_by(*arguments: object) -> set[str]:
    """Return the modules that a command line has imported at its end."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED_BY, *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture
def file(tmp_path):
    properties = {
        "record.validator.classes": "policies.One",
        "create.topic.policy.class.name": "policies.Small",
    }
    return write_configuration(tmp_path, "nowhere.invalid:1", 9192, properties, POLICIES)


def test_check_imports_nothing_slow(file):
    assert not imported_by("check", file) & SLOW


def test_explain_imports_nothing_slow(file):
    assert not imported_by("explain", file, "--topic", "t", "--value", "v") & SLOW


@pytest.mark.parametrize("command", ["split", "audit", "redact", "redrive"])
def test_help_of_a_spark_command_imports_no_spark_and_no_other_command(command):
    modules = imported_by(command, "--help")
    assert not modules & SLOW
    assert {f"penstock.cli.{name}" for name in COMMANDS} & modules == {f"penstock.cli.{command}"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_line_in_the_help_begins_its_own_help(name):
    module = importlib.import_module(f"penstock.cli.{name}")
    assert module.__doc__.splitlines()[0] == COMMANDS[name]


def test_version_has_the_versions_of_its_parts():
    done = subprocess.run(
        [*PENSTOCK, "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    own, python, connections, protocol, spark = done.stdout.splitlines()
    assert own == f"penstock {penstock.__version__}"
    assert python == f"Python {platform.python_version()}"
    assert connections == f"connections: {describe_lane()}"
    assert re.fullmatch(r"Kafka protocol: Produce \d+-\d+(, \w+ \d+-\d+)+", protocol)
    assert spark == f"PySpark {metadata.version('pyspark')}"


def test_version_imports_no_spark():
    assert "pyspark" not in imported_by("--version")


class ClosedOutput(io.StringIO):
    """An output whose reader, such as `head`, has ended."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError


def test_version_ends_without_an_error_if_its_reader_has_ended(monkeypatch):
    monkeypatch.setattr("sys.stdout", ClosedOutput())
    assert main(["--version"]) == 0


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["audit", "f", "--repot", "x"], "--repot x; did you mean --report?"),
        (["check", "f", "--conect"], "--conect; did you mean --connect?"),
        (["explain", "f", "--topic", "t", "--value", "v", "--vlaue=w"], "did you mean --value?"),
        (
            ["check", "f", "--log-level=debug"],
            "--log-level is written before the command: penstock --log-level check",
        ),
        (["check", "f", "--debug", "g", "--conect"], "g --conect; did you mean --connect?"),
        (["check", "f", "g"], "unrecognized arguments: g\n"),
    ],
)
def test_an_unknown_option_is_an_error_of_its_command_with_a_suggestion(arguments, hint, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith(f"usage: penstock {arguments[0]} ")
    assert f"penstock {arguments[0]}: error: unrecognized arguments: " in message
    assert hint in message


@pytest.mark.parametrize(
    "arguments", [["--debug", "check", "f"], ["check", "--debug", "f"], ["check", "f", "--debug"]]
)
def test_debug_is_an_option_before_and_after_the_command(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    assert main(arguments) == 2

    assert capsys.readouterr().err.startswith("Traceback")


@pytest.mark.parametrize("arguments", [["audit"], ["suggest", "--topic", "t"], ["check"]])
@pytest.mark.parametrize("servers", ["nowhere", "a:70000", "a:1,b", ""])
def test_the_error_about_a_wrong_address_names_its_option(arguments, servers, capsys):
    with pytest.raises(SystemExit) as ended:
        main([arguments[0], "f", *arguments[1:], "--bootstrap-server", servers])
    assert ended.value.code == 2
    wanted = f"argument --bootstrap-server: {servers!r} is not host:port, "
    assert wanted in capsys.readouterr().err


@pytest.mark.parametrize("master", ["nonsense", "local[x]", "local[2", "spark:/a"])
def test_a_master_that_spark_does_not_have_is_an_error_before_spark_starts(master, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["audit", "f", "--topic", "t", "--master", master])
    assert ended.value.code == 2
    assert f"argument --master: '{master}' is not a master, such as" in capsys.readouterr().err


def test_an_interrupt_while_a_command_is_imported_shows_no_traceback(monkeypatch, capsys):
    def interrupted(_name):
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib, "import_module", interrupted)
    assert main(["check", "f"]) == 130
    assert capsys.readouterr() == ("", "")
