"""The memory held for clients is bounded, and freed when they disconnect (3)."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.gateways import wait_until
from tests.hostile.greedy import Connections, produce_frame, unfinished
from tests.hostile.innocent import PROMPTLY_S, Innocent, is_served
from tests.hostile.watchdog import Watchdog, tree_bytes
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient

pytestmark = pytest.mark.slow

MIB = 2**20
BUDGET = 64 * MIB
ROOM = 200 * MIB
"""For responses to requests already read, and for memory that the allocator cannot return."""
POLICIES = """
import time
from penstock.policy import *

class Judges(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"slow":
            time.sleep(0.2)
        if value.startswith(b"bad"):
            return InvalidRecordException("bad " * 100)
"""


@pytest.fixture
def budgeted(gateway):
    return gateway(
        {
            "record.validator.classes": "policies.Judges",
            "queued.max.request.bytes": BUDGET,
            "policy.workers": 2,
        },
        POLICIES,
    )


def test_unfinished_requests_are_held_within_the_budget(budgeted, topic):
    name, address = topic(), budgeted.broker_address()
    assert is_served(address, name)
    before = tree_bytes(budgeted)
    with Watchdog(budgeted) as seen, Innocent(address, name) as innocent, Connections() as greedy:
        for _ in range(20):
            greedy.send(greedy.connect(address), unfinished(50 * MIB))
        budgeted.wait_for("clients are not read for now: they hold too much")
        wait_until(lambda: len(innocent.seconds) > 200, 30, what="the innocent to go on")
        greedy.close()
    assert not innocent.wrong
    assert innocent.p99_s < PROMPTLY_S
    assert seen.grown_bytes < BUDGET + ROOM
    wait_until(lambda: tree_bytes(budgeted) < before + 50 * MIB, 15, what="memory to return")


def test_requests_beyond_the_budget_together_all_get_responses(budgeted, topic):
    name, address = topic(), budgeted.broker_address()
    assert is_served(address, name)
    large = produce_frame(name, encode_batch(values(bytes(20 * MIB))))

    def send_request(_):
        with RawClient(address, 60) as client:
            client.send(large)
            return client.receive()

    with Watchdog(budgeted) as seen, ThreadPoolExecutor(12) as clients:
        assert len(list(clients.map(send_request, range(12)))) == 12
    assert seen.grown_bytes < BUDGET + ROOM


def test_unread_responses_are_held_within_the_budget(budgeted, topic):
    name, address = topic(), budgeted.broker_address()
    assert is_served(address, name)
    refused = produce_frame(name, encode_batch(values(*[b"bad"] * 200)))
    with Watchdog(budgeted) as seen, Innocent(address, name) as innocent, Connections() as greedy:
        for _ in range(10):
            connection = greedy.connect(address, receive_bytes=4096)
            greedy.send(connection, refused, times=3000)  # answers of 240 MiB
        wait_until(lambda: len(innocent.seconds) > 300, 40, what="the innocent to go on")
        greedy.close()
    assert not innocent.wrong
    assert innocent.p99_s < PROMPTLY_S
    assert seen.grown_bytes < BUDGET + ROOM


def test_waiting_batches_of_a_disconnected_client_are_withdrawn(budgeted, topic):
    name, address = topic(), budgeted.broker_address()
    assert is_served(address, name)
    slow = produce_frame(name, encode_batch(values(b"slow")))
    with Connections() as greedy:
        for _ in range(20):
            greedy.connect(address).sendall(slow * 200)  # 800 seconds of work
        wait_until(lambda: not is_served(address, name, within_s=0.3), 10, what="work to queue")
    wait_until(lambda: is_served(address, name, within_s=1), 5, what="work to be withdrawn")
