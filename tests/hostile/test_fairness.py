"""Turns: the work of a client does not delay the work of others (5)."""

import uuid

import pytest

from tests.gateways import wait_until
from tests.hostile.attacks import Target, clients_that_leave
from tests.hostile.greedy import Connections, produce_frame
from tests.hostile.innocent import PROMPTLY_S, Innocent
from tests.kafka.records.encoding import encode_batch, values

pytestmark = pytest.mark.slow

POLICIES = """
import time
from penstock.policy import *

class Judges(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"tiny":
            time.sleep(0.0005)
        if value == b"slow":
            time.sleep(0.09)
"""


def test_20_000_small_requests_do_not_delay_other_clients(gateway, topic):
    name = topic()
    running = gateway(
        {"record.validator.classes": "policies.Judges", "policy.workers": 1}, POLICIES
    )
    address = running.broker_address()
    tiny = produce_frame(name, encode_batch(values(b"tiny")))
    with Innocent(address, name) as innocent, Connections() as greedy:
        wait_until(lambda: len(innocent.seconds) > 10)
        for _ in range(3):
            greedy.send(greedy.connect(address), tiny * 20_000)
        count = len(innocent.seconds)
        wait_until(lambda: len(innocent.seconds) > count + 200, 60)
    assert not innocent.wrong
    assert innocent.p99_s < PROMPTLY_S


def test_slow_batches_of_disconnected_clients_do_not_delay_others(gateway, topic):
    """They have acks=0: their batches are judged after they disconnected."""
    name = topic()
    running = gateway(
        {"record.validator.classes": "policies.Judges", "policy.workers": 1}, POLICIES
    )
    address = running.broker_address()
    target = Target(address, name, uuid.uuid4())
    with Innocent(address, name) as innocent, Connections() as greedy:
        wait_until(lambda: len(innocent.seconds) > 10)
        for _ in range(4):
            clients_that_leave(greedy, target)
        count = len(innocent.seconds)
        wait_until(lambda: len(innocent.seconds) > count + 60, 60)
    assert not innocent.wrong
    beside = sorted(innocent.seconds[count:])
    assert beside[len(beside) // 2] < 3 * 0.09
