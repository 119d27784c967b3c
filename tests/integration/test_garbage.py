"""Bytes that no client should send: closed or answered as by a broker, without effect on others."""

import contextlib
import datetime
import random
import socket
import struct
import threading
import time

import pytest
from kio.schema.fetch.v12 import request as fetch
from kio.schema.metadata.v12.request import MetadataRequest

from tests.gateways import descriptors, resident_bytes, wait_until, wait_until_settled
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, produced, request_frame

POLICIES = """
from penstock.policy import *
class Passes(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers): pass
"""
JUDGED = {"record.validator.classes": "policies.Passes"}
PRODUCE_HEAD = struct.pack(">hhih", 0, 9, 1, -1)


@pytest.mark.cases(10)
@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50),
        struct.pack(">i", 2_000_000_000) + PRODUCE_HEAD,
        struct.pack(">i", -1) + bytes(20),
        struct.pack(">i", 0) + bytes(20),
        struct.pack(">i", 5) + bytes(20),
        struct.pack(">ihhi", 8, 0, 14, 1),  # Produce of the future
        struct.pack(">ihhi", 8, 3, 99, 1),  # Metadata of the future
        struct.pack(">ihhi", 8, 17, 0, 1),  # what follows it has no header
        struct.pack(">ihhi", 8, 999, 0, 1),  # an unknown API
        struct.pack(">ihhi", 8, -5, 0, 1),
        struct.pack(">i", 30) + PRODUCE_HEAD + b"\xff" * 20,
        struct.pack(">i", 12) + PRODUCE_HEAD[:8] + struct.pack(">h", 30000) + b"ab",
    ],
    ids=lambda garbage: garbage[:14].hex(),
)
@pytest.mark.parametrize("properties", [JUDGED, {}], ids=["judged", "not judged"])
def test_garbage_ends_its_connection_and_no_other(shared_gateway, topic, garbage, properties):
    name = topic()
    running = shared_gateway(properties, POLICIES)
    with RawClient(running.address) as good, RawClient(running.address) as bad:
        good.call(MetadataRequest(topics=(), allow_auto_topic_creation=False,
                                  include_topic_authorized_operations=False))  # fmt: skip
        bad.send(garbage)
        bad.socket.settimeout(15)  # less than a connection without a request is kept for
        assert bad.closed()
        batch = encode_batch(values(b"v"))
        answer = produced(good.call(produce_request([(name, [(0, batch)])])))
        assert answer[name, 0].error_code == 0


def test_memory_is_bounded_under_random_bytes_and_broken_connections(gateway, topic):
    name = topic()
    running = gateway({**JUDGED, "socket.request.max.bytes": 1_000_000}, POLICIES)
    chance = random.Random(5)
    host_port = running.host_port
    batch = encode_batch(values(b"v" * 1000))
    frame = request_frame(produce_request([(name, [(0, batch)])]), 1)

    def attack(count: int) -> None:
        for _ in range(count):
            with socket.create_connection(host_port) as sock, contextlib.suppress(ConnectionError):
                kind = chance.randrange(4)
                if kind == 0:
                    sock.sendall(chance.randbytes(chance.randrange(1, 3000)))
                elif kind == 1:
                    sock.sendall(frame[: chance.randrange(len(frame))])
                elif kind == 2:
                    damaged = bytearray(frame)
                    for _ in range(chance.randrange(1, 9)):
                        damaged[chance.randrange(4, len(frame))] ^= 1 << chance.randrange(8)
                    sock.sendall(damaged)
                else:
                    sock.sendall(struct.pack(">i", 900_000) + PRODUCE_HEAD)

    before = descriptors(running.pid)
    attack(200)
    wait_until(lambda: descriptors(running.pid) <= before + 5)
    memory, open_files = resident_bytes(running.pid), descriptors(running.pid)
    attack(600)
    wait_until(lambda: descriptors(running.pid) <= open_files + 5)

    assert resident_bytes(running.pid) < memory + 20_000_000
    with RawClient(running.address) as client:
        assert produced(client.call(produce_request([(name, [])]))) == {}


def test_an_announced_length_uses_no_memory(gateway):
    running = gateway(JUDGED, POLICIES)
    memory, open_files = resident_bytes(running.pid), descriptors(running.pid)
    clients = [RawClient(running.address) for _ in range(50)]
    for client in clients:
        client.send(struct.pack(">i", 100_000_000) + PRODUCE_HEAD + bytes(1000))
    wait_until(lambda: descriptors(running.pid) >= open_files + 50)
    wait_until_settled(lambda: resident_bytes(running.pid))

    assert resident_bytes(running.pid) < memory + 30_000_000
    for client in clients:
        client.socket.close()
    wait_until(lambda: descriptors(running.pid) < 60)


def test_a_slow_client_is_served_and_delays_no_other_client(shared_gateway, topic):
    name = topic()
    running = shared_gateway(JUDGED, POLICIES)
    batch = encode_batch(values(b"v"))
    request = produce_request([(name, [(0, batch)])])

    with RawClient(running.address) as slow, RawClient(running.address) as quick:
        frame = slow.frame(request)
        for position in range(len(frame)):
            slow.send(frame[position : position + 1])
            if position % 20 == 0:
                quick.call(request)  # is answered before the other has ended
        assert produced(slow.response(type(request)))[name, 0].error_code == 0


def test_idle_connections_are_closed(gateway):
    running = gateway({**JUDGED, "connections.max.idle.ms": 800}, POLICIES)
    start = time.monotonic()
    with RawClient(running.address) as client:
        client.send(struct.pack(">i", 1000) + PRODUCE_HEAD)
        assert client.closed()
        assert time.monotonic() - start > 0.5


def test_responses_to_a_client_that_does_not_read_are_bounded(gateway, kafka, topic):
    """Back-pressure: the responses wait at the broker, not in the gateway's memory."""
    name = topic("big", **{"max.message.bytes": "3000000"})
    with RawClient(kafka.bootstrap_servers) as client:
        batch = encode_batch(values(bytes(2_000_000)))
        client.call(produce_request([(name, [(0, batch)])]))
    running = gateway({})
    frame = fetch_frame(name)
    memory = resident_bytes(running.pid)
    with RawClient(running.broker_address()) as client:
        while len(exchange(client, frame)) < 1_000_000:
            pass  # the broker has not yet moved its high watermark
        threading.Thread(target=send_all, args=(client, frame * 60), daemon=True).start()
        wait_until_settled(lambda: resident_bytes(running.pid))
        assert resident_bytes(running.pid) < memory + 40_000_000
        received = [client.receive() for _ in range(60)]
    assert {len(received[0])} == set(map(len, received))


def exchange(client: RawClient, frame: bytes) -> bytes:
    client.send(frame)
    return client.receive()


def send_all(client: RawClient, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        client.send(data)


def fetch_frame(name: str) -> bytes:
    """Return a Fetch request for all records."""
    partition = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50_000_000)
    return request_frame(
        fetch.FetchRequest(
            replica_id=-1,
            max_wait=datetime.timedelta(milliseconds=10),
            min_bytes=1,
            max_bytes=50_000_000,
            isolation_level=0,
            topics=(fetch.FetchTopic(topic=name, partitions=(partition,)),),
            forgotten_topics_data=(),
            rack_id="",
        ),
        3,
    )
