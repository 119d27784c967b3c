"""Brokers identified by the server name in the TLS handshake, on a single port, with real clients.

Each client runs with its own /etc/hosts, in which the brokers' names stand for the gateway, or
for a load balancer in front of it.
"""

import contextlib
import shutil
import socket
import ssl
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.metadata.v12.request import MetadataRequest

from penstock.kafka.local import LocalKafka, free_ports
from tests.certificates import Files
from tests.gateways import RunningGateway, wait_until, write_configuration
from tests.go import go_program
from tests.integration.reading import read_topic, values_of
from tests.java import program
from tests.kafka.records.encoding import encode_batch, values
from tests.namespaces import with_hosts
from tests.proxies import LoadBalancer
from tests.raw import RawClient, produce_request, produced

pytestmark = pytest.mark.slow

HOST = "gw.example.com"
FIRST, NODES = 101, 3
"""Node ids for which port-per-broker would need a broker.ids.first."""
POLICIES = """
from penstock.policy import *
class NoBad(BrokerRecordValidatorWithContext):
    def validate_record(self, topic_partition, key, value, headers, context):
        if value == b"bad":
            return InvalidRecordException(f"from {context.address}")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalKafka(
        nodes=NODES, first_node_id=FIRST, folder=tmp_path_factory.mktemp("named")
    ) as running:
        yield running


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("certificates"))


def names(nodes=range(FIRST, FIRST + NODES + 1)):
    return [HOST, *(f"broker-{node}.{HOST}" for node in nodes)]


@contextlib.contextmanager
def started(cluster, files, folder, *, certificate=f"*.{HOST}", **properties):
    """A gateway that identifies brokers by name."""
    port = free_ports(1)[0]
    key = files.key(f"{uuid.uuid4().hex}.pem", HOST, certificate)
    named = {key.replace("_", "."): value for key, value in properties.items()}
    file = write_configuration(
        folder,
        cluster.bootstrap_servers,
        port,
        {
            "listeners": f"SSL://127.0.0.1:{port}",
            "advertised.host": HOST,
            "broker.addresses": "sni",
            "ssl.keystore.location": key,
            "record.validator.classes": "policies.NoBad",
            **named,
        },
        POLICIES,
    )
    running = RunningGateway(file)
    try:
        yield running
    finally:
        assert running.stop() == 0


@pytest.fixture(scope="module")
def one_port(cluster, files, tmp_path_factory):
    with started(cluster, files, tmp_path_factory.mktemp("one-port")) as running:
        yield running


@pytest.fixture
def topic(cluster):
    """A topic with a partition at each broker."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    name = f"named-{uuid.uuid4().hex[:8]}"
    assignment = [[node] for node in range(FIRST, FIRST + NODES)]
    admin.create_topics([NewTopic(name, NODES, replica_assignment=assignment)])[name].result(60)
    wait_until(lambda: len(admin.list_topics(name, timeout=60).topics[name].partitions) == NODES)
    return name


def python(client: str) -> list[str]:
    return [sys.executable, str(Path(__file__).parent / "one_port.py"), client]


def run(folder, command, *, address="127.0.0.1"):
    """Run a client for which the gateway's names have an address; return its lines."""
    hosts = dict.fromkeys(names(), address)
    done = subprocess.run(
        with_hosts(folder, hosts, command), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("client", ["librdkafka", "kafka-python", "aiokafka"])
def test_python_clients_reach_every_broker_by_name(
    client, cluster, one_port, files, topic, tmp_path
):
    port = one_port.host_port[1]
    arguments = [f"{HOST}:{port}", str(files.trust), topic, str(NODES)]
    expected = [f"{client}-{number}" for number in range(NODES)]
    assert run(tmp_path, [*python(client), *arguments]) == expected
    assert sorted(values_of(read_topic(cluster.bootstrap_servers, topic))) == [
        line.encode() for line in expected
    ]


def test_java_reaches_every_broker_by_name(one_port, files, topic, tmp_path):
    port = one_port.host_port[1]
    java = program(Path(__file__).parent / "java" / "OnePort.java")
    lines = run(tmp_path, [*java, f"{HOST}:{port}", str(files.trust), topic, str(NODES)])
    assert lines == [
        *(f"java-{number}" for number in range(NODES)),
        *(f"{node} broker-{node}.{HOST}:{port}" for node in range(FIRST, FIRST + NODES)),
    ]


@pytest.mark.go
def test_franz_go_reaches_every_broker_by_name(one_port, files, topic, tmp_path):
    port = one_port.host_port[1]
    lines = run(
        tmp_path, [*go_program("oneport"), f"{HOST}:{port}", str(files.trust), topic, str(NODES)]
    )
    assert lines == [f"franz-go-{number}" for number in range(NODES)]


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed (a Debian package)")
def test_kcat_reaches_every_broker_by_name(one_port, files, topic, tmp_path):
    port = one_port.host_port[1]
    common = ["kcat", "-b", f"{HOST}:{port}", "-X", "security.protocol=SSL",
              "-X", f"ssl.ca.location={files.trust}", "-t", topic]  # fmt: skip
    for number in range(NODES):
        value = tmp_path / f"value-{number}"
        value.write_text(f"kcat-{number}")
        run(tmp_path, [*common, "-P", "-p", str(number), str(value)])
    lines = run(tmp_path, [*common, "-C", "-e", "-q", "-f", "%s\\n"])
    assert sorted(lines) == [f"kcat-{number}" for number in range(NODES)]


def test_clients_reach_every_broker_behind_a_load_balancer_with_its_own_port(
    cluster, files, topic, tmp_path
):
    """As on Kubernetes: an ingress with another port, which passes the addresses of clients on."""
    with started(
        cluster, files, tmp_path, listener_proxy_protocol="true", advertised_port="443"
    ) as running:
        port = running.host_port[1]
        with (
            LoadBalancer(range(port, port + 1), "203.0.113.7"),
            secure(files, HOST, port, at=LoadBalancer.host) as client,
        ):
            found = client.call(DescribeClusterRequest(include_cluster_authorized_operations=False))
            assert {(broker.host, int(broker.port)) for broker in found.brokers} == {
                (f"broker-{node}.{HOST}", 443) for node in range(FIRST, FIRST + NODES)
            }
        leader = f"broker-{FIRST}.{HOST}"
        with (
            LoadBalancer(range(port, port + 1), "203.0.113.7"),
            secure(files, leader, port, at=LoadBalancer.host) as client,
        ):
            answer = client.call(produce_request([(topic, [(0, encode_batch(values(b"bad")))])]))
            [error] = produced(answer)[topic, 0].record_errors
            assert error.batch_index_error_message == "from 203.0.113.7"


@contextlib.contextmanager
def secure(files, name, port, *, at="127.0.0.1"):
    """A raw client that sends a server name (None for no name)."""
    context = ssl.create_default_context(cafile=str(files.trust))
    context.check_hostname = name is not None
    client = RawClient(f"{at}:{port}")
    client.socket = context.wrap_socket(client.socket, server_hostname=name)
    with client:
        yield client


def controller(client):
    """Return the addresses of brokers in a Metadata response."""
    found = client.call(MetadataRequest(topics=(), allow_auto_topic_creation=False,
                                        include_topic_authorized_operations=False))  # fmt: skip
    return {int(broker.node_id): (broker.host, int(broker.port)) for broker in found.brokers}


def test_every_response_has_the_names_of_brokers(one_port, files, topic):
    port = one_port.host_port[1]
    expected = {node: (f"broker-{node}.{HOST}", port) for node in range(FIRST, FIRST + NODES)}
    for name in (HOST, HOST.upper(), None, f"broker-{FIRST}.{HOST}"):
        with secure(files, name, port) as client:
            assert controller(client) == expected
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=("a-group",))
            wait_until(lambda: client.call(request).coordinators[0].error_code == 0)  # noqa: B023
            [coordinator] = client.call(request).coordinators
            assert (coordinator.host, int(coordinator.port)) == expected[int(coordinator.node_id)]


def test_a_server_name_leads_to_its_broker(one_port, files, topic):
    """Each broker accepts records only for its own partition."""
    port = one_port.host_port[1]
    for number in range(NODES):
        with secure(files, f"broker-{FIRST + number}.{HOST}", port) as client:
            for partition in range(NODES):
                request = produce_request([(topic, [(partition, encode_batch(values(b"x")))])])
                code = produced(client.call(request))[topic, partition].error_code
                assert code == (0 if partition == number else 6)  # NOT_LEADER_OR_FOLLOWER


def test_new_leaders_in_produce_responses_have_names(one_port, files, topic):
    """KIP-951: the endpoints next to an error."""
    port = one_port.host_port[1]
    with secure(files, f"broker-{FIRST}.{HOST}", port) as client:
        request = produce_request([(topic, [(1, encode_batch(values(b"x")))])], version=10)
        answer = client.call(request)
    assert produced(answer)[topic, 1].error_code == 6
    assert [
        (int(endpoint.node_id), endpoint.host, int(endpoint.port))
        for endpoint in answer.node_endpoints
    ] == [(FIRST + 1, f"broker-{FIRST + 1}.{HOST}", port)]


def test_unknown_server_names_end_the_handshake(one_port, files):
    port = one_port.host_port[1]
    for name in ("other.example.com", f"broker-x.{HOST}", f"a.broker-{FIRST}.{HOST}"):
        with pytest.raises((ssl.SSLError, ConnectionError)), secure(files, name, port):
            pass
        wait_until(
            lambda name=name: any(
                event["name"] == name for event in one_port.events("unknown server name")
            )
        )


def test_a_connection_to_a_missing_broker_is_closed(one_port, files):
    port = one_port.host_port[1]
    with secure(files, f"broker-77.{HOST}", port) as client:
        with contextlib.suppress(ConnectionError):
            client.send(client.frame(DescribeClusterRequest(
                include_cluster_authorized_operations=False)))  # fmt: skip
        assert client.closed()
    assert any(event.get("node") == 77 for event in one_port.wait_for("broker is not known"))


def test_a_certificate_for_some_brokers_only_is_reported(cluster, files, tmp_path):
    with started(cluster, files, tmp_path, certificate=f"broker-{FIRST}.{HOST}") as running:
        events = running.wait_for(
            "broker out of reach for clients: the certificate does not cover its name", 2
        )
        assert {event["name"] for event in events} == set(names()[2:-1])
        [warning] = running.events("configuration")
        assert f"does not cover *.{HOST}" in warning["text"]


def test_a_client_that_connects_to_an_address_gets_any_broker(one_port, files):
    with socket.create_connection(one_port.host_port, 60) as raw:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(raw) as client:
            assert client.version() == "TLSv1.3"
