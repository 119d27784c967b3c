"""The policies of a plan in one process."""

import uuid

import pytest

from penstock.engine.columns import columns_of
from penstock.engine.verdict import Outcome
from penstock.jobs.evaluation import close_all, evaluator_of, task_ended
from penstock.jobs.plan import load_plan
from penstock.policy import Record

MODULE = """
from pathlib import Path
from penstock.policy import *

class NoBad(RecordValidationPolicy):
    def configure(self, configs): self.closed = configs["closed"]
    def prepare_topic(self, topic, configs):
        if topic == "unusable-1": raise ValueError("no schema")
    def validate(self, topic, record):
        if record.value == b"bad": raise InvalidRecordException("bad is not good")
    def close(self):
        with Path(self.closed).open("a") as file: file.write("closed\\n")
        if self.closed.endswith("fails"): raise OSError("no")
"""
RECORDS = columns_of([Record(1, None, value, ()) for value in (b"good", b"bad")])


@pytest.fixture
def plan(tmp_path):
    """Loads a plan whose policy writes a line to a file when it is closed."""
    module = f"mine_{uuid.uuid4().hex}"  # this process keeps imported modules
    (tmp_path / f"{module}.py").write_text(MODULE)

    def load(closed="closed", **more):
        file = tmp_path / "penstock.properties"
        lines = {
            "upstream.bootstrap.servers": "127.0.0.1:1", "policies": "p",
            "policies.p.type": f"{module}.NoBad", "policies.p.closed": tmp_path / closed,
            "topics.judged.penstock.policies": "p", "topics.unusable-*.penstock.policies": "p",
            **more,
        }  # fmt: skip
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        loaded = load_plan(file)
        (tmp_path / closed).unlink(missing_ok=True)  # loading tries the policy
        return loaded

    yield load
    close_all()


def verdicts_of(plan, topic):
    """Return the outcome and the message of each record that is not accepted, by position."""
    found = evaluator_of(plan).judge_records(topic, 0, RECORDS)
    return {
        position: (verdict.outcome, verdict.message or verdict.detail)
        for position, verdict in found.verdicts
    }


def test_records_are_judged_one_by_one(plan):
    assert verdicts_of(plan(), "judged") == {1: (Outcome.REFUSED, "bad is not good")}


def test_a_topic_without_policies_accepts_all(plan):
    assert verdicts_of(plan(), "other") == {}


def test_records_without_a_topic_fail(plan):
    found = verdicts_of(plan(), None)
    assert found.keys() == {0, 1}
    assert {outcome for outcome, _ in found.values()} == {Outcome.FAILED}
    assert "the record has no topic" in found[0][1]


def test_records_of_a_topic_whose_policy_cannot_judge_it_fail(plan):
    found = verdicts_of(plan(), "unusable-1")
    assert {outcome for outcome, _ in found.values()} == {Outcome.FAILED}
    assert {message for _, message in found.values()} == {"The policy p cannot be configured"}


def test_policies_are_loaded_once_and_closed(plan, tmp_path):
    loaded = plan()
    assert evaluator_of(loaded) is evaluator_of(loaded)
    close_all()
    assert (tmp_path / "closed").read_text() == "closed\n"
    close_all()
    assert (tmp_path / "closed").read_text() == "closed\n"
    assert verdicts_of(loaded, "judged")


def test_a_policy_that_does_not_close_is_reported(plan, tmp_path, capsys):
    evaluator_of(plan("fails"))
    close_all()
    assert "close() failed: " in capsys.readouterr().err


@pytest.mark.parametrize(("reused", "is_closed"), [("1", False), ("", True), (None, True)])
def test_policies_end_with_a_task_in_a_process_that_is_not_used_again(
    plan, tmp_path, monkeypatch, reused, is_closed
):
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    if reused is not None:
        monkeypatch.setenv("SPARK_REUSE_WORKER", reused)
    evaluator_of(plan())
    task_ended()
    assert (tmp_path / "closed").exists() is is_closed


def test_without_schemas_and_contracts_there_are_neither_readers_nor_rules(plan):
    evaluator = evaluator_of(plan())
    assert evaluator.value_reader("judged") is None
    assert evaluator.value_reader(None) is None
    assert evaluator.value_reader("unusable-1") is None
    assert not evaluator.has_data_set_rules()
    assert evaluator.data_set_rules("judged") == []
    assert evaluator.data_set_rules("unusable-1") == []
