"""A command's work on Spark, or in this process: how it begins and ends."""

import argparse
import sys

import pytest

from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.jobs import arguments
from penstock.cli.jobs.job import show_counts
from penstock.cli.jobs.local_job import LocalJob
from penstock.cli.jobs.spark_job import SparkJob, job, on_spark
from penstock.configuration import ConfigurationError
from penstock.errors import MalformedError, UnavailableError


@pytest.fixture
def options(tmp_path):
    """Parses arguments of a command with a configuration file."""
    file = tmp_path / "penstock.properties"
    file.write_text("upstream.bootstrap.servers=127.0.0.1:1\n")

    def parse(*texts):
        parser = argparse.ArgumentParser()
        arguments.add_job_arguments(parser)
        arguments.add_source_arguments(parser)
        arguments.add_reader_arguments(parser)
        parser.set_defaults(command="audit")
        return parser.parse_args([str(file), *map(str, texts)])

    return parse


def test_counts_are_a_sentence():
    assert show_counts({"accepted": 1234, "refused": 0}) == "1,234 accepted, 0 refused"
    assert show_counts({}) == ""


def test_a_table_is_no_file(options):
    SparkJob(options("--input", "table:a.b", "--column", "value=payload")).check_input()
    with pytest.raises(ConfigurationError, match="--column requires --input table:NAME"):
        SparkJob(options("--input", "a.parquet", "--column", "value=payload")).check_input()


def test_json_on_this_machine_is_checked_before_spark_starts(options, tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"value": "v", "topic": "t", "partition": 0, "offset": 0}\n{"value": 5}\n')
    with pytest.raises(ConfigurationError, match="line 2"):
        SparkJob(options("--input", file)).check_input()


def test_files_that_only_spark_knows_are_checked_by_spark(options, tmp_path):
    SparkJob(options("--input", "s3a://bucket/a.jsonl")).check_input()
    SparkJob(options("--topic", "t")).check_input()


def test_spark_connect_reads_no_files(options, tmp_path):
    connected = options("--remote", "sc://a:1", "--input", tmp_path)
    with pytest.raises(ConfigurationError, match=r"with --remote, name topics or a table"):
        SparkJob(connected).check_input()
    SparkJob(options("--remote", "sc://a:1", "--input", "table:t")).check_input()
    with pytest.raises(ConfigurationError, match="--remote: with topics only"):
        SparkJob(options("--remote", "sc://a:1")).sinks({})


def test_work_that_needs_spark_is_not_done_without_it(options):
    on = SparkJob(options())
    assert on_spark(on, "--streaming") is on
    with pytest.raises(ConfigurationError, match=r"^--streaming needs Spark: leave out --local$"):
        on_spark(LocalJob(options("--local")), "--streaming")


def test_local_decides_where_a_command_runs(options):
    with job(options("--local")) as command_job:
        assert isinstance(command_job, LocalJob)
    with job(options()) as command_job:
        assert isinstance(command_job, SparkJob)


def test_without_pyspark_the_error_names_the_package(options, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ConfigurationError, match=r"penstock-kafka\[spark\]"), job(options()):
        pass


@pytest.mark.parametrize(
    "error", [UnavailableError("no broker"), ConnectionResetError("no broker")]
)
@pytest.mark.parametrize("arguments", [(), ("--local",)])
def test_an_unavailable_cluster_ends_a_command_with_3(options, error, arguments):
    with pytest.raises(CommandError, match=r"^no broker$") as raised, job(options(*arguments)):
        raise error
    assert raised.value.code == ExitCode.CLUSTER_FAILED


@pytest.mark.parametrize("error", [ConfigurationError("x"), CommandError("x", 1)])
@pytest.mark.parametrize("arguments", [(), ("--local",)])
def test_errors_that_have_a_code_keep_it(options, error, arguments):
    with pytest.raises(type(error)) as raised, job(options(*arguments)):
        raise error
    assert raised.value is error


def test_records_that_cannot_be_read_end_a_command_without_spark_with_3(options):
    with pytest.raises(CommandError, match=r"^torn$") as raised, job(options("--local")):
        raise MalformedError("torn")
    assert raised.value.code == ExitCode.CLUSTER_FAILED


@pytest.mark.parametrize("arguments", [(), ("--local",)])
def test_an_error_of_the_code_is_not_hidden(options, arguments):
    with pytest.raises(ZeroDivisionError), job(options(*arguments)):
        raise ZeroDivisionError
