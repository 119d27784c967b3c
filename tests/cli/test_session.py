"""The Spark session of a command, before it starts."""

import argparse
import sys

import pytest
from pyspark.errors import AnalysisException

from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.jobs.session import CommandSession, _settings, quiet_spark, reported
from penstock.configuration import ConfigurationError
from penstock.errors import UnavailableError
from penstock.progress import Progress


def session(conf=(), remote=None):
    options = argparse.Namespace(conf=list(conf), master=None, remote=remote, command="audit")
    return CommandSession(options, Progress())


def test_the_last_setting_of_spark_applies():
    assert _settings(["spark.a=1=2", "spark.b=", "spark.a=3"]) == {
        "spark.a": "3", "spark.b": "",
    }  # fmt: skip


MOST = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("spark.a", "--conf spark.a: must be spark.KEY=VALUE"),
        ("a=1", "--conf a=1: must be spark.KEY=VALUE"),
        (f"{MOST}=x", f"--conf {MOST}=x: must be 1 or more"),
        (f"{MOST}=-1", f"--conf {MOST}=-1: must be 1 or more"),
        (f"{MOST}=0", f"--conf {MOST}: must be 1 or more"),
    ],
)
def test_a_wrong_setting_of_spark(setting, message):
    with pytest.raises(ConfigurationError) as raised:
        session([setting])
    assert str(raised.value) == message


def test_spark_connect_reads_no_files():
    session().check_input("a.parquet")
    with pytest.raises(ConfigurationError, match=r"--input a.parquet: with --remote, name topics"):
        session(remote="sc://a:1").check_input("a.parquet")


def test_a_session_that_has_not_started_has_nothing_to_close():
    session().close()
    assert session().jvm_failure(OSError()) is None


def test_without_pyspark_the_error_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ConfigurationError, match=r"\[spark\]'; or not$"), quiet_spark("; or not"):
        pass


def test_errors_have_a_text_and_a_code():
    with pytest.raises(CommandError, match=r"^no broker$") as raised, reported(session(), "a"):
        raise UnavailableError("no broker")
    assert raised.value.code == ExitCode.CLUSTER_FAILED
    with (
        pytest.raises(CommandError, match=r"^--input a: there are no files with") as raised,
        reported(session(), "a"),
    ):
        raise AnalysisException("[PATH_NOT_FOUND] b")
    assert raised.value.code == ExitCode.WRONG_USE
    with pytest.raises(ZeroDivisionError), reported(session(), None):
        raise ZeroDivisionError
