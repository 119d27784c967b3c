"""The lines that `penstock dev` prints for refusals."""

from dataclasses import replace

from penstock.cli.output.refusal_lines import refusal_lines
from penstock.engine.verdict import Outcome, PolicyVerdict, RecordError
from penstock.gateway.refusal_log import Refused

EVIL = "\x1b]0;owned\x07\x1b[2J\rstored\u202e"


def refused(*messages, client="app", **more):
    errors = tuple(RecordError(index, text) for index, text in enumerate(messages))
    verdict = PolicyVerdict(
        outcome=Outcome.REFUSED, policy="policy.Orders", code=87, record_errors=errors, **more
    )
    return Refused("orders", 0, client, verdict)


def test_a_line_has_topic_client_and_reason():
    assert refusal_lines(refused("no")) == [
        "refused orders-0 for app: error 87 by policy.Orders",
        "    record 0: no",
    ]


def test_stored_records_have_no_error_code():
    refusal = refused("no")
    stored = replace(refusal, verdict=replace(refusal.verdict, outcome=Outcome.QUARANTINED))
    assert refusal_lines(stored)[0] == "quarantined orders-0 for app: by policy.Orders"


def test_a_line_has_the_number_of_refused_records_of_a_batch():
    assert refusal_lines(refused(*"abcdefg"))[-1] == "    and 2 more records"


def test_control_characters_of_a_client_are_replaced():
    found = refused(EVIL, client=EVIL, detail=f"policy.py:3\n{EVIL}")
    lines = refusal_lines(found)

    assert all(line.isprintable() for line in lines)
    assert lines[-2:] == ["    policy.py:3", f"    {lines[-1].strip()}"]
    assert "[2J" in lines[0]
