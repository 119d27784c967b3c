"""A policy that cannot decide now fails the task: no record gets a verdict for it."""

import pytest
from pyspark.errors import PySparkException

from penstock.jobs import policy_retries
from penstock.jobs.plan import load_plan
from penstock.spark import judge, register
from penstock.spark.execution.failures import reason_of

pytestmark = pytest.mark.slow

POLICIES = """
from pathlib import Path
from penstock.policy import *

ANSWERS = Path(__file__).with_name("answers")

class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        if record.value == b"later" and not ANSWERS.exists():
            raise RetriableException("the registry is away")
        if record.value == b"bad":
            raise InvalidRecordException("bad is not good")
"""
TEXT = "the registry is away"


@pytest.fixture(autouse=True)
def tasks_fail_at_once(monkeypatch):
    monkeypatch.setattr(policy_retries, "FOR_S", 0.0)


@pytest.fixture
def file(configured):
    return configured(policies=POLICIES)


@pytest.fixture
def filled(produce, topic):
    name = topic("in")
    produce(name, [{"value": value} for value in (b"good", b"later", b"bad")])
    return name


@pytest.mark.parametrize("job", ["audit", "split", "to files"])
def test_a_job_ends_with_the_message_and_a_later_job_succeeds(
    command, file, filled, topic, tmp_path, job
):
    accepted, rejected = topic("clean"), topic("dead")
    arguments = {
        "audit": ("audit", file, "--topic", filled),
        "split": ("split", file, "--topic", filled, "--accepted", accepted,
                  "--rejected", rejected),
        "to files": ("split", file, "--topic", filled, "--accepted", f"path:{tmp_path / 'a'}",
                     "--rejected", f"path:{tmp_path / 'd'}"),
    }[job]  # fmt: skip
    done = command(*arguments)
    assert done.code == 3, done
    assert f"a policy cannot decide now: {_policy(file)}: {TEXT}" in done.err
    assert "later" not in done.err

    (file.parent / "answers").touch()
    done = command(*arguments)
    assert done.code == 0, done
    assert "2 accepted, 1 refused" in done.out


def test_a_frame_fails_as_a_whole(rows, file):
    with pytest.raises(PySparkException) as raised:
        judge(rows(b"good", b"later"), load_plan(file)).collect()
    text, code = reason_of(raised.value)
    assert (text, code) == (f"a policy cannot decide now: {_policy(file)}: {TEXT}", 3)


def test_the_data_source_fails(spark, kafka, file, filled):
    register(spark)
    reading = spark.read.format("penstock").options(
        **{"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": filled,
           "plan": str(file)}
    )  # fmt: skip
    with pytest.raises(PySparkException) as raised:
        reading.load().collect()
    assert TEXT in str(reason_of(raised.value)[0])


def test_explain_shows_it(command, file):
    done = command("explain", file, "--topic", "t", "--value", "later")
    assert done.code == 3
    assert "postponed with 7: the registry is away" in done.out
    assert command("explain", file, "--topic", "t", "--value", "good").code == 0


def _policy(file):
    """The name of the class, whose module is new for each file."""
    (line,) = [
        splitline for splitline in file.read_text().splitlines() if "class.name" in splitline
    ]
    return line.partition("=")[2]
