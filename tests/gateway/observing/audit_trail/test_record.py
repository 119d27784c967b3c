"""Records of the audit trail have every field of the schema, and no bytes that a client sent."""

import pytest

from penstock.engine.verdict import (
    Outcome,
    PolicyVerdict,
    RecordError,
    failed,
    not_judged,
    refused,
    refused_records,
)
from penstock.gateway.observing.audit_trail.record import (
    MESSAGE_MAX_BYTES,
    NAME_MAX_BYTES,
    audit_record,
    change_record,
)
from penstock.gateway.observing.plan_watch import PlanChange
from penstock.gateway.refusal_log import Refused
from tests.audit_records import checked

RUN = "0" * 32


def record(given):
    line = audit_record(given, gateway="host/127.0.0.1:9192", run=RUN, number=7, at_s=1.0625)
    return checked(line)


def test_a_batch_with_refused_records():
    errors = [RecordError(n, f"no {n}", "a.V") for n in range(2, 12)]
    given = Refused("orders", 3, "shop", refused_records(errors), principal="User:alice",
                    address="10.0.0.7", records=20, plan="0123456789ab")  # fmt: skip

    assert record(given) == {
        "time": "1970-01-01T00:00:01.062Z",
        "gateway": "host/127.0.0.1:9192",
        "run": RUN,
        "number": 7,
        "outcome": "refused",
        "subject": "records",
        "principal": "User:alice",
        "client_id": "shop",
        "address": "10.0.0.7",
        "topic": "orders",
        "partition": 3,
        "records": 20,
        "count": 1,
        "resource_type": None,
        "resource_name": None,
        "code": 87,
        "policy": "a.V",
        "record_errors": 10,
        "plan": "0123456789ab",
        "former_plan": None,
        "cause": None,
        "reasons": [{"record": n, "policy": "a.V", "message": f"no {n}"} for n in range(2, 7)],
    }


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("0123456789ab", "ba9876543210?", "from 0123456789ab to ba9876543210?: topic"),
        ("", "ba9876543210", "from none to ba9876543210: topic"),
        ("0123456789ab", "", "from 0123456789ab to none: topic"),
    ],
)
def test_a_change_of_a_plan(before, after, text):
    change = PlanChange("orders", before, after, "topic", "User:alice")
    line = change_record(change, gateway="g", run=RUN, number=7, at_s=1.0625)
    record = checked(line)
    assert (record["subject"], record["outcome"], record["number"]) == ("plan", "changed", 7)
    assert (record["topic"], record["principal"]) == ("orders", "User:alice")
    assert (record["former_plan"], record["plan"]) == (before or None, after or None)
    assert record["cause"] == "topic"
    assert record["reasons"][0]["message"] == f"the plan changed {text}"


def test_a_batch_as_a_whole():
    found = record(Refused("orders", 0, None, failed("a.V", "raised", detail="at /x.py:1")))

    assert found["outcome"] == "failed"
    assert found["record_errors"] == 0
    assert found["reasons"] == [
        {"record": None, "policy": "a.V", "message": "The policy a.V raised"}
    ]
    assert "x.py" not in str(found)


@pytest.mark.parametrize(
    ("given", "subject", "topic", "resource"),
    [
        (Refused("t", None, "c", refused(44, "no", "a.T")), "topic", "t", (None, None)),
        (
            Refused("TOPIC t", None, "c", refused(44, "no", "a.C"), resource=("TOPIC", "t")),
            "configs",
            "t",
            ("TOPIC", "t"),
        ),
        (
            Refused("BROKER 1", None, "c", refused(44, None, "a.C"), resource=("BROKER", "1")),
            "configs",
            None,
            ("BROKER", "1"),
        ),
    ],
)
def test_topics_and_configs(given, subject, topic, resource):
    found = record(given)

    assert (found["subject"], found["topic"], found["partition"]) == (subject, topic, None)
    assert (found["resource_type"], found["resource_name"]) == resource
    assert found["records"] is None


@pytest.mark.parametrize("text", ["ä" * 5000, "\ud800" * 5000, "\u2028\n\r\x00" * 2000, "𝄞" * 3000])
def test_texts_are_cut_and_stay_one_line(text):
    errors = [RecordError(n, text, "p" * 9000) for n in range(9)]
    verdict = PolicyVerdict(
        outcome=Outcome.REFUSED, code=87, policy="p" * 9000, record_errors=tuple(errors)
    )
    found = record(Refused(text, 0, text, verdict, principal=text, address="::1"))

    for name in (found["topic"], found["client_id"], found["principal"]):
        assert 200 < len(name.encode()) <= NAME_MAX_BYTES
    for reason in found["reasons"]:
        assert len(reason["message"].encode()) <= MESSAGE_MAX_BYTES
    line = audit_record(Refused(text, 0, text, verdict), gateway="g", run=RUN, number=1, at_s=0)
    assert len(line) < 40_000


def test_a_record_that_was_not_judged_names_its_policy():
    found = record(Refused("t", 0, "c", not_judged("a.V, a.W", "too many wait")))

    assert (found["outcome"], found["code"], found["policy"]) == ("failed", 7, "a.V, a.W")
