"""`penstock.spark.audit`, `split`, `redact` and `redrive` as functions; as the commands do them."""

import inspect
import json

import pytest

from penstock.configuration import ConfigurationError
from penstock.spark import apply, audit, judge, load_plan, redact, redrive, split
from tests.spark.conftest import NO_BAD

REPAIR = {**NO_BAD, "produce.request.interceptors": "policies.Repair"}
RECORDS = [{"value": value} for value in (b"good", b"bad1", b"bad7", b"drop", b"odd one", b"good")]


def without_times(report):
    """Return what of a report does not depend on when it was made, and how it was called."""
    document = report if isinstance(report, dict) else report.model_dump(mode="json", by_alias=True)
    about = {
        name: entry
        for name, entry in document["about"].items()
        if name in {"source", "is_topic", "range", "lost", "fingerprint", "keys"}
    }
    return json.loads(json.dumps({**document, "about": about}))


@pytest.mark.slow
def test_audit_of_topics_returns_the_report_of_the_command(
    spark, command, configured, produce, topic, tmp_path
):
    source = topic("in", 2)
    produce(source, RECORDS)
    file = configured()
    report = audit(source, load_plan(file))
    assert (report.judged, report.accepted, report.refused) == (6, 3, 3)
    assert report.reasons[0].message == "bad is not good"
    command("audit", file, "--topic", source, "--report", tmp_path)
    written = json.loads((tmp_path / "report.json").read_text())
    assert without_times(report) == without_times(written)
    some = audit([source], load_plan(file), end="0:0,1:0", spark=spark)
    assert some.judged == 0


def test_audit_of_a_frame_counts_the_verdicts_of_judge(rows, plan):
    report = audit(rows(b"good", b"bad", b"odd one"), plan())
    assert (report.judged, report.accepted, report.refused) == (3, 1, 2)
    assert not report.about.is_topic
    assert {reason.message for reason in report.reasons} == {"bad is not good", "odd one"}


@pytest.mark.slow
def test_split_and_redrive_of_topics_write_each_record_once(
    spark, configured, produce, topic, stored
):
    source, clean, dead = topic("in", 2), topic("clean", 2), topic("dead")
    produce(source, RECORDS)
    plan = load_plan(configured())
    done = split(source, plan, accepted=clean, rejected=dead)
    assert (done.accepted, done.refused, done.done_before) == (3, 3, 0)
    assert sum(count for _, count in done.reasons) == 3
    again = split(source, plan, accepted=clean, rejected=dead)
    assert (again.accepted, again.refused, again.done_before) == (0, 0, 6)
    repairing = load_plan(configured(REPAIR))
    back = redrive(dead, repairing, to=clean, topic=source, spark=spark)
    assert (back.returned, back.again) == (1, 2)
    committed = {"isolation": "read_committed"}
    found = sorted(record[2] for record in stored(clean, **committed))
    assert found == sorted([b"good", b"good", b"drop", b"good1"])


@pytest.mark.slow
def test_again_begins_at_the_start_and_continues_from_there(
    spark, configured, produce, topic, stored
):
    source, clean, dead = topic("in", 2), topic("clean", 2), topic("dead")
    produce(source, RECORDS)
    plan = load_plan(configured())
    targets = {"accepted": clean, "rejected": dead}
    split(source, plan, **targets)
    again = split(source, plan, **targets, again=True, spark=spark)
    assert (again.accepted, again.refused, again.done_before) == (3, 3, 0)
    assert len(stored(clean, isolation="read_committed")) == 6
    assert split(source, plan, **targets).done_before == 6


@pytest.mark.slow
def test_a_function_continues_a_command_and_vice_versa(
    spark, command, configured, produce, topic, stored
):
    source, clean, dead = topic("in", 2), topic("clean", 2), topic("dead")
    produce(source, RECORDS)
    file = configured(REPAIR)
    split(source, load_plan(configured()), accepted=clean, rejected=dead)
    again = command("split", file, "--topic", source, "--accepted", clean, "--rejected", dead)
    assert "an earlier run has done 6 offsets" in again.out
    again = ("redrive", file, "--from", dead, "--to", clean, "--topic", source, "--local")
    first = command(*again)
    assert "1 returned, 2 again" in first.out
    back = redrive(dead, load_plan(file), to=clean, topic=source, spark=spark)
    assert (back.returned, back.again) == (0, 2)
    last = command(*again)
    assert "0 returned, 2 again" in last.out
    assert len(stored(clean, isolation="read_committed")) == 4


@pytest.mark.slow
def test_redact_of_topics_writes_the_intercepted_records(configured, produce, topic, stored):
    source, target = topic("in"), topic("out")
    produce(source, RECORDS)
    done = redact(source, load_plan(configured(REPAIR)), to=target)
    assert (done.accepted, done.dropped) == (5, 1)
    found = [record[2] for record in stored(target, isolation="read_committed")]
    assert found == [b"good", b"good1", b"bad7", b"odd one", b"good"]


def test_errors_are_raised(rows, plan, topic):
    source = topic("in")
    with pytest.raises(ConfigurationError, match="name two topics"):
        split(source, plan(), accepted="a", rejected="a")
    with pytest.raises(ConfigurationError, match="cannot be written to while it is read"):
        split(source, plan(), accepted=source, rejected="a")
    with pytest.raises(ConfigurationError, match="there is no topic missing"):
        audit("missing", plan())
    with pytest.raises(ConfigurationError, match="for a frame there is apply"):
        redact(rows(b""), plan(), to="x")
    with pytest.raises(ConfigurationError, match="the target must not be the dead letter topic"):
        redrive("x", plan(), to="x")


def test_a_session_that_has_not_been_used_yet_is_found(spark, plan, topic):
    source = topic("in")
    spark._jvm.SparkSession.clearActiveSession()
    assert audit(source, plan()).judged == 0


@pytest.mark.unit
@pytest.mark.parametrize("function", [judge, apply, split])
def test_the_frame_and_the_plan_have_the_same_names_in_each_function(function):
    assert list(inspect.signature(function).parameters)[:2] == ["df", "plan"]
