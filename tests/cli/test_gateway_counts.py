"""The counts of a gateway, read from its metrics."""

from penstock.cli.checks.gateway_counts import count_lines, counts_of
from penstock.configuration import Address
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, refused
from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.observing.metrics.exposition import render
from penstock.policy import Record
from tests.kafka.records.encoding import encode_batch

DATA = encode_batch([Record(0, None, b"x")] * 3)


async def test_the_gateways_metrics_are_read():
    counts = GatewayCounts(records_max=100)
    for topic in ("orders", "others"):
        plan = TopicPlan(topic=topic, validators=('a"V', "a.W"), mode="observe")
        counts.observed(plan, DATA, ACCEPTED)
        counts.observed(plan, DATA, refused(87, "no", 'a"V'))
        counts.observed(plan, DATA, refused(87, "no", "a.W"))
        counts.not_observed(plan, DATA)
    text = (await render(counts.families())).decode()
    assert counts_of(text, {"orders"}) == {
        "orders": {"accepted": 3, "would_refuse": 6, "not_observed": 3}
    }


def test_other_text_has_no_counts():
    assert counts_of("<html>", {"orders"}) == {}


def test_the_lines_have_the_counts_their_gateway_and_their_start():
    address = Address("127.0.0.1", 9100)
    text = (
        "process_start_time_seconds 1763719200.0\n"
        'penstock_records_total{topic="orders",policy="a.V",outcome="would_refuse"} 1200.0\n'
        'penstock_records_total{topic="orders",policy="a.V",outcome="accepted"} 3.0\n'
    )
    judged = (
        "for comparison: records that the gateway with metrics.listener 127.0.0.1:9100 received"
    )
    until = "until now, by outcome (penstock_records_total)"
    first = f"{judged} from its start at 2025-11-21T10:00:00+00:00 {until}"
    assert list(count_lines(text, address, {"orders"})) == [
        first, "  orders: 3 accepted, 1,200 would_refuse"
    ]  # fmt: skip
    assert list(count_lines(text, address, {"others"})) == [first, "  none of these topics"]
    assert next(count_lines("", address, {"others"})) == f"{judged} from its start {until}"
