"""What a gateway counts for a topic that it only observes is what Spark says of the same records."""

import json
import random
import re
import time
from collections import Counter

import pytest

from penstock.engine.plans.plan import Plan
from penstock.kafka.cluster.offsets import Cluster
from penstock.kafka.local import free_ports
from penstock.spark import apply, load_plan
from tests.gateways import wait_until
from tests.integration.reading import read_topic
from tests.kafka.records.encoding import encode_batch
from tests.metrics import scrape
from tests.parity.doors import (
    ALL_BUT_BATCH,
    BATCH,
    INTERCEPTOR,
    PARTITIONS,
    Generator,
    all_of,
    rows_of,
    send,
)
from tests.parity.json_texts import LINE, SCHEMA
from tests.parity.same import POLICIES

pytestmark = [pytest.mark.parity, pytest.mark.timeout(3600)]
AT_ONCE = 10 * PARTITIONS
"""A gateway has room for 1,000 batches that wait to be observed."""
WOULD = {"refused": "would_refuse", "failed": "would_fail"}
OBSERVE = {"topics.parity-*.penstock.mode": "observe"}
KINDS = {
    "observe": {**ALL_BUT_BATCH, **OBSERVE},
    "observe, KIP-686": {**BATCH, **OBSERVE},
    "observe, KIP-905": {
        **ALL_BUT_BATCH, **OBSERVE, "produce.request.interceptors": "policies.Odd",
    },
}  # fmt: skip


@pytest.fixture(params=KINDS)
def properties(request, tmp_path):
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    (schemas / "order.json").write_text(json.dumps(SCHEMA))
    (schemas / "line.json").write_text(json.dumps(LINE))
    return {
        **KINDS[request.param],
        "json.schema.folder": str(schemas),
        "policy.workers": "1",
        "metrics.listener": f"127.0.0.1:{free_ports()[0]}",
    }


def counted(port, topic):
    """Return how many records of a topic have each policy and outcome."""
    found = Counter()
    for (name, policy, outcome), count in scrape(port).of("penstock_records_total").items():
        if name == topic:
            found[policy, outcome] += int(count)
    return found


def test_counts_equal_the_verdicts_of_spark(properties, gateway, spark, kafka, topic, pytestconfig):
    running = gateway(properties, POLICIES + INTERCEPTOR)
    port = int(properties["metrics.listener"].rpartition(":")[2])
    count = pytestconfig.getoption("parity_records")
    seed = pytestconfig.getoption("parity_seed") or random.randrange(2**32)
    generator, now = Generator(seed), int(time.time() * 1000)
    records = [generator.record(number, now) for number in range(count)]
    batches = [encode_batch([record], codec=generator.codec()) for record in records]
    name = topic("parity-observed", PARTITIONS)

    for start in range(0, count, AT_ONCE):
        answers = send(running.broker_address(), name, batches[start : start + AT_ONCE], PARTITIONS)
        assert not any(int(answer.error_code) for answer in answers)
        sent = min(start + AT_ONCE, count)
        wait_until(lambda sent=sent: counted(port, name).total() >= sent, 600)
    stored = {
        dict(message.headers())["n"]: (message.key(), message.value())
        for message in read_topic(kafka.bootstrap_servers, name, full=True)
    }
    sent = {b"%d" % number: (record.key, record.value) for number, record in enumerate(records)}
    assert stored == sent

    by_gateway = counted(port, name)
    assert by_gateway == by_spark(spark, running.file, name, records), f"seed {seed}"
    assert len(by_gateway) > 1


def by_spark(spark, file, topic, records):
    """Return how often gateways have to count each policy and outcome."""
    plan = load_plan(file)
    cluster = Cluster(plan.configuration.upstream_properties, plan.path)
    ranges = cluster.ranges(cluster.topics(topic), "earliest")
    plans = Plan(plan.configuration.policies)
    if plan.has_interceptors:
        plans.set_interceptor_patterns([("policies.Odd", re.compile(".*"))])
    of_topic = plans.for_topic(topic, {})
    rows = apply(rows_of(spark, plan, ranges), plan)
    found = Counter()
    for row in all_of(rows.select("partition", "offset", "verdict", "key", "value")):
        record = records[row.offset * PARTITIONS + row.partition]
        content = [None if part is None else bytes(part) for part in (row.key, row.value)]
        if row.verdict.outcome == "dropped":
            found[of_topic.interceptor_names, "would_drop"] += 1
        elif row.verdict.outcome != "accepted":
            found[row.verdict.policy, WOULD[row.verdict.outcome]] += 1
        elif content != [record.key, record.value]:
            found[of_topic.interceptor_names, "would_change"] += 1
        else:
            found[of_topic.policy_names, "accepted"] += 1
    return found
