"""What a command over stored records decides before a cluster is contacted."""

import argparse

import pytest

from penstock.cli.jobs.arguments import add_job_arguments, add_source_arguments
from penstock.cli.jobs.job import check_no_range
from penstock.cli.jobs.local_job import LocalJob
from penstock.configuration import ConfigurationError

LINE = '{"value": "v", "topic": "t", "partition": 0, "offset": 0}\n'


@pytest.fixture
def command_job(tmp_path):
    """Makes a job of arguments, and of more lines of the configuration file."""

    def make(*arguments, lines=""):
        file = tmp_path / "penstock.properties"
        file.write_text(f"upstream.bootstrap.servers=127.0.0.1:1\n{lines}")
        parser = argparse.ArgumentParser()
        add_job_arguments(parser)
        add_source_arguments(parser)
        return LocalJob(parser.parse_args([str(file), "--local", *map(str, arguments)]))

    return make


@pytest.mark.parametrize(
    ("start", "end", "option"),
    [("earliest", "latest", None), ("0:5", "latest", "--from 0:5"), ("earliest", "x", "--to x")],
)
def test_all_records_of_files_are_read(start, end, option):
    if option is None:
        check_no_range(start, end)
        return
    with pytest.raises(ConfigurationError, match=f"^{option}: all of --input is read"):
        check_no_range(start, end)


def test_the_cluster_is_that_of_the_file_or_of_the_option(command_job):
    assert command_job().properties["bootstrap.servers"] == "127.0.0.1:1"
    other = command_job("--bootstrap-server", "a:2")
    assert other.properties["bootstrap.servers"] == "a:2"


def test_warnings_of_the_file_are_printed(command_job, capsys):
    command_job(lines="audit.topic=a\naudit.topic=b\n")
    assert capsys.readouterr().err == (
        "warning: audit.topic is in line 2 and in line 3: the last value applies\n"
    )


def test_policies_of_a_file_are_loaded_once(command_job, tmp_path):
    loading = command_job(
        lines="record.validation.policy.class.name=penstock.policies.KeyRequired\n"
    )
    plan = loading.plan_without_topics()
    assert loading.plan_without_topics() is plan
    other = tmp_path / "other.properties"
    other.write_text("upstream.bootstrap.servers=127.0.0.1:1\n")
    assert loading.plan_without_topics(str(other)) is not plan


def test_a_plan_without_topics_warns_of_none(command_job, capsys):
    command_job().plan(())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("arguments", [(), ("--topic", "t", "--input", "a.jsonl")])
def test_one_source_is_named(command_job, arguments):
    with pytest.raises(ConfigurationError, match="name either --topic T or --input PATH"):
        command_job(*arguments).sources()


def test_files_are_no_topics(command_job, tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(LINE)
    reading = command_job("--input", file)
    assert reading.sources() == ()
    assert reading.ranges(()) == ()
    with pytest.raises(ConfigurationError, match="--from 0:1: all of --input is read"):
        command_job("--input", file, "--from", "0:1").sources()


@pytest.mark.parametrize(("option", "value"), [("--from", "yesterday"), ("--to", "0:x")])
def test_a_wrong_place_is_an_error_without_a_cluster(command_job, option, value):
    with pytest.raises(ConfigurationError, match=f"^{option}"):
        command_job("--topic", "t", option, value).sources()


def test_a_wrong_policy_is_an_error_without_a_cluster(command_job):
    lines = "record.validation.policy.class.name=penstock.policies.None\n"
    with pytest.raises(ConfigurationError, match="has no class None"):
        command_job("--topic", "t", lines=lines).sources()
