"""Connections to a real broker, and to other servers."""

import asyncio
import contextlib
import gc
import os
import socket
import threading
import weakref
from concurrent.futures import Future
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v6.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.list_offsets.v6.response import ListOffsetsResponse
from kio.schema.metadata.v11.response import MetadataResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from penstock.kafka.client.connections import connection as module
from penstock.kafka.client.connections.connection import (
    Connection,
    PendingResponse,
    close_all,
    connect,
    first_done,
)
from penstock.kafka.client.connections.metadata import metadata_request, read_topics
from penstock.kafka.client.errors import (
    BrokerUnreachableError,
    ResponseError,
    UnsupportedVersionError,
)
from penstock.kafka.client.protocol.raw_requests import RawRequest, raw_request, read_entity

FILE = Path("/nowhere/penstock.properties")
QUICK = {"default.api.timeout.ms": "300", "retry.backoff.ms": "20", "retry.backoff.max.ms": "50"}


@pytest.fixture
def connection(kafka):
    with Connection({"bootstrap.servers": kafka.bootstrap_servers}, FILE) as running:
        yield running


def test_a_topic_has_an_id_and_leaders(connection, kafka, topic):
    name = topic(partitions=3)
    found = connection.topic(name)
    assert found.topic_id.int
    assert {leader.node for leader in found.leaders.values()} == {kafka.nodes[0].node_id}
    assert all(leader.epoch >= 0 for leader in found.leaders.values())
    assert connection.leader(name, 2) == found.leaders[2]


def test_an_unknown_topic_and_an_unknown_partition(connection, topic):
    for name, partition in (("nowhere", 0), (topic(), 1)):
        with pytest.raises(ResponseError, match=f"topic {name}") as caught:
            connection.leader(name, partition)
        assert caught.value.code == ErrorCode.unknown_topic_or_partition
        assert caught.value.retriable


def test_a_cluster_that_names_no_broker_is_requested_again(connection, monkeypatch):
    """While a cluster restarts, a broker may know no other, not even itself."""
    nodes = module.ClusterNodes("cluster", -1, {})
    monkeypatch.setattr(module, "read_nodes", lambda _: nodes)
    with pytest.raises(ResponseError, match="the cluster") as caught:
        connection.cluster()
    assert caught.value.retriable


def test_a_request_to_the_leader(connection, topic):
    name = topic()
    partition = ListOffsetsPartition(
        partition_index=i32(0), current_leader_epoch=i32(-1), timestamp=i64(-1)
    )
    request = ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(1),
        topics=(ListOffsetsTopic(name=TopicName(name), partitions=(partition,)),),
    )
    node = connection.leader(name, 0).node
    response = connection.send(node, request, ListOffsetsResponse, channel="other")
    assert response.topics[0].partitions[0].offset == 0


@pytest.mark.parametrize("transaction", [False, True])
def test_coordinators(connection, kafka, transaction):
    node = kafka.nodes[0].node_id
    assert connection.coordinator("some key", transaction=transaction) == node
    connection.forget_coordinator("some key", transaction=transaction)
    assert connection.coordinator("some key", transaction=transaction) == node


def test_a_version_that_the_broker_does_not_serve(connection, topic):
    node = connection.leader(topic(), 0).node
    assert 12 in connection.versions(node, 1)
    assert not connection.versions(node, 9999)
    with pytest.raises(UnsupportedVersionError, match="version 999 of API 1"):
        connection.begin(node, RawRequest(1, 999, True, b"")).wait()


def test_a_connection_that_the_broker_closes_is_made_again(connection, topic):
    name = topic()
    node = connection.leader(name, 0).node
    with pytest.raises(BrokerUnreachableError):  # a broker closes the connection at such a body
        connection.begin(node, RawRequest(3, 11, True, b"\xff" * 9)).wait()
    assert connection.topic(name, refresh=True).leaders


async def test_requests_of_an_event_loop_stay_on_it(connection, topic):
    name = topic()
    node = (await asyncio.to_thread(connection.leader, name, 0)).node
    request = raw_request(metadata_request([name]))

    for _ in range(2):
        found = read_entity(await connection.exchange(node, request, channel="a"), MetadataResponse)
        assert name in read_topics(found)
    with pytest.raises(BrokerUnreachableError):  # a broker closes the connection at such a body
        await connection.exchange(node, RawRequest(3, 11, True, b"\xff" * 9), channel="a")
    read_entity(await connection.exchange(node, request, channel="a"), MetadataResponse)
    assert not connection._brokers._open.keys() & {(node, "a")}

    await connection.close_here()
    assert not connection._here._open


async def test_a_broker_that_is_not_known_cannot_be_reached(connection):
    with pytest.raises(BrokerUnreachableError, match="broker 7 is not among those"):
        await connection.exchange(7, RawRequest(3, 11, True, b""))


def test_a_process_has_a_connection_and_a_forked_process_another(kafka, topic):
    name = topic()
    properties = {"bootstrap.servers": kafka.bootstrap_servers}
    try:
        first = connect(properties, FILE)
        assert connect(dict(properties), FILE) is first
        first.topic(name)
        gc.collect()  # clients that other tests left cannot be freed in the child
        child = os.fork()
        if child == 0:
            gc.disable()
            with contextlib.suppress(BaseException):
                own = connect(properties, FILE)
                own.topic(name)
                with pytest.raises(RuntimeError, match="forked process"):
                    first.topic(name, refresh=True)
                close_all()
                os._exit(0 if own is not first else 3)
            os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        first.topic(name, refresh=True)
    finally:
        close_all()
    assert not module._connections


def test_the_nodes_of_the_cluster(connection, kafka):
    nodes = connection.cluster(30.0)
    assert nodes.cluster_id
    assert nodes.controller in nodes.brokers
    assert list(nodes.brokers) == [kafka.nodes[0].node_id]


@pytest.mark.unit
def test_the_first_of_several_responses():
    futures = [Future() for _ in range(3)]
    pending = [PendingResponse(future) for future in futures]
    assert first_done(pending, 0.0) is None
    futures[1].set_exception(BrokerUnreachableError("away"))
    assert first_done(pending, 0.0) is pending[1]
    assert pending[1].is_done_within(0.0)
    assert not pending[0].is_done_within(0.0)


@pytest.mark.unit
def test_a_wait_that_ends_earlier_is_an_error():
    future = Future()
    with pytest.raises(BrokerUnreachableError, match=r"no answer within 0\.01 s"):
        PendingResponse(future).wait(0.01)
    assert future.cancelled()


@pytest.mark.unit
def test_nothing_is_kept_after_an_error():
    """A future keeps its error, which keeps the frames that it passed, until they are collected."""

    def fail(expected):
        with contextlib.suppress(BrokerUnreachableError):
            PendingResponse(failed()).wait()
        return expected

    def failed():
        future = Future()
        future.set_exception(BrokerUnreachableError("away"))
        return future

    class Expected:
        pass

    gc.disable()
    try:
        ended = weakref.ref(fail(Expected()))
        assert ended() is None
    finally:
        gc.enable()


@pytest.mark.system
def test_no_listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    properties = {"bootstrap.servers": f"127.0.0.1:{port}", **QUICK}
    with (
        Connection(properties, FILE) as connection,
        pytest.raises(BrokerUnreachableError, match=f"127.0.0.1:{port} cannot be reached"),
    ):
        connection.coordinator("group")


@pytest.mark.system
def test_no_response():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        properties = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "socket.connection.setup.timeout.ms": "100",
        }
        with (
            Connection(properties, FILE) as connection,
            pytest.raises(BrokerUnreachableError, match=r"did not accept .* within 0.1 s"),
        ):
            connection.send_to_any(metadata_request([]), MetadataResponse)


@pytest.mark.system
def test_a_broker_that_stops_to_answer(kafka):
    """Its connection is given up, and another connection is opened."""
    target = kafka.nodes[0].port
    stuck = threading.Event()

    def forward(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not stuck.is_set():
                    sink.sendall(data)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = server.accept()
                upstream = socket.create_connection(("127.0.0.1", target))
                opened.extend((accepted, upstream))
                for pair in ((accepted, upstream), (upstream, accepted)):
                    threading.Thread(target=forward, args=pair, daemon=True).start()

    opened: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=serve, daemon=True).start()
        properties = {"bootstrap.servers": f"127.0.0.1:{port}", "request.timeout.ms": "3000"}
        with Connection(properties, FILE) as connection:
            assert connection.send_to_any(metadata_request([]), MetadataResponse).brokers
            stuck.set()
            with pytest.raises(BrokerUnreachableError, match=r"did not respond within 3 s"):
                connection.send_to_any(metadata_request([]), MetadataResponse)
            stuck.clear()
            assert connection.send_to_any(metadata_request([]), MetadataResponse).brokers
        server.shutdown(socket.SHUT_RDWR)
    for each in opened:
        each.close()
