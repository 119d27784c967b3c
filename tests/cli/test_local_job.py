"""Commands in this process: options of Spark are refused, and files are read here."""

import argparse

import pytest

from penstock.cli.jobs.arguments import add_job_arguments, add_source_arguments
from penstock.cli.jobs.local_job import LocalJob
from penstock.configuration import ConfigurationError

LINE = '{"value": "%s", "topic": "t", "partition": 0, "offset": 0}\n'


@pytest.fixture
def local(tmp_path):
    """Makes a job of arguments."""
    file = tmp_path / "penstock.properties"
    file.write_text("upstream.bootstrap.servers=127.0.0.1:1\n")

    def make(*arguments):
        parser = argparse.ArgumentParser()
        add_job_arguments(parser)
        add_source_arguments(parser)
        return LocalJob(parser.parse_args([str(file), "--local", *map(str, arguments)]))

    return make


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--master", "local[2]"),
        ("--remote", "sc://a:1"),
        ("--conf", "spark.a=b"),
        ("--column", "value=payload"),
    ],
)
def test_options_of_spark_are_refused(local, option, value):
    with pytest.raises(ConfigurationError, match=f"^{option} is an option of Spark, and cannot"):
        local(option, value)


def test_a_table_needs_spark(local):
    with pytest.raises(ConfigurationError, match="--input table:a needs Spark: leave out --local"):
        local("--input", "table:a").check_input()


def test_without_files_there_is_nothing_to_check(local):
    local("--topic", "t").check_input()


def test_missing_files_are_an_error(local, tmp_path):
    with pytest.raises(ConfigurationError, match="none"):
        local("--input", tmp_path / "none.jsonl").check_input()


@pytest.mark.parametrize(("value", "is_warned_of"), [("YWJj", True), ("not base 64!", False)])
def test_a_warning_says_that_contents_are_decoded(local, tmp_path, capsys, value, is_warned_of):
    file = tmp_path / "a.jsonl"
    file.write_text(LINE % value)
    local("--input", file).check_input()
    errors = capsys.readouterr().err
    assert ("are decoded from base64" in errors) is is_warned_of
    assert errors.startswith("warning: ") is is_warned_of
