"""Requests that no policy affects pass through the gateway unchanged.

For every API and version that the broker offers, a sample request is sent to the broker twice
and through the gateway once. If the broker returns the same bytes twice, the gateway must return
them too, apart from addresses.
"""

import contextlib
import dataclasses
import datetime
import io

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kio.schema.list_groups.v0.request import ListGroupsRequest
from kio.schema.list_transactions.v0.request import ListTransactionsRequest
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from penstock.kafka.local import LocalKafka
from penstock.kafka.wire.schemas import load_request_schema
from tests.conftest import create_topic
from tests.gateways import RunningGateway, gateway_port, wait_until, write_configuration
from tests.integration.reading import topic_id
from tests.integration.samples import TOPIC, WITHOUT_RESPONSE, has_schema, offered, sample, smallest
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, parse_response, produce_request, request_frame

# Responses with addresses of brokers; every other response has to be the same to the byte.
ADDRESSED = {3, 10, 60}
# Versions excluded on purpose; gateway/sessions/routes.py has the reasons.
NARROWED = {(1, 16), (1, 17), (1, 18), (17, 0)}
# Versions that Kafka 4.0 removed (KIP-896), of APIs that are read: brokers of Kafka 3 have them.
REMOVED = {(19, 0), (19, 1), (20, 0), (32, 0)}
# Responses with parts that may change each time: offsets of produced records, sizes of logs, the
# quorum.
VARYING = {0, 35, 55}


@pytest.fixture(scope="module")
def cluster():
    """A separate broker: the samples may harm it."""
    properties = {"unstable.api.versions.enable": "false", "auto.create.topics.enable": "false"}
    with LocalKafka(properties=properties) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        create_topic(admin, TOPIC)
        running.topic_id = topic_id(admin, TOPIC)
        with RawClient(running.bootstrap_servers) as client:
            from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest

            for key_type in (0, 1):
                find = FindCoordinatorRequest(key="x", key_type=key_type)
                wait_until(lambda find=find: client.call(find).error_code == 0, what=f"{find}")
            # They are found before they have loaded their partitions.
            for loaded in (
                ListGroupsRequest(),
                ListTransactionsRequest(state_filters=(), producer_id_filters=()),
            ):
                wait_until(lambda of=loaded: client.call(of).error_code == 0, what=f"{loaded}")
        yield running


@pytest.fixture(scope="module")
def through(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("through")
    (folder / "policies.py").write_text(
        "from penstock.policy import *\n"
        "class Never(RecordValidationPolicy):\n"
        "    def validate(self, topic, record): raise InvalidRecordException('never')\n"
    )
    file = write_configuration(
        folder,
        cluster.bootstrap_servers,
        gateway_port(),
        {
            "record.validation.policy.class.name": "policies.Never",
            "topics.judged.record.validation.policy": "x",
        },
    )
    running = RunningGateway(file)
    yield running
    assert running.stop() == 0


def exchange(address: str, frame: bytes) -> bytes | None:
    """Send a frame over a new connection; return None if the connection is closed instead."""
    with RawClient(address) as client:
        client.send(frame)
        with contextlib.suppress(EOFError, ConnectionError):
            return client.receive()
    return None


def test_only_intentionally_excluded_versions_are_not_offered(cluster, through):
    direct, served = offered(cluster.bootstrap_servers), offered(through.address)

    missing = {
        (key, version)
        for key, (first, last) in direct.items()
        for version in range(first, last + 1)
        if not served[key][0] <= version <= served[key][1]
    }
    known = {
        (key, version)
        for key, version in NARROWED | REMOVED
        if direct[key][0] <= version <= direct[key][1]
    }
    assert missing == known
    assert set(served) == set(direct)
    assert served[0] == direct[0]


class Comparison:
    """Responses of the broker itself, and responses through the gateway."""

    def __init__(self, cluster, through) -> None:
        broker = cluster.nodes[0]
        host, port = through.host_port
        self.compared: set[tuple[int, int]] = set()
        self.by_shape: set[int] = set()
        self.unanswered: set[int] = set()
        self._cluster, self._through = cluster, through
        self._port, self._broker = broker.port, {(broker.host, broker.port)}
        self._gateway = {(host, port + 1)}

    def compare(self, api_key: int, version: int) -> None:
        """Send to the broker before and after: only the shape of changing values is compared."""
        place = f"API {api_key} version {version}"
        direct = self._cluster.bootstrap_servers
        frame = request_frame(sample(api_key, version, self._cluster.topic_id), 77)
        once, twice = exchange(direct, frame), exchange(direct, frame)
        of_gateway, after = exchange(self._through.address, frame), exchange(direct, frame)
        if once is None:
            assert of_gateway is None, place
            self.unanswered.add(api_key)
            return
        assert of_gateway is not None, place
        if api_key in ADDRESSED:
            self._compare_addressed(once, of_gateway, api_key, version)
        elif once == twice == after:
            assert of_gateway == once, place
            self.compared.add((api_key, version))
        else:
            assert shape(of_gateway, api_key, version) == shape(once, api_key, version), place
            self.by_shape.add(api_key)

    def _compare_addressed(
        self, once: bytes, of_gateway: bytes, api_key: int, version: int
    ) -> None:
        actual = without_addresses(of_gateway, api_key, version, self._gateway)
        expected = without_addresses(once, api_key, version, self._broker)
        assert actual == expected, (api_key, version)
        assert f"{self._port}".encode() not in of_gateway
        assert self._port.to_bytes(4, "big") not in of_gateway


def test_the_same_bytes_for_every_api_and_version(cluster, through):
    served = offered(through.address)
    comparison = Comparison(cluster, through)
    for api_key, (first, last) in sorted(offered(cluster.bootstrap_servers).items()):
        for version in range(max(first, served[api_key][0]), min(last, served[api_key][1]) + 1):
            never = api_key == 18 or (api_key, version) in WITHOUT_RESPONSE
            if not never and has_schema(api_key, version):
                comparison.compare(api_key, version)

    assert comparison.by_shape <= VARYING
    assert len(comparison.compared) > 100
    # Zero is not a resource type: the broker closes the connection.
    assert comparison.unanswered <= {29}


def without_addresses(frame: bytes, api_key: int, version: int, known: set) -> object:
    """Return the response with every address of a broker replaced by a mark."""

    def replaced(value):
        if isinstance(value, tuple):
            return tuple(replaced(item) for item in value)
        if not dataclasses.is_dataclass(value):
            return value
        fields = {f.name: replaced(getattr(value, f.name)) for f in dataclasses.fields(value)}
        if fields.get("host"):
            address = (fields["host"], fields["port"])
            assert address in known, address
            fields["host"] = fields["port"] = "address"
        return fields

    return replaced(parse_response(frame, api_key, version))


def shape(frame: bytes, api_key: int, version: int) -> object:
    """Return the response without its values: its fields, numbers of elements, and errors."""

    def walked(name, value):
        if isinstance(value, tuple):
            return tuple(walked(name, item) for item in value)
        if dataclasses.is_dataclass(value):
            return {
                f.name: walked(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)
            }
        return value if name == "error_code" else type(value).__name__

    return walked("", parse_response(frame, api_key, version))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_produce_versions_are_not_served_as_by_kafka_4(cluster, through, version):
    """They are announced (KAFKA-18659), and the connection is closed, also before a Kafka 3."""
    body = b"\x00\x00" + version.to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\xff\xff"
    body += b"\xff\xff" + (1000).to_bytes(4, "big") + (0).to_bytes(4, "big")
    frame = len(body).to_bytes(4, "big") + body

    assert exchange(through.address, frame) is None
    is_kafka_4 = offered(cluster.bootstrap_servers)[19][0] > 0
    if is_kafka_4:
        assert exchange(cluster.bootstrap_servers, frame) is None


def test_api_versions_of_an_unknown_version_gets_a_response_in_version_0(cluster, through):
    buffer = io.BytesIO()
    request = load_request_schema(18, 4)(client_software_name="x", client_software_version="1")
    entity_writer(type(request))(buffer, request)
    for version in (6, 99):
        body = (18).to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big")
        body += b"\x00\x01x\x00" + buffer.getvalue()
        frame = len(body).to_bytes(4, "big") + body
        direct = parse_response(exchange(cluster.bootstrap_servers, frame), 18, 0)
        of_gateway = parse_response(exchange(through.address, frame), 18, 0)
        assert (direct.error_code, 35) == (of_gateway.error_code, of_gateway.error_code)
        assert [key.api_key for key in of_gateway.api_keys] == [18]


def test_a_client_that_meant_another_broker_gets_the_response_of_the_broker(cluster, through):
    """KIP-1242. Behind the gateway's port of a broker is that broker."""
    if offered(cluster.bootstrap_servers)[18][1] < 5:
        pytest.skip("brokers older than Kafka 4.4 compare nothing")
    host, port = through.host_port
    node = cluster.nodes[0].node_id
    with RawClient(cluster.bootstrap_servers) as client:
        described = client.call(smallest(load_request_schema(60, 0)))
    codes = []
    for cluster_id in (None, described.cluster_id, "other", ""):
        for meant in (-1, node, node + 1, -2):
            request = load_request_schema(18, 5)(
                client_software_name="x",
                client_software_version="1",
                cluster_id=cluster_id,
                node_id=i32(meant),
            )
            frame = request_frame(request, 7)
            direct = exchange(cluster.bootstrap_servers, frame)
            of_gateway = exchange(f"{host}:{port + 1}", frame)
            code = parse_response(direct, 18, 5).error_code
            assert parse_response(of_gateway, 18, 5).error_code == code, (cluster_id, meant)
            assert code == 0 or of_gateway == direct
            codes.append(int(code))
    assert codes == [0, 42, 42, 42, 42, 0, 129, 129, 42, 129, 129, 129, 42, 129, 129, 129]


@pytest.mark.parametrize("size", [1, 3_000_000])
def test_a_fetch_of_any_size_is_streamed(cluster, through, size):
    from kio.schema.fetch.v12 import request as fetch

    name = f"big-{size}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    create_topic(admin, name, config={"max.message.bytes": "10000000"})
    batch = encode_batch(values(bytes(size)))
    with RawClient(cluster.bootstrap_servers) as client:
        client.call(produce_request([(name, [(0, batch)])]))
    request = fetch.FetchRequest(
        replica_id=i32(-1),
        max_wait=datetime.timedelta(milliseconds=100),
        min_bytes=i32(1),
        max_bytes=i32(50_000_000),
        isolation_level=0,
        topics=(
            fetch.FetchTopic(
                topic=name,
                partitions=(
                    fetch.FetchPartition(
                        partition=i32(0),
                        fetch_offset=0,
                        partition_max_bytes=i32(50_000_000),
                    ),
                ),
            ),
        ),
        forgotten_topics_data=(),
        rack_id="",
    )
    frame = request_frame(request, 3)

    wait_until(lambda: len(exchange(cluster.bootstrap_servers, frame)) > size)
    direct = exchange(cluster.bootstrap_servers, frame)

    assert direct == exchange(through.address, frame)
    assert len(direct) > size
    assert i16(0) == parse_response(direct, 1, 12).error_code


@pytest.mark.cases(2)
@pytest.mark.parametrize("host", ["", "[::]"])
@pytest.mark.parametrize("family", ["v4", "v6"])
def test_a_listener_of_all_addresses_serves_ipv4_and_ipv6(cluster, tmp_path, host, family):
    """The bootstrap listener and the listeners of brokers, as Kafka does."""
    port = gateway_port()
    local = {"v4": "127.0.0.1", "v6": "::1"}[family]
    properties = {"listeners": f"PLAINTEXT://{host}:{port}", "advertised.host": local}
    running = RunningGateway(
        write_configuration(tmp_path, cluster.bootstrap_servers, port, properties)
    )
    try:
        seen = []
        address = f"[{local}]:{port}" if family == "v6" else f"{local}:{port}"
        producer = Producer({"bootstrap.servers": address, "message.timeout.ms": 30_000})
        producer.produce(TOPIC, b"v", on_delivery=lambda error, _: seen.append(error))
        assert producer.flush(60) == 0
        assert seen == [None]
    finally:
        assert running.stop() == 0
