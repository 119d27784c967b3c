"""Three brokers: each at its own port, leaders that move, a broker that stops and starts."""

import datetime
import os
import signal
import threading
import time
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType
from confluent_kafka.cimpl import NewTopic
from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.describe_quorum.v2 import request as quorum
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.metadata.v12.request import MetadataRequest
from structlog.testing import capture_logs

from penstock.kafka.cluster.compacted_topic import CompactedTopic
from penstock.kafka.local import LocalKafka
from tests.gateways import RunningGateway, gateway_port, wait_until, write_configuration
from tests.integration.clients_at_work import MIXED, PLAIN, TRANSACTED, ClientsAtWork
from tests.integration.reading import read_topic, topic_id
from tests.kafka.records.encoding import encode_batch, values
from tests.kafka.wire.share_fetches import without_filler
from tests.raw import RawClient, parse_response, produce_request, produced, request_frame
from tests.relay import Relay

pytestmark = pytest.mark.slow

POLICIES = """
import zlib
from penstock.policy import *
class AThird(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "^plain$"
    def process_record(self, key, value, topic, partition, headers):
        if zlib.crc32(value) % 3 == 0: raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key, value)
class NoBad(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value and value.startswith(b"bad"): return InvalidRecordException("bad")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalKafka(
        nodes=3, first_node_id=4, folder=tmp_path_factory.mktemp("three"),
        properties={"default.replication.factor": "3", "min.insync.replicas": "2",
                    "controlled.shutdown.retry.backoff.ms": "500"},
    ) as running:  # fmt: skip
        yield running


@pytest.fixture(scope="module")
def through(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("through-three")
    port = gateway_port()
    file = write_configuration(
        folder,
        cluster.bootstrap_servers,
        port,
        {
            "record.validator.classes": "policies.NoBad",
            "produce.request.interceptors": "policies.AThird",
            "advertised.host": "127.0.0.2",
            "broker.ports": f"{port + 1}-{port + 4}",
            "broker.ids.first": 4,
        },
        POLICIES,
    )
    with Relay(range(port, port + 4)) as recorder:
        running = RunningGateway(file)
        running.recorder = recorder
        running.bootstrap = f"127.0.0.2:{port}"
        running.first = port + 1
        yield running
        assert running.stop() == 0


def create_topic(cluster, name: str, partitions: int = 3) -> dict[int, int]:
    """Create a topic; return the leaders of its partitions."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result(30)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = admin.list_topics(name, timeout=60).topics[name].partitions.values()
        if len(found) == partitions and all(p.leader >= 0 for p in found):
            return {p.id: p.leader for p in found}
        time.sleep(0.1)
    raise AssertionError(f"{name} has no leaders")


def assert_no_address(cluster, data: bytes) -> None:
    """Assert that data has no address of a broker: neither a host, nor a port next to a host."""
    assert b"127.0.0.1" not in data
    assert b"localhost" not in data
    for node in cluster.nodes:
        assert b"127.0.0.2" + node.port.to_bytes(4, "big") not in data


@pytest.fixture
def opened(cluster, tmp_path):
    """Opens a compacted topic as a gateway does at its start; returns its log lines."""

    def open_(name: str) -> list:
        properties = {"bootstrap.servers": cluster.bootstrap_servers}
        topic = CompactedTopic(
            properties, name, tmp_path / "file", key="key", otherwise="do without"
        )
        with capture_logs() as lines:
            topic.open(60)
        topic.close()
        return lines

    return open_


def test_a_topic_with_state_outlives_the_loss_of_a_broker(cluster, opened):
    name = f"state-{uuid.uuid4().hex[:8]}"
    assert opened(name) == []
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    [partition] = admin.list_topics(name, timeout=30).topics[name].partitions.values()
    assert len(partition.replicas) == 3
    resource = ConfigResource(ResourceType.TOPIC, name)
    found = admin.describe_configs([resource])[resource].result(30)["min.insync.replicas"]
    assert (found.value, found.source) == ("2", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    assert opened(name) == [], "the topic exists, and has its configs"


def test_a_topic_with_state_that_has_fewer_replicas_is_warned_about(cluster, opened):
    name = f"state-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1, config={"cleanup.policy": "compact"})])[name].result(
        30
    )
    for node in cluster.nodes:  # a client may ask any, which may hear of the topic later
        of_node = AdminClient({"bootstrap.servers": f"{node.host}:{node.port}"})
        wait_until(
            lambda admin=of_node: admin.list_topics(name, timeout=30).topics[name].error is None
        )
    [line] = opened(name)
    assert line["event"] == "a topic with state can lose it when a broker fails"
    assert (line["replicas"], line["wanted_replicas"]) == (1, 3)
    assert (line["min_insync_replicas"], line["wanted_min_insync_replicas"]) == (2, 2)


def test_each_broker_has_its_port_and_no_address_of_a_broker_reaches_clients(cluster, through):
    requests = [
        MetadataRequest(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        ),
        FindCoordinatorRequest(key_type=0, coordinator_keys=("a", "b", "c", "d")),
        FindCoordinatorRequest(key_type=1, coordinator_keys=("a", "b", "c", "d")),
        DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=1),
    ]
    expected = {(node, through.first + node - 4) for node in (4, 5, 6)}
    for node in (4, 5, 6):
        with RawClient(f"127.0.0.2:{through.first + node - 4}") as client:
            brokers = client.call(requests[0]).brokers
            assert {(b.node_id, b.port) for b in brokers} == expected
            assert {b.host for b in brokers} == {"127.0.0.2"}
            for request in requests:
                frame = b""
                deadline = time.monotonic() + 60
                while b"127.0.0.2" not in frame:  # a coordinator may still be on its way
                    assert time.monotonic() < deadline
                    client.send(client.frame(request))
                    frame = client.receive()
                    assert_no_address(cluster, frame)


def test_endpoints_of_controllers_are_those_of_the_cluster(cluster, through):
    partition = quorum.PartitionData(partition_index=0)
    request = quorum.DescribeQuorumRequest(
        topics=(quorum.TopicData(topic_name="__cluster_metadata", partitions=(partition,)),)
    )

    def endpoints(address: str) -> set[tuple[int, str, str, int]]:
        with RawClient(address) as client:
            return {
                (node.node_id, listener.name, listener.host, int(listener.port))
                for node in client.call(request).nodes
                for listener in node.listeners
            }

    direct = endpoints(cluster.bootstrap_servers.split(",")[0])
    assert {name for _, name, _, _ in direct} == {"CONTROLLER"}
    assert endpoints(f"127.0.0.2:{through.first}") == direct


@pytest.mark.parametrize("version", [9, 10, 11, 12, 13])
def test_a_leader_in_a_produce_response_has_its_port(cluster, through, version):
    name = f"moved-{version}"
    leaders = create_topic(cluster, name)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topic = topic_id(admin, name) if version >= 13 else name
    good, bad = encode_batch(values(b"good")), encode_batch(values(b"bad"))
    other = next(node for node in (4, 5, 6) if node != leaders[0])
    request = produce_request([(topic, [(0, good), (1, bad)])], version=version)

    with RawClient(f"127.0.0.2:{through.first + other - 4}") as client:
        deadline = time.monotonic() + 60
        while True:
            client.send(client.frame(request))
            frame = client.receive()
            response = parse_response(frame, 0, version)
            answers = produced(response)
            if answers[topic, 0].error_code not in {3, 100} or time.monotonic() > deadline:
                break  # else this broker has not yet heard of the topic

    assert_no_address(cluster, frame)
    assert answers[topic, 0].error_code == 6
    assert answers[topic, 1].error_code == 87
    if version >= 10:
        assert answers[topic, 0].current_leader.leader_id == leaders[0]
        [endpoint] = response.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (
            leaders[0],
            "127.0.0.2",
            through.first + leaders[0] - 4,
        )


@pytest.mark.parametrize("version", [1, 2])
def test_a_share_fetch_response_has_the_id_of_a_leader_and_no_address(cluster, through, version):
    name = f"shared-{version}"
    leader = create_topic(cluster, name, 1)[0]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    other = next(node for node in (4, 5, 6) if node != leader)
    identity = topic_id(admin, name)
    module = __import__(f"kio.schema.share_fetch.v{version}.request", fromlist=["x"])
    fields = module.ShareFetchRequest.__dataclass_fields__
    partition_fields = {"partition_index": 0, "acknowledgement_batches": ()}
    topic = module.FetchTopic(
        topic_id=identity, partitions=(module.FetchPartition(**partition_fields),)
    )
    request = {
        "group_id": "g",
        "member_id": str(uuid.uuid4()),
        "share_session_epoch": 0,
        "max_wait": datetime.timedelta(milliseconds=100),
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "max_records": 100,
        "batch_size": 100,
        "share_acquire_mode": 0,
        "is_renew_ack": False,
        "topics": (topic,),
        "forgotten_topics_data": (),
    }
    request = module.ShareFetchRequest(**{k: v for k, v in request.items() if k in fields})

    with RawClient(f"127.0.0.2:{through.first + other - 4}") as client:
        client.send(request_frame(request, 5))
        frame = client.receive()

    assert_no_address(cluster, frame)
    response = parse_response(without_filler(frame), 78, version)
    assert response.error_code == 0, response
    assert response.node_endpoints == ()
    assert response.responses[0].partitions[0].current_leader.leader_id == leader


@pytest.mark.chaos
def test_clients_follow_a_broker_that_stops_and_starts_again(cluster, through):
    for topic in (PLAIN, MIXED, TRANSACTED):
        create_topic(cluster, topic)
    with ClientsAtWork(through.bootstrap) as clients:
        clients.wait_for_progress()
        for goes in (cluster.nodes[1].stop, cluster.nodes[2].kill):
            goes()  # where it is stopped, it moves its leaderships first
            clients.wait_for_progress()
            start_again(cluster)
            clients.wait_for_progress()
        clients.finish()

    assert not clients.failed
    assert_stored_once(cluster, clients)
    assert len(through.recorder.responses) > 100_000
    assert_no_address(cluster, bytes(through.recorder.responses))


def start_again(cluster) -> None:
    for node in cluster.nodes:
        node.start()
    cluster.wait_ready()


def assert_stored_once(cluster, clients: ClientsAtWork) -> None:
    plain, mixed, transacted = (
        stored_values(cluster, topic) for topic in (PLAIN, MIXED, TRANSACTED)
    )
    # A third is dropped by an interceptor; the others are there once, through every move.
    assert sorted(plain) == sorted(clients.kept)
    # "mixed" may have duplicates: after a refusal librdkafka takes a new epoch, and retries
    # under it batches in flight on a lost connection. It also does so with brokers.
    assert clients.acknowledged[MIXED] <= set(mixed)
    assert clients.refused
    assert not any(value.startswith(b"bad") for value in mixed)
    assert clients.committed <= set(transacted)
    assert len(transacted) == len(set(transacted))


def stored_values(cluster, topic: str) -> list[bytes]:
    """Return the values of committed transactions."""
    messages = read_topic(cluster.bootstrap_servers, topic, full=True, isolation="read_committed")
    return [message.value() for message in messages]


class ProducersWithBadRecords:
    """Idempotent producers, each on its own connections; some of their records are bad."""

    def __init__(self, bootstrap: str, topic: str, producers: int = 6) -> None:
        self.sent: set[bytes] = set()
        self.acknowledged: set[bytes] = set()
        self.failed: list[str] = []
        self._ends = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(bootstrap, topic, number))
            for number in range(producers)
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._ends.set()
        for thread in self._threads:
            thread.join(150)

    def _work(self, bootstrap: str, topic: str, number: int) -> None:
        producer = Producer({
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 10,
            "delivery.timeout.ms": 120_000, "log_level": 0,
        })  # fmt: skip
        count = 0
        while not self._ends.is_set():
            for _ in range(20):
                count += 1
                value = b"%s %d %d" % (b"ok" if count % 4 else b"bad", number, count)
                self.sent.add(value)
                producer.produce(topic, value, partition=count % 12, on_delivery=self._on_delivery)
            producer.poll(0.1)
        if left := producer.flush(120):
            self.failed.append(f"{left} are left")

    def _on_delivery(self, error, message) -> None:
        if error is None:
            self.acknowledged.add(message.value())
        else:
            self.failed.append(str(error))

    def wait_for_progress(self, records: int = 1000) -> None:
        least, deadline = len(self.acknowledged) + records, time.monotonic() + 90
        while len(self.acknowledged) < least:
            assert time.monotonic() < deadline, self.failed
            time.sleep(0.05)


@pytest.mark.chaos
def test_dead_letters_of_many_producers_outlive_the_loss_of_a_broker(cluster, tmp_path):
    create_topic(cluster, name := f"letters-{uuid.uuid4().hex[:8]}", 12)
    file = write_configuration(
        tmp_path,
        cluster.bootstrap_servers,
        gateway_port(),
        {
            "record.validator.classes": "policies.NoBad",
            "penstock.mode": "quarantine",
            "errors.deadletterqueue.topic.replication.factor": "3",
        },
        POLICIES,
    )
    running = RunningGateway(file)
    try:
        with ProducersWithBadRecords(running.address, name) as producers:
            producers.wait_for_progress()
            cluster.nodes[1].kill()
            producers.wait_for_progress()
            start_again(cluster)
            producers.wait_for_progress()
            silent = cluster.nodes[2].pid
            os.kill(silent, signal.SIGSTOP)  # it accepts, and never answers
            try:
                time.sleep(12)
                producers.wait_for_progress()
            finally:
                os.kill(silent, signal.SIGCONT)
            producers.wait_for_progress()
    finally:
        assert running.stop() == 0

    assert not producers.failed
    assert producers.acknowledged == producers.sent
    bad = {value for value in producers.sent if value.startswith(b"bad")}
    stored = stored_values(cluster, name)
    assert len(stored) == len(set(stored))
    assert set(stored) == producers.sent - bad
    letters = read_topic(cluster.bootstrap_servers, f"{name}.dead", full=True)
    assert {letter.value() for letter in letters} == bad
    assert len(letters) == len(bad), "brokers recognize letters that are sent again"
    assert len({dict(letter.headers())["__dlq.id"] for letter in letters}) == len(bad)
    assert not [line for line in running.log if line["event"] == "an error of the gateway"]
