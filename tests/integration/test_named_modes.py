"""Named policies with their own modes: the strictest mode of the refusing policies is used."""

import json

import pytest

from penstock.kafka.local import free_ports
from tests.gateways import wait_until
from tests.integration.modes import dead_letters, produce
from tests.integration.reading import read_topic
from tests.kafka.records.encoding import encode_batch, values
from tests.metrics import get, scrape
from tests.raw import RawClient

pytestmark = pytest.mark.system

POLICIES = """
from penstock.policy import *

class Without(RecordValidationPolicy):
    def configure(self, configs):
        self._part = configs["part"].encode()

    def validate(self, topic, record):
        if self._part in record.value:
            raise InvalidRecordException(f"it has {self._part.decode()}")
"""
NAMED = {
    "policies": "soft,aside,hard,look",
    **{f"policies.{name}.type": "policies.Without" for name in ("soft", "aside", "hard", "look")},
    **{f"policies.{name}.part": name for name in ("soft", "aside", "hard", "look")},
    "policies.soft.mode": "mark",
    "policies.aside.mode": "quarantine",
    "policies.look.mode": "observe",
    "topics.*.penstock.policies": "soft,aside,hard,look",
    "errors.deadletterqueue.topic.replication.factor": 1,
}


def test_the_strictest_mode_of_the_refusing_policies_is_used(gateway, topic, kafka):
    running = gateway(NAMED, POLICIES)
    name = topic()
    with RawClient(running.broker_address()) as client:
        mixed = encode_batch(values(b"good", b"soft look", b"soft aside", b"look"))
        assert produce(client, name, mixed, acks=-1) == (0, -1), "the last record has offset 2"
        refused = encode_batch(values(b"good", b"soft aside hard"))
        assert produce(client, name, refused, acks=-1) == (87, -1)

    stored = read_topic(kafka.bootstrap_servers, name)
    assert [(value, dict(headers).get("__mark.errors.policy")) for _, _, value, headers in stored] == [
        (b"good", None), (b"soft look", b"soft"), (b"look", None),
    ]  # fmt: skip
    [(value, _, headers)] = dead_letters(kafka, f"{name}.dead")
    assert (value, headers["__penstock.policy"]) == (b"soft aside", b"aside")


def test_metrics_console_audit_trail_and_log_have_the_name_of_a_policy(gateway, topic, tmp_path):
    port, trail = free_ports(1)[0], tmp_path / "trail.jsonl"
    running = gateway(
        {**NAMED, "metrics.listener": f"127.0.0.1:{port}", "audit.file": trail}, POLICIES
    )
    name = topic()
    with RawClient(running.broker_address()) as client:
        for value in (b"soft", b"aside", b"hard", b"look"):
            produce(client, name, encode_batch(values(value)), acks=-1)

    def counted():
        found = scrape(port).of("penstock_records_total")
        return {(outcome, policy) for (of, policy, outcome), n in found.items() if of == name and n}

    def shown():
        rows = json.loads(get(port, "/api/state")[1])["refusals"]["rows"]
        return {(row["outcome"], row["policy"], row["observed"]) for row in rows}

    def written():
        lines = map(json.loads, trail.read_text().splitlines())
        return {(line["outcome"], line["policy"], line["reasons"][0]["policy"]) for line in lines}

    bad = {("marked", "soft"), ("quarantined", "aside"), ("refused", "hard")}
    # Accepted records belong to all policies that have judged them, or have observed them.
    accepted = {("accepted", "soft, aside, hard"), ("accepted", "look")}
    counts = {*bad, ("would_refuse", "look"), *accepted}
    wait_until(lambda: counts <= counted(), what="the observed records")
    assert counted() == counts
    rows = {
        *((*outcome_and_policy, False) for outcome_and_policy in bad),
        ("refused", "look", True),
    }
    wait_until(lambda: rows <= shown(), what="the rows of the console")
    assert shown() == rows
    wait_until(lambda: len(written()) == len(bad), what="the audit trail")
    assert written() == {(outcome, policy, policy) for outcome, policy in bad}

    def logged():
        return {
            (str(event["event"]).removeprefix("records "), event["policy"])
            for event in list(running.log)
            if str(event["event"]).removeprefix("records ") in {"marked", "quarantined", "refused"}
        }

    wait_until(lambda: bad <= logged(), what="the log")
    assert logged() == bad
