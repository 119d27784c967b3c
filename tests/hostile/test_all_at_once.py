"""All attacks at once: memory stays within the budget, and a good producer is served."""

import random
import time

import pytest

from tests.gateways import wait_until
from tests.hostile.attack import Attack, unexpected
from tests.hostile.greedy import Connections, produce_frame, unfinished
from tests.hostile.innocent import PROMPTLY_S, Innocent
from tests.hostile.inputs import mutated
from tests.hostile.test_bombs import bomb
from tests.hostile.watchdog import Watchdog
from tests.records.encoding import encode_batch, values

pytestmark = pytest.mark.slow

MIB = 2**20
BUDGET = 128 * MIB
ROOM = 300 * MIB
POLICIES = """
import time
from penstock.policy import *

class Judges(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"slow":
            time.sleep(0.02)
        if value == b"bad":
            print("spam " * 1000)
            return InvalidRecordException("bad " * 100)

class Creates(CreateTopicPolicy):
    def validate(self, request): pass

class Alters(AlterConfigPolicy):
    def validate(self, request): pass
"""
SECONDS = 20


def send_all_kinds(greedy: Connections, address: str) -> None:
    """Send unfinished, unread, slow, tiny and exploding requests, and leave connections idle."""
    small = bomb(8_000_000, rising=False)
    refused = produce_frame("free", encode_batch(values(*[b"bad"] * 200)))
    slow = produce_frame("free", encode_batch(values(b"slow")))
    tiny = produce_frame("free", encode_batch(values(b"tiny")))
    for _ in range(10):
        greedy.send(greedy.connect(address), unfinished(50 * MIB))
    for _ in range(5):
        unread = greedy.connect(address, receive_bytes=4096)
        greedy.send(unread, refused, times=2000)
        greedy.send(greedy.connect(address), slow * 2000)
        greedy.send(greedy.connect(address), tiny * 20_000)
    for _ in range(3):
        greedy.send(greedy.connect(address), produce_frame("free", small), times=20)
    for _ in range(200):
        greedy.connect(address)


def test_a_good_producer_beside_them(cluster, gateway, bases):
    running = gateway(
        {
            "record.validator.classes": "policies.Judges",
            "create.topic.policy.class.name": "policies.Creates",
            "alter.config.policy.class.name": "policies.Alters",
            "queued.max.request.bytes": BUDGET,
            "policy.workers": 2,
        },
        POLICIES,
        upstream=cluster.bootstrap_servers,
    )
    address = running.broker_address()
    attack, chance = Attack(address), random.Random(7)
    with Innocent(address, "innocent") as innocent:
        wait_until(lambda: len(innocent.seconds) > 20)
        innocent.seconds.clear()
        with Watchdog(running) as seen, Connections() as greedy:
            send_all_kinds(greedy, address)
            until = time.monotonic() + SECONDS
            while time.monotonic() < until and not innocent.wrong:
                attack.send(mutated(chance, bases)[1])
    print(f"p99 {innocent.p99_s:.3f} s, grown {seen.grown_bytes / MIB:.0f} MiB, "
          f"{len(innocent.seconds)} records, {seen.most_processes} processes")  # fmt: skip
    assert not innocent.wrong
    assert innocent.p99_s < PROMPTLY_S
    assert seen.grown_bytes < BUDGET + ROOM
    assert seen.most_processes <= 1 + 2 * 2 + 1
    assert running.process.poll() is None
    assert not unexpected(running)
