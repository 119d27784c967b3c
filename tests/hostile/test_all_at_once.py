"""All attacks at once: memory stays within the budget, and a good producer is served.

What attackers make the broker do holds up everybody, also without a gateway. So another producer
talks to the broker itself, and what the gateway adds to its time is what counts.
"""

import random
import time

import pytest
from confluent_kafka.admin import AdminClient

from tests.gateways import wait_until
from tests.hostile.attack import Attack, unexpected
from tests.hostile.attacks import ATTACKS, Target, start_all
from tests.hostile.greedy import Connections
from tests.hostile.innocent import INNOCENT, PROMPTLY_S, Innocent
from tests.hostile.inputs import mutated
from tests.hostile.watchdog import Watchdog
from tests.integration.reading import topic_id
from tests.integration.test_transparency import TOPIC

MIB = 2**20
BUDGET = 128 * MIB
ROOM = 250 * MIB
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


def properties() -> dict[str, object]:
    return {
        "record.validator.classes": "policies.Judges",
        "create.topic.policy.class.name": "policies.Creates",
        "alter.config.policy.class.name": "policies.Alters",
        "topic.settings.topic": "__penstock_topic_settings",
        "queued.max.request.bytes": BUDGET,
        "policy.workers": 2,
    }


@pytest.mark.parametrize(
    ("seconds", "added_s"),
    [(5, PROMPTLY_S), pytest.param(60, 0.1, marks=pytest.mark.slow)],
    ids=["short", "long"],
)
def test_a_good_producer_beside_them(cluster, gateway, bases, seconds, added_s):
    running = gateway(properties(), POLICIES, upstream=cluster.bootstrap_servers)
    address = running.broker_address()
    target = Target(address, TOPIC, topic_id(admin_of(cluster), TOPIC))
    target.fill()
    attack, chance = Attack(address), random.Random(7)
    with (
        Innocent(address, INNOCENT) as innocent,
        Innocent(cluster.bootstrap_servers, INNOCENT) as direct,
    ):
        wait_until(lambda: len(innocent.seconds) > 20)
        innocent.seconds.clear()
        direct.seconds.clear()
        with Watchdog(running) as seen, Connections() as greedy:
            start_all(greedy, target)
            until = time.monotonic() + seconds
            while time.monotonic() < until and not innocent.wrong:
                attack.send(mutated(chance, bases)[1])
    print(f"p99 {innocent.p99_s:.3f} s, {direct.p99_s:.3f} s without gateway, grown {seen.grown_bytes / MIB:.0f} MiB, "
          f"{len(innocent.seconds)} records, {seen.most_processes} processes")  # fmt: skip
    assert not innocent.wrong
    assert innocent.p99_s < direct.p99_s + added_s
    assert seen.grown_bytes < BUDGET + ROOM
    assert seen.most_processes <= 1 + 2 * 2 + 1
    assert running.process.poll() is None
    assert not unexpected(running)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_good_producer_beside_each(cluster, gateway, attack):
    running = gateway(
        properties() | {"queued.max.request.bytes": 64 * MIB},
        POLICIES,
        upstream=cluster.bootstrap_servers,
    )
    address = running.broker_address()
    target = Target(address, TOPIC, topic_id(admin_of(cluster), TOPIC))
    target.fill()
    with (
        Watchdog(running) as seen,
        Innocent(address, INNOCENT) as innocent,
        Innocent(cluster.bootstrap_servers, INNOCENT) as direct,
        Connections() as greedy,
    ):
        attack(greedy, target)
        time.sleep(10)
        greedy.close()
    print(f"{attack.__name__}: p99 {innocent.p99_s:.3f} s, {direct.p99_s:.3f} s direct, grown {seen.grown_bytes / MIB:.0f} MiB, "
          f"{len(innocent.seconds)} records")  # fmt: skip
    assert not innocent.wrong
    assert innocent.p99_s < direct.p99_s + PROMPTLY_S
    assert seen.grown_bytes < 64 * MIB + ROOM
    assert not unexpected(running)


def admin_of(cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
