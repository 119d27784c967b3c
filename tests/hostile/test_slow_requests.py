"""Clients that send a request slowly, or not to its end, do not keep others from being served (3)."""

import time

import pytest

from penstock.kafka.local import free_ports
from tests.certificates import Files
from tests.gateways import wait_until
from tests.hostile.attack import unexpected
from tests.hostile.attacks import Target
from tests.hostile.elsewhere import APART, Producing, attackers
from tests.hostile.slow_senders import ATTACKS
from tests.hostile.watchdog import Watchdog
from tests.metrics import scrape

pytestmark = pytest.mark.slow

MIB = 2**20
BUDGET = 16 * MIB
ROOM = 60 * MIB
LARGE_BYTES = 200_000
WITHIN_S = 5.0
ATTACK_S = 30
POLICIES = """
from penstock.policy import *

class Judges(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers): pass
"""


@pytest.fixture(params=["native threads", "Python"])
def threads(request, monkeypatch):
    monkeypatch.setenv("PENSTOCK_NATIVE_LANE", "1" if request.param == "native threads" else "0")


@pytest.fixture(params=["plain", "TLS"])
def listener(request, tmp_path):
    """The keys of a listener, and the certificate that its clients trust, if any."""
    if request.param == "plain":
        return {}, ""
    files = Files(tmp_path)
    keys = {"ssl.keystore.type": "PEM", "ssl.keystore.location": files.key("gateway.pem")}
    return keys, str(files.trust)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_large_requests_beside_slow_senders(gateway, topic, listener, attack):
    keys, trust = listener
    name, (metrics,) = topic(), free_ports(1)
    properties = {
        "record.validator.classes": "policies.Judges",
        "queued.max.request.bytes": BUDGET,
        "policy.workers": 1,
        "metrics.listener": f"127.0.0.1:{metrics}",
    }
    running = gateway(properties | keys, POLICIES, program=APART, tls=bool(keys))
    target = Target(running.broker_address(), name, None, trust)
    with (
        Producing(target.address, name, value_bytes=LARGE_BYTES, trust=trust) as innocent,
        Watchdog(running) as seen,
        attackers([attack], target),
    ):
        time.sleep(ATTACK_S)
    print(f"{attack.__name__}: p99 {innocent.p99_s:.3f} s, most {max(innocent.seconds):.3f} s, grown {seen.grown_bytes / MIB:.0f} MiB, "
          f"{len(innocent.seconds)} requests, {len(running.log)} lines")  # fmt: skip
    assert not innocent.wrong
    assert innocent.p99_s < WITHIN_S
    assert seen.grown_bytes < BUDGET + ROOM
    assert not unexpected(running)
    wait_until(lambda: scrape(metrics)("penstock_held_bytes") == 0, what="memory that is free")
