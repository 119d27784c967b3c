"""Attacks by clients that use more than their share. `ATTACKS` lists all; add new functions to it.

Each function gets open connections, the address of a broker behind the gateway, and a topic with
records, by name and id. It returns at once: connections continue to send by themselves, and most of
them never read.
"""

import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from kio.static.primitive import i8

from penstock.kafka.wire.primitives import varint
from penstock.kafka.wire.schemas import load_request_schema
from tests.hostile.bombs import bomb
from tests.hostile.greedy import Connections, place, produce_frame, unfinished
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, request_frame

MIB = 2**20


@dataclass
class Target:
    """The target of attacks: an address and a topic."""

    address: str
    topic: str
    topic_id: UUID | None
    trust: str = ""
    """The certificate that clients trust; empty without TLS."""

    def fill(self, size: int = 20 * MIB) -> None:
        """Store records of a total size."""
        batch = encode_batch(values(*[bytes(100_000)] * 9))
        with RawClient(self.address) as client:
            for _ in range(size // 900_000):
                client.call(produce_request([(self.topic, [(0, batch)])]))


def unfinished_requests(greedy: Connections, target: Target) -> None:
    """Send large requests without their last byte."""
    for _ in range(10):
        greedy.send(greedy.connect(target.address), unfinished(50 * MIB))


def requests_of_many_kinds(greedy: Connections, target: Target) -> None:
    """Send refused, slow, tiny and highly compressed batches; read no responses."""
    refused = produce_frame("free", encode_batch(values(*[b"bad"] * 200)))
    slow = produce_frame("free", encode_batch(values(b"slow")))
    tiny = produce_frame("free", encode_batch(values(b"tiny")))
    for _ in range(5):
        unread = greedy.connect(target.address, receive_bytes=4096)
        greedy.send(unread, refused, times=2000)
        greedy.send(greedy.connect(target.address), slow * 2000)
        greedy.send(greedy.connect(target.address), tiny * 20_000)
    small = bomb(8_000_000, rising=False)
    for _ in range(3):
        greedy.send(greedy.connect(target.address), produce_frame("free", small), times=20)


def idle_connections(greedy: Connections, target: Target) -> None:
    """Connect, and send nothing."""
    for _ in range(200):
        greedy.connect(target.address)


def unfinished_small_requests(greedy: Connections, target: Target, count: int = 200) -> None:
    """Send a little less than a connection may always hold, over many connections."""
    frame = unfinished(63 * 1024)
    for _ in range(count):
        greedy.send(greedy.connect(target.address), frame)


def find_coordinators(number: int, count: int) -> bytes:
    """Write a FindCoordinator request with many keys."""
    body = b"\x00" + varint(count + 1) + b"\x05aaaa" * count + b"\x00"
    head = struct.pack(">hhih", 10, 4, number, -1) + b"\x00"
    return struct.pack(">i", len(head) + len(body)) + head + body


def many_coordinators(greedy: Connections, target: Target, count: int = 200_000) -> None:
    """Request the coordinators of many groups; read no responses, or all."""
    frame = find_coordinators(1, count)
    for _ in range(3):
        greedy.send(greedy.connect(target.address, receive_bytes=4096), frame, times=3)
        _take(greedy, target.address, frame, times=3)


def repeated_describe_configs(number: int, topic: str, count: int) -> bytes:
    """Write a DescribeConfigs request that names a topic many times."""
    schema = load_request_schema(32, 4)
    module = __import__(schema.__module__, fromlist=["x"])
    resource = module.DescribeConfigsResource(
        resource_type=i8(2), resource_name=topic, configuration_keys=None
    )
    request = schema(
        resources=(resource,) * count, include_synonyms=True, include_documentation=True
    )
    return request_frame(request, number)


def a_topic_many_times(greedy: Connections, target: Target, count: int = 2000) -> None:
    """Request the description of a topic many times in a request; read no responses, or all."""
    frame = repeated_describe_configs(1, target.topic, count)
    for _ in range(2):
        greedy.send(greedy.connect(target.address, receive_bytes=4096), frame, times=3)
        _take(greedy, target.address, frame, times=3)


def share_fetch(target: Target, number: int, member: str, epoch: int) -> bytes:
    """Write a ShareFetch request for all existing records."""
    schema = load_request_schema(78, 1)
    module = __import__(schema.__module__, fromlist=["x"])
    return request_frame(
        schema(
            group_id=f"group-{member}",
            member_id=member,
            share_session_epoch=epoch,
            max_wait=timedelta(milliseconds=500),
            min_bytes=1,
            max_bytes=50 * MIB,
            max_records=10_000,
            batch_size=10_000,
            topics=(
                module.FetchTopic(
                    topic_id=target.topic_id,
                    partitions=(
                        module.FetchPartition(partition_index=0, acknowledgement_batches=()),
                    ),
                ),
            ),
            forgotten_topics_data=(),
        ),
        number,
    )


def share_fetches(greedy: Connections, target: Target) -> None:
    """Fetch records as members of share groups, without reading them."""
    for _ in range(12):
        member = str(uuid4())
        frames = [share_fetch(target, epoch + 1, member, epoch) for epoch in range(20)]
        greedy.send(greedy.connect(target.address, receive_bytes=4096), *frames)


def clients_that_leave(greedy: Connections, target: Target, count: int = 60) -> None:
    """Send batches with acks=0 that are judged slowly, and disconnect."""
    frame = produce_frame(target.topic, encode_batch(values(b"slow")), acks=0)

    def leave() -> None:
        for _ in range(count):
            try:
                with socket.create_connection(place(target.address), 10) as connection:
                    connection.sendall(frame * 20)
                    time.sleep(0.05)
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            except OSError:
                return

    greedy.run(leave)


def _take(greedy: Connections, address: str, frame: bytes, times: int) -> None:
    """Send requests in sequence, and read each response."""
    connection = greedy.connect(address)

    def send_request() -> None:
        for _ in range(times):
            connection.sendall(frame)
            left = 4 + int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big") - 4
            while left > 0:
                part = connection.recv(min(left, MIB))
                if not part:
                    return
                left -= len(part)

    connection.settimeout(None)
    greedy.run(send_request)


ATTACKS: list[Callable[[Connections, Target], None]] = [
    unfinished_requests,
    requests_of_many_kinds,
    idle_connections,
    unfinished_small_requests,
    many_coordinators,
    a_topic_many_times,
    share_fetches,
    clients_that_leave,
]


def start_all(greedy: Connections, target: Target) -> None:
    """Begin all attacks."""
    for attack in ATTACKS:
        attack(greedy, target)
