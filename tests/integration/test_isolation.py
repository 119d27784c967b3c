"""The event loop never runs a policy; workers that die during load."""

import os
import signal
import statistics
import threading
import time

import pytest

from tests.gateways import is_running, wait_until
from tests.integration.reading import values_of
from tests.raw import RawClient, produce_request, produced
from tests.records.encoding import encode_batch, values

POLICIES = """
import os, sys, time
from penstock.policy import *

class Slow(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if topic_partition.topic.startswith("slow"):
            time.sleep(2)
        if value == b"die": os._exit(9)
        if value == b"bad": return InvalidRecordException("bad")
"""


def latencies(address: str, topic: str, count: int) -> list[float]:
    """Produce one record after the other."""
    taken = []
    with RawClient(address) as client:
        for _ in range(count):
            start = time.perf_counter()
            answer = produced(client.call(produce_request([(topic, [(0, BATCH)])])))[topic, 0]
            taken.append(time.perf_counter() - start)
            assert answer.error_code == 0
    return taken


BATCH = encode_batch(values(b"v"))


@pytest.mark.kips("B40")
def test_a_slow_policy_on_one_topic_leaves_another_topics_latency_alone(gateway, topic):
    slow, quick = topic("slow"), topic("quick")
    running = gateway({"record.validator.classes": "policies.Slow"}, POLICIES)
    alone = latencies(running.address, quick, 60)
    ended = threading.Event()

    def produce_slowly() -> None:
        with RawClient(running.address) as client:
            while not ended.is_set():
                client.call(produce_request([(slow, [(0, BATCH)])]))

    thread = threading.Thread(target=produce_slowly)
    thread.start()
    try:
        time.sleep(0.5)
        beside = latencies(running.address, quick, 600)
    finally:
        ended.set()
        thread.join(20)

    # Wide margins: machines are noisy. A batch that waited for the slow one took up to 2 s.
    assert statistics.median(beside) < 5 * statistics.median(alone) + 0.01
    assert max(beside) < 1.0


@pytest.mark.kips("B40")
def test_on_one_connection_the_order_of_replies_is_the_order_of_requests(gateway, topic):
    slow, quick = topic("slow"), topic("quick")
    running = gateway({"record.validator.classes": "policies.Slow"}, POLICIES)
    requests = [produce_request([(name, [(0, BATCH)])]) for name in (slow, quick, quick)]

    with RawClient(running.address) as client:
        client.send(b"".join(client.frame(request) for request in requests))
        answered = [produced(client.response(type(requests[0]))) for _ in requests]

    assert [[slow], [quick], [quick]] == [[t for t, _ in answers] for answers in answered]


@pytest.mark.kips("B44")
@pytest.mark.parametrize("how", ["from outside", "by the policy"])
def test_load_goes_on_while_workers_die(gateway, topic, stored, how):
    name = topic("load", 4)
    running = gateway({"record.validator.classes": "policies.Slow", "policy.workers": 2}, POLICIES)
    outcomes: dict[bytes, int] = {}

    def produce(partition: int) -> None:
        with RawClient(running.address) as client:
            for number in range(1200):
                value = b"%d-%d" % (partition, number)
                request = produce_request([(name, [(partition, encode_batch(values(value)))])])
                outcomes[value] = produced(client.call(request))[name, partition].error_code

    threads = [threading.Thread(target=produce, args=(p,)) for p in range(4)]
    for thread in threads:
        thread.start()
    killed = 0
    while any(thread.is_alive() for thread in threads):
        if how == "from outside":
            wait_until(running.workers, what="a worker")
            os.kill(running.workers()[0], signal.SIGKILL)
        else:
            with RawClient(running.address) as client:
                dying = produce_request([(name, [(0, encode_batch(values(b"die")))])])
                assert produced(client.call(dying))[name, 0].error_code == -1
        killed += 1
        # Workers that die one after the other before they judge anything are awaited longer
        # and longer, by design.
        seen = len(outcomes)
        wait_until(
            lambda seen=seen: (
                len(outcomes) > seen or not any(map(threading.Thread.is_alive, threads))
            ),
            60,
            what="the load to go on",
        )
        time.sleep(0.3)
    for thread in threads:
        thread.join(60)

    assert killed > 2
    assert len(outcomes) == 4800
    assert set(outcomes.values()) <= {0, -1}
    accepted = {value for value, code in outcomes.items() if code == 0}
    assert len(accepted) > 4600
    found = values_of(stored(name))
    assert len(found) == len(set(found))
    assert set(found) == accepted


def test_a_gateways_end_ends_its_workers(gateway):
    running = gateway({"record.validator.classes": "policies.Slow"}, POLICIES)
    workers = running.workers()
    assert workers

    running.kill()

    wait_until(lambda: not any(map(is_running, workers)))
