"""Requests whose work is out of proportion to their size (6)."""

import time
from pathlib import Path

import pytest

from tests.gateways import wait_until
from tests.hostile.bombs import bomb
from tests.hostile.greedy import Connections, produce_frame
from tests.hostile.innocent import Innocent
from tests.hostile.watchdog import Watchdog
from tests.raw import RawClient, produce_request, produced

MIB = 2**20
POLICIES = """
from penstock.policy import *

class Judges(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers): pass
"""


@pytest.fixture(scope="module", params=[True, False], ids=["rising", "the same"])
def bombs(request):
    return bomb(1_000_000 if request.param else 8_000_000, rising=request.param)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.cases(1)
def test_batches_of_millions_of_records_in_a_few_kilobytes_delay_no_producer(gateway, topic, bombs):
    name = topic(partitions=2)
    # The work is measured in time of the processor, which a busy machine spreads over more seconds.
    running = gateway(
        {
            "record.validator.classes": "policies.Judges",
            "policy.workers": 1,
            "policy.timeout.ms": 60_000,
        },
        POLICIES,
    )
    address = running.broker_address()
    with Watchdog(running) as seen, Innocent(address, name) as innocent:
        wait_until(lambda: len(innocent.seconds) > 10)
        workers = running.workers()
        before = sum(cpu_s(pid) for pid in workers)
        with RawClient(address) as client:
            for _ in range(12):
                answer = produced(client.call(produce_request([(name, [(1, bombs)])])))
                assert answer[name, 1].error_code == 87
        # None was ended; there is another where one was seen to be busy for a time.
        assert set(workers) <= set(running.workers())
        assert sum(cpu_s(pid) for pid in running.workers()) - before < 12
    assert not innocent.wrong
    assert seen.grown_bytes < 150 * MIB


@pytest.mark.slow
def test_twelve_decompression_bombs_in_flight_delay_no_producer(gateway, topic, bombs):
    name = topic(partitions=2)
    running = gateway(
        {"record.validator.classes": "policies.Judges", "policy.workers": 1}, POLICIES
    )
    address = running.broker_address()
    with Innocent(address, name) as innocent, Connections() as greedy:
        wait_until(lambda: len(innocent.seconds) > 10)
        for _ in range(12):
            greedy.send(greedy.connect(address), produce_frame(name, bombs, bombs))
        count = len(innocent.seconds)
        wait_until(lambda: len(innocent.seconds) > count + 100, 60)
        time.sleep(0.5)
    assert not innocent.wrong
