"""The counts of a gateway, without a gateway."""

import time
from dataclasses import replace

import pytest
from prometheus_client.core import CounterMetricFamily

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import (
    ACCEPTED,
    Diverted,
    FailureCause,
    Outcome,
    abandoned,
    not_judged,
    refused,
    replaced,
)
from penstock.engine.workers.observer import WorkerEnd
from penstock.gateway.context.exchange import Held, Streamed
from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.observing.metrics.exposition import render
from penstock.policy import Record
from tests.kafka.records.encoding import encode_batch
from tests.metrics import Metrics

PLAN = TopicPlan(topic="orders", interceptors=("a.Drop",), validators=("a.V", "a.W"))


@pytest.fixture
def counts():
    return GatewayCounts(records_max=1000)


async def read(counts):
    return Metrics((await render(counts.families())).decode())


def batch(count):
    return encode_batch([Record(0, None, b"x")] * count)


class Refusal(Held):
    error_code = 87


async def test_requests_are_counted_by_api_and_error_code(counts):
    for api_key in (0, 0, 3, 22, 30_000, 30_001):
        exchange = Streamed(api_key, 9, 1)
        exchange.received_at = time.monotonic() - 0.2
        counts.answered(exchange)
    held = Refusal(Streamed(0, 9, 1), 10)
    held.received_at = time.monotonic() - 20
    held.sent_at = time.monotonic() - 7
    counts.answered(held)

    found = await read(counts)
    assert found.of("penstock_requests_total") == {
        ("Produce", "0"): 2,
        ("Produce", "87"): 1,
        ("Metadata", "0"): 1,
        ("InitProducerId", "0"): 1,
        ("other", "0"): 2,
    }
    assert found("penstock_request_seconds_bucket", api="Metadata", le="0.1") == 0
    assert found("penstock_request_seconds_count", api="Produce") == 3
    assert found("penstock_request_seconds_bucket", api="Produce", le="10.0") == 2
    assert found("penstock_broker_seconds_bucket", api="Produce", le="5.0") == 0
    assert found.of("penstock_broker_seconds_count") == {("Produce",): 1}


async def test_records_are_counted_by_topic_policy_and_outcome(counts):
    counts.accepted(PLAN, batch(5))
    counts.accepted(PLAN, batch(5), replaced(b"", (0, 3)))
    counts.refused("orders", batch(3), refused(87, "no", "a.V"))
    counts.refused("orders", batch(2), not_judged("a.V, a.W", "nobody"))
    counts.refused("orders", batch(4), abandoned("a.V, a.W"))

    assert (await read(counts)).of("penstock_records_total") == {
        ("orders", "a.Drop, a.V, a.W", "accepted"): 8,
        ("orders", "a.Drop", "dropped"): 2,
        ("orders", "a.V", "refused"): 3,
        ("orders", "a.V, a.W", "failed"): 2,
        ("orders", "a.V, a.W", "abandoned"): 4,
    }


@pytest.mark.parametrize(
    ("count", "counted"), [(2**31 - 1, 1000), (-1, 0), (-(2**31), 0), (1000, 1000)]
)
async def test_a_wrong_record_count_in_a_header_is_not_counted(counts, count, counted):
    data = bytearray(batch(1))
    data[57:61] = count.to_bytes(4, "big", signed=True)
    counts.refused("orders", bytes(data), refused(2, "not readable", ""))
    counts.refused("orders", b"short", refused(2, "not readable", ""))

    assert (await read(counts)).of("penstock_records_total") == {("orders", "", "refused"): counted}


async def test_waiting_and_judging_times_are_measured(counts):
    counts.judged("a.V", None, 0.2, 3.0)
    counts.judged("a.V", FailureCause.NOT_JUDGED, 7.0, 0.0)
    counts.judged("a.V", FailureCause.ABANDONED, 1.0, 0.0)
    counts.accepted_inline("a.V", 0.0001)

    found = await read(counts)
    assert found("penstock_waiting_seconds_sum", policy="a.V") == pytest.approx(8.2)
    assert found("penstock_judging_seconds_sum", policy="a.V") == pytest.approx(3.0001)
    assert found("penstock_judging_seconds_count", policy="a.V") == 2


async def test_rare_series_are_exposed_from_the_start(counts):
    causes = {(end.value,): 0 for end in WorkerEnd}
    assert (await read(counts)).of("penstock_worker_restarts_total") == causes

    counts.ended(WorkerEnd.CRASHED)
    counts.reloaded(worked=False)
    counts.topic_judged("a.Topics", ACCEPTED)

    found = await read(counts)
    assert found.of("penstock_worker_restarts_total") == {**causes, ("crashed",): 1}
    assert found.of("penstock_reload_total") == {("ok",): 0, ("failed",): 1}
    assert found.of("penstock_topic_verdicts_total") == {("a.Topics", "accepted"): 1}


async def test_counts_of_policies_are_exposed(counts):
    counts.policy_event("lookup", "found", 3)
    counts.policy_event("lookup", "found", 1)

    found = await read(counts)
    assert found("penstock_policy_events_total", event="lookup", result="found") == 4


async def test_clients_cannot_create_unbounded_series(counts):
    for number in range(3000):
        plan = TopicPlan(topic=f"t{number}", validators=("a.V",))
        counts.accepted(plan, batch(1))

    found = await read(counts)
    records = found.of("penstock_records_total")
    assert len(records) == 1001
    assert records["(other)", "(other)", "accepted"] == 2000
    assert found("penstock_series_over_bound_total", metric="penstock_records_total") == 2000


async def test_names_follow_prometheus(counts):
    """Counters end with _total, times are in seconds; the library strips the suffix itself."""
    found = await read(counts)
    for family in found.families.values():
        assert family.name.startswith("penstock_")
        assert family.documentation.endswith(".")
        if family.type == "counter":
            assert f"# TYPE {family.name}_total counter" in found.text
            assert isinstance(CounterMetricFamily(family.name, ""), type(family).__base__)
        else:
            assert family.type == "histogram"
            assert family.name.endswith("_seconds")


async def test_totals_for_the_console(counts):
    before = counts.totals()
    exchange = Streamed(0, 9, 1)
    exchange.received_at = time.monotonic() - 0.2
    counts.answered(exchange)
    counts.accepted(PLAN, batch(5))
    counts.refused("orders", batch(3), refused(87, "no", "a.V"))
    counts.refused("orders", batch(2), refused(87, "no", "a.W"))
    counts.judged("a.V", None, 0.02, 0.3)
    counts.judged("a.W", None, 0.02, 0.3)
    counts.ended(WorkerEnd.MEMORY)
    counts.client_bytes = 7
    after = counts.totals()

    assert before.requests == 0
    assert before.records == {}
    assert (after.requests, after.client_bytes) == (1, 7)
    assert after.records == {"accepted": 5, "refused": 5}
    assert (sum(after.produce), sum(after.judging), sum(after.broker)) == (1, 2, 0)
    assert after.waiting[5] == 2
    assert len(before.broker) == len(after.produce)
    assert counts.records_by_topic() == {"orders": {"accepted": 5, "refused": 5}}
    assert counts.restarts()["memory"] == 1


async def test_reading_totals_creates_no_series(counts):
    before = (await read(counts)).text
    counts.totals()
    assert (await read(counts)).text == before


def test_stored_bad_records_are_counted_for_their_policy(counts):
    bad = refused(87, "no", "a.W")
    diverted = (
        Diverted(replace(bad, outcome=Outcome.QUARANTINED), 2),
        Diverted(replace(bad, outcome=Outcome.MARKED), 1),
    )
    counts.accepted(PLAN, batch(10), replaced(b"", (0, 3, 4), diverted, quarantined=(3, 4)))
    assert counts.records_by_topic() == {
        "orders": {"quarantined": 2, "marked": 1, "dropped": 1, "accepted": 6}
    }
