"""The event loop never runs a policy; workers that die during load."""

import os
import signal
import threading

import pytest

from tests.gateways import RunningGateway, is_running, wait_until
from tests.integration.reading import values_of
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, produced

POLICIES = """
import os, sys, time
from penstock.policy import *

class Slow(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        while topic_partition.topic.startswith("slow"):
            if os.path.exists(value): break
            time.sleep(0.01)
        if value == b"die": os._exit(9)
        if value == b"bad": return InvalidRecordException("bad")
"""


BATCH = encode_batch(values(b"v"))


def slow_policies(gateway) -> RunningGateway:
    properties = {"record.validator.classes": "policies.Slow", "policy.timeout.ms": 100_000}
    return gateway(properties, POLICIES)


@pytest.mark.kips("B40")
def test_a_slow_policy_of_a_topic_does_not_delay_another_topic(gateway, topic, tmp_path):
    slow, quick, gate = topic("slow"), topic("quick"), tmp_path / "gate"
    running = slow_policies(gateway)
    waits = produce_request([(slow, [(0, encode_batch(values(str(gate).encode())))])])
    passes = produce_request([(quick, [(0, BATCH)])])

    with RawClient(running.address) as client, RawClient(running.address) as other:
        client.send(client.frame(waits))
        for _ in range(600):
            assert produced(other.call(passes))[quick, 0].error_code == 0
        gate.touch()
        assert produced(client.response(type(waits)))[slow, 0].error_code == 0


@pytest.mark.kips("B40")
def test_responses_of_a_connection_have_the_order_of_requests(gateway, topic, tmp_path):
    slow, quick, gate = topic("slow"), topic("quick"), tmp_path / "gate"
    running = slow_policies(gateway)
    waits = produce_request([(slow, [(0, encode_batch(values(str(gate).encode())))])])
    passes = produce_request([(quick, [(0, BATCH)])])
    requests = [waits, passes, passes]

    with RawClient(running.address) as client, RawClient(running.address) as other:
        client.send(b"".join(client.frame(request) for request in requests))
        other.call(passes)
        gate.touch()
        answered = [produced(client.response(type(waits))) for _ in requests]

    assert [[slow], [quick], [quick]] == [[t for t, _ in answers] for answers in answered]


class Load:
    """Four producers, each to its partition, and their error codes by value."""

    def __init__(self, address: str, topic: str) -> None:
        self.outcomes: dict[bytes, int] = {}
        self._address, self._topic = address, topic
        self._threads = [threading.Thread(target=self._produce, args=(p,)) for p in range(4)]
        for thread in self._threads:
            thread.start()

    @property
    def produces(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def wait_for_progress(self) -> None:
        """Wait until more batches have their responses, or all batches."""
        # Workers that die one after the other before they judge anything are awaited longer
        # and longer, by design.
        count = len(self.outcomes) + 300
        wait_until(lambda: len(self.outcomes) > count or not self.produces, 60, what="the load")

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)

    def _produce(self, partition: int) -> None:
        with RawClient(self._address) as client:
            for number in range(1200):
                value = b"%d-%d" % (partition, number)
                batch = encode_batch(values(value))
                request = produce_request([(self._topic, [(partition, batch)])])
                answer = produced(client.call(request))[self._topic, partition]
                self.outcomes[value] = answer.error_code


def kill_a_worker(running: RunningGateway, topic: str) -> None:
    wait_until(running.workers, what="a worker")
    os.kill(running.workers()[0], signal.SIGKILL)


def let_a_worker_die(running: RunningGateway, topic: str) -> None:
    with RawClient(running.address) as client:
        dying = produce_request([(topic, [(0, encode_batch(values(b"die")))])])
        assert produced(client.call(dying))[topic, 0].error_code == -1


@pytest.mark.slow
@pytest.mark.kips("B44")
@pytest.mark.parametrize("end_one", [kill_a_worker, let_a_worker_die])
def test_load_continues_while_workers_die(gateway, topic, stored, end_one):
    name = topic("load", 4)
    running = gateway({"record.validator.classes": "policies.Slow", "policy.workers": 2}, POLICIES)
    load, ended = Load(running.address, name), 0
    while load.produces:
        end_one(running, name)
        ended += 1
        load.wait_for_progress()
    load.join()

    assert ended > 2
    assert len(load.outcomes) == 4800
    # A worker that another process kills is not charged: another worker judges the batch.
    assert set(load.outcomes.values()) <= ({0} if end_one is kill_a_worker else {0, -1})
    accepted = {value for value, code in load.outcomes.items() if code == 0}
    assert len(accepted) > 4600
    found = values_of(stored(name))
    assert len(found) == len(set(found))
    assert set(found) == accepted


def test_workers_end_with_the_gateway(gateway):
    running = gateway({"record.validator.classes": "policies.Slow"}, POLICIES)
    workers = running.workers()
    assert workers

    running.kill()

    wait_until(lambda: not any(map(is_running, workers)))
