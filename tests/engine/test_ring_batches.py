"""What a worker does with the batches of its ring."""

import socket
import time

import pytest

from penstock.engine.verdict import ACCEPTED, refused
from penstock.engine.workers import messages
from penstock.engine.workers.processes.ring_batches import RingBatches

REFUSED = refused(87, "no", "P")


@pytest.fixture
def sockets():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


class FakeReader:
    """A worker's ring with some batches."""

    def __init__(self, batches):
        self.batches = batches
        self.answers = []
        self.signal_count = 0

    def next(self):
        return self.batches.pop(0) if self.batches else None

    def answer(self, accepted, took_us):
        self.answers.append(accepted)
        assert took_us >= 0

    def say(self):
        self.signal_count += 1

    def wait(self, _descriptor, _timeout_ms):
        return True


class FakeJudge:
    """Refuses some records, fails for others."""

    def judge_in_ring(self, _plan, _version, _partition, _topic_id, records):
        if records == b"fail":
            raise ValueError("no")
        return ACCEPTED if records == b"fine" else REFUSED

    def counted(self):
        return b""


def test_a_worker_answers_each_batch_and_sends_the_verdicts_that_are_no_acceptance(sockets):
    ours, theirs = sockets
    records = [b"fine", b"bad", b"fail", b"fine"]
    reader = FakeReader(
        [(number, 9, 0, bytes(16), b"plan", each) for number, each in enumerate(records, 1)]
    )
    batches = RingBatches(reader, theirs)
    batches.judge_some()
    assert reader.answers == []  # there are no policies yet
    batches.begin(FakeJudge())
    batches.judge_until_message()
    assert reader.answers == [True, False, False, True]
    assert reader.signal_count
    received = ours.recv(10_000)
    verdicts = []
    while received:
        length, kind = messages.PREFIX.unpack_from(received)
        body = received[messages.PREFIX.size : messages.PREFIX.size - 1 + length]
        assert kind == messages.RING_VERDICT
        verdicts.append(messages.read_verdict(body)[:2])
        received = received[messages.PREFIX.size - 1 + length :]
    assert [number for number, _ in verdicts] == [2, 3]
    assert verdicts[0][1] == REFUSED
    assert "ValueError" in verdicts[1][1].message


def test_a_message_is_read_although_there_is_always_another_batch(sockets):
    ours, theirs = sockets
    ours.send(b"a message")

    class Endless(FakeReader):
        def next(self):
            time.sleep(0.001)
            return 1, 9, 0, bytes(16), b"plan", b"fine"

    batches = RingBatches(Endless([]), theirs)
    batches.begin(FakeJudge())
    batches.judge_until_message()
    assert theirs.recv(100) == b"a message"
    batches.judge_some()  # it ends by itself


def test_a_worker_without_memory_judges_no_more(sockets):
    _, theirs = sockets

    class OutOfMemory(FakeJudge):
        def judge_in_ring(self, *_):
            raise MemoryError

    reader = FakeReader([(number, 9, 0, bytes(16), b"plan", b"") for number in (1, 2)])
    batches = RingBatches(reader, theirs)
    batches.begin(OutOfMemory())
    batches.judge_until_message()
    assert batches.is_ending
    assert reader.answers == [False]
    batches.judge_some()
    assert reader.answers == [False]
