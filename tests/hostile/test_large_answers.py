"""Small requests with large responses: they arrive within the budget, and delay no other client."""

import socket

import pytest

from tests.gateways import wait_until
from tests.hostile.attacks import find_coordinators, repeated_describe_configs
from tests.hostile.greedy import place
from tests.hostile.innocent import INNOCENT, PROMPTLY_S, Innocent
from tests.hostile.limited import POLICIES, properties
from tests.hostile.watchdog import Watchdog
from tests.integration.samples import TOPIC

pytestmark = pytest.mark.slow

MIB = 2**20
BUDGET, ROOM = 64 * MIB, 200 * MIB
KEYS, NAMES = 1_000_000, 5_000
REQUESTS = {
    "keys": (find_coordinators(1, KEYS), KEYS * 10),
    "names of a topic": (repeated_describe_configs(1, TOPIC, NAMES), NAMES * 10_000),
}
"""Each request, with a lower bound of the size of its response."""


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_large_response_delays_no_other_client(cluster, gateway, kind):
    running = gateway(
        properties() | {"queued.max.request.bytes": BUDGET},
        POLICIES,
        upstream=cluster.bootstrap_servers,
    )
    address = running.broker_address()
    frame, least = REQUESTS[kind]
    with (
        Innocent(address, INNOCENT) as innocent,
        Innocent(cluster.bootstrap_servers, INNOCENT) as direct,
        Watchdog(running) as seen,
        socket.create_connection(place(address), 240) as connection,
    ):
        wait_until(lambda: len(innocent.seconds) > 20)
        connection.sendall(frame)
        assert received(connection) > least
    print(f"{kind}: p99 {innocent.p99_s:.3f} s, most {max(innocent.seconds):.3f} s, "
          f"{max(direct.seconds):.3f} s direct, grown {seen.grown_bytes / MIB:.0f} MiB")  # fmt: skip
    assert not innocent.wrong
    assert innocent.p99_s < direct.p99_s + PROMPTLY_S
    assert seen.grown_bytes < BUDGET + ROOM
    assert running.process.poll() is None


def received(connection: socket.socket) -> int:
    """Read a response; return its size."""
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    left = size
    while left > 0:
        part = connection.recv(min(left, MIB))
        assert part, f"{left} of {size} bytes are missing"
        left -= len(part)
    return size
