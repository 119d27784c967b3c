"""What commands from topics to topics decide by their options."""

import argparse
from types import SimpleNamespace

import pytest

from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.jobs.arguments import add_writing_arguments
from penstock.cli.jobs.raw_jobs import (
    _check_removed,
    are_topics,
    check_writing_arguments,
    is_between_topics,
    writing_job,
)
from penstock.configuration import ConfigurationError
from penstock.jobs.locations import RecordLocation

TOPIC, FOLDER, TABLE = map(RecordLocation.parse, ["out", "path:/out", "table:out"])
ORDERS = SimpleNamespace(name="orders")


def options_of(*arguments, topic="orders"):
    parser = argparse.ArgumentParser()
    add_writing_arguments(parser)
    parser.set_defaults(command="split", topic=topic, start="earliest", end="latest")
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    ("topics", "targets", "expected"),
    [
        ([ORDERS], [TOPIC, TOPIC], True),
        ([ORDERS], [TOPIC, FOLDER], False),
        ([ORDERS], [TABLE], False),
        ([], [TOPIC], False),
    ],
)
def test_topics_on_both_sides(topics, targets, expected):
    assert is_between_topics(topics, targets) is expected
    assert are_topics(*targets) is (expected or not topics)


@pytest.mark.parametrize(
    ("topic", "targets"), [("orders", [FOLDER]), ("orders", [TOPIC, TABLE]), (None, [TOPIC])]
)
@pytest.mark.parametrize(("arguments", "name"), [(["--again"], "--again"), (["--job="], "--job")])
def test_options_about_positions_need_topics(topic, targets, arguments, name):
    check_writing_arguments(options_of(topic=topic), targets)
    with pytest.raises(ConfigurationError, match=f"^{name} needs topics as source and targets"):
        check_writing_arguments(options_of(*arguments, topic=topic), targets)


def test_options_about_positions_are_taken_from_topics_to_topics():
    check_writing_arguments(options_of("--again", "--job", "nightly"), [TOPIC, TOPIC])


def test_a_job_has_the_name_of_its_option():
    job = writing_job(options_of("--job", "nightly", "--again"), {"accepted": TOPIC})
    assert (job.name, job.again, job.targets) == ("nightly", True, {"accepted": "out"})
    assert (job.command, job.start, job.end) == ("split", "earliest", "latest")
    assert writing_job(options_of(), {"accepted": TOPIC}).name is None


@pytest.mark.parametrize("name", ["", "a b"])
def test_a_name_that_cannot_be_an_id(name):
    with pytest.raises(ConfigurationError, match="--job"):
        writing_job(options_of("--job", name), {"accepted": TOPIC})


def test_removed_records_are_a_warning_or_an_error(capsys):
    _check_removed(SimpleNamespace(removed=0), strict=True)
    assert capsys.readouterr().err == ""
    _check_removed(SimpleNamespace(removed=1234), strict=False)
    text = "1,234 offsets were removed before they were read (retention)"
    assert capsys.readouterr().err == f"warning: {text}\n"
    with pytest.raises(CommandError, match="all others are written") as raised:
        _check_removed(SimpleNamespace(removed=1234), strict=True)
    assert raised.value.code == ExitCode.CLUSTER_FAILED
    assert str(raised.value).startswith(text)
