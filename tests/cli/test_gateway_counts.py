"""What a gateway has counted, as it serves it."""

from penstock.cli.checks.gateway_counts import counts_of
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, refused
from penstock.gateway.metrics.counts import GatewayCounts
from penstock.gateway.metrics.exposition import render
from penstock.policy import Record
from tests.records.encoding import encode_batch

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


def test_other_text_has_no_figures():
    assert counts_of("<html>", {"orders"}) == {}
