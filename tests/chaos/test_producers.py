"""Processes of producers, and the wait for their last output."""

import sys

import pytest

from tests.chaos import producers
from tests.chaos.producers import Producer, Running
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
