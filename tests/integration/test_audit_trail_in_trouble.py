"""The audit trail while its topic cannot be written: no producer waits, memory is bounded."""

import uuid

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.gateway.observing.audit_trail.trail import HELD_MAX_BYTES
from penstock.kafka.local import LocalKafka, free_ports
from tests.audit_records import checked
from tests.gateways import RunningGateway, wait_until, write_configuration
from tests.integration.reading import read_topic, values_of
from tests.kafka.records.encoding import encode_batch, values
from tests.metrics import scrape
from tests.raw import RawClient, produce_request

pytestmark = pytest.mark.slow

POLICIES = """
from penstock.policy import *
class NoBad(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("no") if value == b"bad" else None
"""
PARTITIONS = 100


@pytest.fixture(scope="module")
def cluster():
    with LocalKafka(nodes=3) as running:
        yield running


@pytest.fixture
def topics_by_broker(cluster):
    """A topic for producers on the first broker, and one for the trail on the last."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    orders, audit = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("orders", "audit"))
    first, *_, last = (node.node_id for node in cluster.nodes)
    made = [
        NewTopic(orders, PARTITIONS, replica_assignment=[[first]] * PARTITIONS),
        NewTopic(audit, 1, replica_assignment=[[last]]),
    ]
    for done in admin.create_topics(made).values():
        done.result(60)
    wait_until(
        lambda: all(
            partition.leader >= 0
            for name in (orders, audit)
            for partition in admin.list_topics(name, timeout=60).topics[name].partitions.values()
        ),
        what="leaders",
    )
    return orders, audit


@pytest.fixture
def started(cluster, topics_by_broker, tmp_path):
    port, *_ = free_ports(5)
    metrics = free_ports(1)[0]
    file = write_configuration(
        tmp_path, cluster.bootstrap_servers, port,
        {"record.validator.classes": "policies.NoBad", "audit.topic": topics_by_broker[1],
         "metrics.listener": f":{metrics}"},
        POLICIES,
    )  # fmt: skip
    running = RunningGateway(file)
    running.metrics = metrics
    yield running
    if running.process.poll() is None:
        running.stop()


def refuse(running, topic, count):
    """Let as many batches be refused, a hundred in each request."""
    bad = encode_batch(values(b"bad"))
    request = produce_request([(topic, [(n, bad) for n in range(PARTITIONS)])])
    with RawClient(running.broker_address(), timeout_s=60) as client:
        for _ in range(count // PARTITIONS):
            partitions = client.call(request).responses[0].partition_responses
            assert [int(partition.error_code) for partition in partitions] == [87] * PARTITIONS


def counted(running):
    found = scrape(running.metrics)
    results = found.of("penstock_audit_records_total")
    return results["written",], results["left_out",], found("penstock_audit_held_bytes")


def test_no_producer_waits_while_the_broker_of_the_trail_is_unavailable(
    cluster, topics_by_broker, started
):
    orders, audit = topics_by_broker
    refuse(started, orders, 200)
    wait_until(lambda: counted(started)[0] == 200, what="the first records")
    stopped_broker = cluster.nodes[-1]
    stopped_broker.stop()

    # Answered although nothing of the trail can be written.
    refuse(started, orders, 500)
    written, left_out, held = counted(started)
    assert (written, left_out) == (200, 0)
    assert held > 500 * 512

    # More than there is room for.
    before = scrape(started.metrics)("process_resident_memory_bytes")
    refuse(started, orders, 100_000)
    written, left_out, held = counted(started)
    assert (written, held) == (200, pytest.approx(HELD_MAX_BYTES, abs=2000))
    assert 30_000 < left_out < 100_500
    # Bytes of records, librdkafka's overhead for each, and the allocators' rest.
    grown = scrape(started.metrics)("process_resident_memory_bytes") - before
    assert grown < 4 * HELD_MAX_BYTES
    started.wait_for("refusals left out of the audit trail")

    stopped_broker.start()
    cluster.wait_ready()
    wait_until(lambda: counted(started)[2] == 0, 120, what="an empty queue")
    refuse(started, orders, 100)
    wait_until(lambda: counted(started)[2] == 0, what="an empty queue")
    written, after, _ = counted(started)
    assert (after, written) == (left_out, 100_800 - left_out)

    found = [checked(line) for line in values_of(read_topic(cluster.bootstrap_servers, audit))]
    numbers = {record["number"] for record in found}
    assert len({record["run"] for record in found}) == 1
    assert len(numbers) == written
    # Missing numbers equal the counted losses, between held and later refusals.
    assert set(range(1, 100_801)) - numbers == set(
        range(written - 100 + 1, written - 100 + 1 + left_out)
    )


def test_the_shutdown_does_not_wait_for_the_broker_of_the_trail(cluster, topics_by_broker, started):
    orders, _ = topics_by_broker
    stopped_broker = cluster.nodes[-1]
    stopped_broker.stop()
    try:
        refuse(started, orders, 300)
        assert started.stop() == 0
    finally:
        stopped_broker.start()
        cluster.wait_ready()
    events = started.events("refusals left out of the audit trail")
    assert sum(event["count"] for event in events) == 300
    assert events[-1]["to"] == topics_by_broker[1]
