"""Refusals, and those that an observing policy would make, have log lines."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from penstock.engine.verdict import Outcome, PolicyVerdict, abandoned, failed, refused
from penstock.gateway.refusal_log import RefusalLog, Refused

NO = refused(87, "no", "a.V")
LATER = PolicyVerdict(outcome=Outcome.POSTPONED, code=7, policy="a.V", message="later")


@pytest.mark.parametrize(
    ("verdict", "partition", "is_observed", "event", "level"),
    [
        (NO, 3, False, "records refused", "info"),
        (NO, 3, True, "records would be refused", "info"),
        (NO, None, False, "topic refused", "info"),
        (NO, None, True, "topic would be refused", "info"),
        (LATER, 3, False, "records postponed", "warning"),
        (LATER, 3, True, "records would be postponed", "warning"),
        (replace(NO, outcome=Outcome.MARKED), 3, False, "records marked", "info"),
        (replace(NO, outcome=Outcome.QUARANTINED), 3, False, "records quarantined", "info"),
        (failed("a.V", "raised"), 3, False, "policy failed", "error"),
        (failed("a.V", "raised"), 3, True, "policy would fail", "warning"),
    ],
)
def test_refusals_and_observed_refusals_are_logged_differently(
    verdict, partition, is_observed, event, level
):
    watched = []
    with capture_logs() as lines:
        entry = Refused("t", partition, "client", verdict, is_observed=is_observed)
        RefusalLog(watched.append).report(entry)

    (line,) = lines
    assert (line["event"], line["log_level"]) == (event, level)
    assert (line["topic"], line.get("partition"), line["policy"]) == ("t", partition, "a.V")
    assert watched == [entry]


def test_a_line_says_who_sent_the_records_if_it_is_known():
    with capture_logs() as lines:
        log = RefusalLog()
        log.report(Refused("t", 3, "client", NO))
        log.report(Refused("t", 3, "client", NO, principal="User:alice", address="10.0.0.7"))

    unknown, known = lines
    assert unknown.keys().isdisjoint({"principal", "address"})
    assert (known["principal"], known["address"]) == ("User:alice", "10.0.0.7")


def test_a_batch_of_a_disconnected_client_is_not_logged_as_a_failure():
    watched = []
    with capture_logs() as lines:
        RefusalLog(watched.append).report(Refused("t", 3, "client", abandoned("a.V")))

    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("records abandoned", "debug")
    ]
    assert watched == []


def test_observed_refusals_use_no_log_lines_of_refusals():
    with capture_logs() as lines:
        log = RefusalLog()
        for _ in range(50):
            log.report(Refused("t", 0, None, NO, is_observed=True))
        log.report(Refused("t", 0, None, NO))

    assert [line["event"] for line in lines].count("records refused") == 1
