"""Processes of producers, and the wait for their last output."""

import json
import sys
from dataclasses import replace

import pytest

from tests.chaos import producers
from tests.chaos.account import DeliveryReports, account
from tests.chaos.many_producers import STATISTICS, Assignments
from tests.chaos.producers import Producer, Running
from tests.chaos.unrecognized import Unrecognized
from tests.chaos.world import Way

pytestmark = pytest.mark.system

ENDS = "import sys; sys.stdin.read(); print('0\\tended\\t\\t1.0\\t', flush=True)"
HANGS = "import time; print('0\\tacknowledged\\t7\\t1.0\\t', flush=True); time.sleep(3600)"


def deliveries_of(program, log):
    producer = Producer("librdkafka", "idempotent", Way.DIRECT, "t")
    running = Running([sys.executable, "-c", program], [producer], {Way.DIRECT: "b"}, log)
    running.finish()
    return running.deliveries()[producer]


def test_a_producer_that_ends_by_itself_has_ended(tmp_path):
    assert deliveries_of(ENDS, tmp_path / "log").ended


def test_a_silent_producer_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(producers, "HANGS_AFTER_S", 2)
    found = deliveries_of(HANGS, tmp_path / "log")
    assert not found.ended
    assert found.acknowledged in ([b"7"], [])  # a busy machine may not come to it


def statistics(broker, leader):
    partition = {"broker": broker, "leader": leader}
    return json.dumps({"topics": {"t": {"partitions": {"2": partition}}}})


def test_a_partition_that_stays_at_another_broker_is_stuck():
    notes = []
    assignments = Assignments(lambda *note: notes.append(note))
    for broker, leader in ((2, 1), (1, 1), (2, -1), (-1, 1)):
        for _ in range(STATISTICS - 1):
            assignments(statistics(broker, leader))
    assert notes == []
    for _ in range(2 * STATISTICS):
        assignments(statistics(2, 1))
    assert notes == [("stuck", "2", "at 2, leader 1")]


def test_only_the_end_of_a_stuck_producer_is_its_own_fault():
    stuck = DeliveryReports(acknowledged=[b"1"], fatal=["f"], stuck=["2"], ended=True)
    assert not account(stuck, [(b"k", b"1")], drops=False).is_broken
    assert account(stuck, [], drops=False).is_broken, "a record is lost"
    other = DeliveryReports(acknowledged=[b"1"], fatal=["f"], ended=True)
    assert account(other, [(b"k", b"1")], drops=False).is_broken


FAILED = "100.0 1 OutOfOrderSequenceException"


@pytest.mark.parametrize("stored, is_of_client", [([(b"k", b"1")], True), ([], False)])
def test_a_failure_of_a_stored_batch_that_kafka_does_not_recognize_is_not_ours(
    stored, is_of_client
):
    failed = account(DeliveryReports(failed=[FAILED], ended=True), stored, drops=False)
    assert not failed.is_of_client("failed")
    failed = replace(failed, unrecognized=[Unrecognized(7, 0, 0, 5)])
    assert failed.is_of_client("failed") is is_of_client
    assert failed.is_of_client("doubled")


def test_failures_of_a_stuck_producer_are_its_own():
    stuck = account(DeliveryReports(failed=[FAILED], stuck=["2"], ended=True), [], drops=False)
    assert stuck.is_of_client("failed")
    assert not stuck.is_of_client("doubled")
