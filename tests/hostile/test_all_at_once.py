"""All attacks at once: memory stays within the budget, and a good producer is served.

The broker's work for attackers delays all clients, also without a gateway. So another producer
connects to the broker itself. Attackers and producers have their own processes (`elsewhere`).
"""

import time

import pytest
from confluent_kafka.admin import AdminClient

from penstock.kafka.local import LocalKafka
from tests.certificates import Files
from tests.conftest import create_topic
from tests.hostile.attack import unexpected
from tests.hostile.attacks import ATTACKS, Target
from tests.hostile.elsewhere import APART, Producing, attackers
from tests.hostile.innocent import INNOCENT, PROMPTLY_S
from tests.hostile.limited import BUDGET, MIB, POLICIES, properties
from tests.hostile.watchdog import Watchdog
from tests.integration.reading import topic_id
from tests.integration.samples import TOPIC

ROOM = 250 * MIB


def allowed_s(direct: Producing) -> float:
    """Return the limit of a good producer's p99 latency, from that of a producer at the broker.

    On a busy machine, or at a broker that attackers delay, no gateway can be as fast.
    """
    return max(0.1, 2 * direct.p99_s)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [5, 60], ids=["short", "long"])
def test_a_good_producer_during_all_attacks(cluster, gateway, bases, seconds):
    running = gateway(properties(), POLICIES, upstream=cluster.bootstrap_servers, program=APART)
    address = running.broker_address()
    target = Target(address, TOPIC, topic_id(admin_of(cluster), TOPIC))
    target.fill()
    with (
        Producing(address, INNOCENT) as innocent,
        Producing(cluster.bootstrap_servers, INNOCENT) as direct,
        Watchdog(running) as seen,
        attackers(ATTACKS, target, bases),
    ):
        time.sleep(seconds)
    print(f"p99 {innocent.p99_s:.3f} s, {direct.p99_s:.3f} s without gateway, grown {seen.grown_bytes / MIB:.0f} MiB, "
          f"{len(innocent.seconds)} records, {seen.most_processes} processes")  # fmt: skip
    assert not innocent.wrong
    assert innocent.p99_s < (allowed_s(direct) if seconds == 60 else direct.p99_s + PROMPTLY_S)
    assert seen.grown_bytes < BUDGET + ROOM
    assert seen.most_processes <= 1 + 2 * 2 + 1
    assert running.process.poll() is None
    assert not unexpected(running)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_good_producer_during_each_attack(cluster, gateway, attack):
    running = gateway(
        properties() | {"queued.max.request.bytes": 64 * MIB},
        POLICIES,
        upstream=cluster.bootstrap_servers,
        program=APART,
    )
    address = running.broker_address()
    target = Target(address, TOPIC, topic_id(admin_of(cluster), TOPIC))
    target.fill()
    with (
        Producing(address, INNOCENT) as innocent,
        Producing(cluster.bootstrap_servers, INNOCENT) as direct,
        Watchdog(running) as seen,
        attackers([attack], target),
    ):
        time.sleep(10)
    print(f"{attack.__name__}: p99 {innocent.p99_s:.3f} s, {direct.p99_s:.3f} s direct, grown {seen.grown_bytes / MIB:.0f} MiB, "
          f"{len(innocent.seconds)} records")  # fmt: skip
    assert not innocent.wrong
    assert innocent.p99_s < allowed_s(direct)
    assert seen.grown_bytes < 64 * MIB + ROOM
    assert not unexpected(running)


@pytest.mark.slow
def test_a_good_producer_during_all_attacks_with_tls_to_the_broker(gateway, bases, tmp_path):
    files = Files(tmp_path)
    broker = {**files.broker_keys(), "auto.create.topics.enable": "false"}
    with LocalKafka(protocol="SSL", properties=broker) as secured:
        admin = admin_of(secured, **{"security.protocol": "SSL", "ssl.ca.location": files.trust})
        for name in (TOPIC, INNOCENT):
            create_topic(admin, name)
        upstream = {
            "upstream.security.protocol": "SSL",
            "upstream.ssl.truststore.location": files.trust,
        }
        running = gateway(
            properties() | upstream, POLICIES, upstream=secured.bootstrap_servers, program=APART
        )
        target = Target(running.broker_address(), TOPIC, topic_id(admin, TOPIC))
        target.fill()
        with (
            Producing(target.address, INNOCENT) as innocent,
            Watchdog(running) as seen,
            attackers(ATTACKS, target, bases),
        ):
            time.sleep(30)
        print(f"p99 {innocent.p99_s:.3f} s, grown {seen.grown_bytes / MIB:.0f} MiB, "
              f"{len(innocent.seconds)} records")  # fmt: skip
        assert not innocent.wrong
        assert innocent.p99_s < 2 * PROMPTLY_S
        assert seen.grown_bytes < BUDGET + ROOM
        assert seen.most_processes <= 1 + 2 * 2 + 1
        assert running.process.poll() is None
        assert not unexpected(running)


def admin_of(cluster, **settings) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **settings})
