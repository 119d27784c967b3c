"""What a worker does with the batches of its ring."""

import socket
import struct
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from penstock import _native
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, Outcome, refused
from penstock.engine.workers import messages
from penstock.engine.workers.processes import process
from penstock.engine.workers.processes.ring_batches import RingBatches
from penstock.engine.workers.progress import SharedProgress, shared_file
from penstock.policy import ClientContext, share_value, shared_value
from penstock.policy.counting import take_events
from penstock.policy.sharing import take_shared
from tests.engine.chains import CONFIGURATION, instances
from tests.engine.ring_memory import ACCEPTED as OK
from tests.engine.ring_memory import LEFT_OUT, RingMemory
from tests.engine.ring_memory import REFUSED as BAD
from tests.gateways import wait_until
from tests.kafka.records.encoding import encode_batch, values

pytestmark = pytest.mark.skipif(not hasattr(_native, "Ring"), reason="native threads need Linux")
REFUSED = refused(87, "no", "P")


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Takes what policies of other tests have shared and counted in this process."""
    take_shared()
    take_events()


@pytest.fixture
def sockets():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def memory():
    memory = RingMemory()
    yield memory
    memory.close()


def context(*fields):
    """Write a client as a native thread does."""
    pieces = [
        struct.pack("<I", 0) if field is None else struct.pack("<I", len(field) + 1) + field
        for field in fields
    ]
    return b"".join(pieces)


class FakeJudge:
    """Refuses some records, fails for others."""

    limits = 1_000_000, 1_000

    def __init__(self):
        self.judged = []
        self.clients = []
        self.counts = b""

    def judge_in_ring(self, plan, version, partition, topic_id, client, records):
        self.judged.append(records)
        self.clients.append(client)
        assert (plan, version, partition, topic_id) == (b"plan", 9, 0, bytes(16))
        if records == b"fail":
            raise ValueError("no")
        return REFUSED if records == b"bad" else ACCEPTED

    def counted(self):
        return self.counts


def batches_of(memory, theirs, judge=None):
    batches = RingBatches(memory.reader, theirs)
    batches.begin(judge or FakeJudge())
    return batches


def judge_all(batches):
    """Have the batches that are there judged, however slow this machine is."""
    for _ in range(20):
        batches.judge_some()


def ring_verdicts(received):
    """Return the numbers and verdicts in messages."""
    verdicts = []
    while received:
        length, kind = messages.PREFIX.unpack_from(received)
        body = received[messages.PREFIX.size : messages.PREFIX.size - 1 + length]
        assert kind == messages.RING_VERDICT
        verdicts.append(messages.read_verdict(body)[:2])
        received = received[messages.PREFIX.size - 1 + length :]
    return verdicts


def test_a_worker_answers_each_batch_and_sends_the_verdicts_that_are_no_acceptance(memory, sockets):
    ours, theirs = sockets
    for records in (b"fine", b"bad", b"fail", b"fine"):
        memory.write(records)
    batches = RingBatches(memory.reader, theirs)
    batches.judge_some()
    batches.judge_until_message()
    assert memory.outcomes() == []  # there are no policies yet
    batches.begin(FakeJudge())
    batches.judge_some()
    assert memory.outcomes() == [OK, BAD, BAD, OK]
    assert memory.is_called()
    verdicts = ring_verdicts(ours.recv(10_000))
    assert [number for number, _ in verdicts] == [2, 3]
    assert verdicts[0][1] == REFUSED
    assert "ValueError" in verdicts[1][1].message


def test_an_interruption_ends_the_worker(memory, sockets):
    class Interrupted(FakeJudge):
        def judge_in_ring(self, *_):
            raise KeyboardInterrupt

    memory.write(b"fine")
    with pytest.raises(KeyboardInterrupt):
        judge_all(batches_of(memory, sockets[1], Interrupted()))


def test_the_records_of_small_batches_are_read_by_the_ring(memory, sockets):
    judge = FakeJudge()
    small = encode_batch(values(b"a", b"b"))
    large = encode_batch(values(*[bytes(1000)] * 20))
    many = encode_batch(values(*[b""] * 1001))
    wrong = small[:-1] + b"x"
    left = [large, many, wrong, encode_batch(values(b"a"), codec=1), b"", b"x"]
    for batch in (small, *left):
        memory.write(batch)
    judge_all(batches_of(memory, sockets[1], judge))
    read, *rest = judge.judged
    assert (read.values, read.keys, read.headers) == ((b"a", b"b"), (b"k", b"k"), ((), ()))
    assert rest == left


def test_no_quick_outcome_waits_for_the_slow_batch_behind_it(memory, sockets):
    (ours, theirs), was_called = sockets, []

    class SometimesSlow(FakeJudge):
        def judge_in_ring(self, *arguments):
            was_called.append(memory.is_called())
            if arguments[-1] == b"slow":
                time.sleep(0.05)
            if len(was_called) == 10:
                ours.send(b"a message")
            return ACCEPTED

    for records in [b"slow", b"quick"] * 5:
        memory.write(records)
    batches_of(memory, theirs, SometimesSlow()).judge_until_message()
    assert was_called == [False] + [True] * 9


def test_a_class_is_given_the_client_of_each_batch(memory, sockets):
    judge = FakeJudge()
    client = context(b"User:alice", b"a\0b", b"10.0.0.1")
    nobody = context(None, None, None)
    for each in (client, client, b"", nobody):
        memory.write(b"fine", context=each)
    judge_all(batches_of(memory, sockets[1], judge))
    alice = ClientContext("User:alice", "a\0b", "10.0.0.1")
    assert judge.clients == [alice, alice, None, ClientContext()]
    assert judge.clients[0] is judge.clients[1]


@pytest.mark.parametrize("written", [b"x", bytes(11), bytes(13), context(b"\xff", None, None)])
def test_a_batch_is_not_judged_if_its_client_is_nonsense(memory, sockets, written):
    ours, theirs = sockets
    judge = FakeJudge()
    memory.write(b"fine", context=written)
    memory.write(b"fine")
    judge_all(batches_of(memory, theirs, judge))
    assert memory.outcomes() == [BAD, OK]
    assert len(judge.judged) == 1
    ((number, verdict),) = ring_verdicts(ours.recv(10_000))
    assert (number, verdict.outcome) == (1, Outcome.FAILED)


def test_a_message_is_read_although_there_is_always_another_batch(memory, sockets):
    ours, theirs = sockets
    ours.send(b"a message")

    class Endless(FakeJudge):
        def judge_in_ring(self, *_):
            time.sleep(0.001)
            memory.write(b"fine")
            return self.verdict

    judge = Endless()
    memory.write(b"fine")
    batches = batches_of(memory, theirs, judge)
    for judge.verdict in (ACCEPTED, REFUSED):
        batches.judge_until_message()
        batches.judge_some()  # it ends by itself
    assert theirs.recv(100) == b"a message"
    batches.judge_some()


def test_a_batch_is_not_read_again_after_a_class_could_write_to_its_memory(memory, sockets):
    found = []

    class Writing(FakeJudge):
        def judge_in_ring(self, *_):
            memory.overwrite(b"forged")
            found.append(self.data_in_ring())
            return ACCEPTED

    judge = Writing()
    memory.write(b"fine, and more than that")
    judge_all(batches_of(memory, sockets[1], judge))
    assert found == [b"fine, and more than that"]


def test_a_compressed_batch_that_is_stored_otherwise_is_read_once(sockets, monkeypatch):
    limits = {"decompressed_batch_max_bytes": 2**20, "decompressed_batch_max_records": 100}
    of = SimpleNamespace(socket_request_max_bytes=2**20, **limits)
    judge = process.WorkerJudge(of, SimpleNamespace(), None, sockets[1])
    judge._chain = lambda _: SimpleNamespace(plan=SimpleNamespace(diverts=True))
    judge.data_in_ring = None  # a class could have written there
    found, batches, read_batch = [], [], process.read_batch

    def divert(chain, partition, topic_id, records, batch_source, *, max_bytes):
        found.append((records, batch_source()))
        return ACCEPTED

    def read(*arguments, **limits):
        batches.append(read_batch(*arguments, **limits))
        return batches[-1]

    monkeypatch.setattr(process, "judge_and_divert", divert)
    monkeypatch.setattr(process, "read_batch", read)
    data = encode_batch(values(b"v"), codec="gzip")
    assert judge.judge_in_ring(b"plan", 9, 0, bytes(16), None, data) is ACCEPTED
    (batch,) = batches
    ((records, stored_batch),) = found
    assert stored_batch is batch
    assert records is batch.records


def test_a_message_is_read_before_a_batch_that_was_written_after_it(memory, sockets):
    ours, theirs = sockets

    class Learning(FakeJudge):
        def judge_in_ring(self, plan, version, partition, topic_id, client, records):
            if records == b"second":
                ours.send(b"a message")
                memory.expect_mark(1)
                memory.write(b"third")
            return super().judge_in_ring(plan, version, partition, topic_id, client, records)

    judge = Learning()
    batches = batches_of(memory, theirs, judge)
    memory.write(b"first")
    memory.write(b"second")
    batches.judge_until_message()
    assert judge.judged == [b"first", b"second"]
    assert memory.is_called()  # the worker may wait for long
    assert theirs.recv(100) == b"a message"
    for judge_again in (batches.judge_some, batches.judge_until_message):
        judge_again()
        assert judge.judged[2:] == []  # the mark may be behind other messages
    batches.note_handled(1)
    batches.judge_some()
    assert judge.judged[2:] == [b"third"]


class Knowing(FakeJudge):
    """Notes which batches it judges before a value was shared."""

    def __init__(self, name):
        super().__init__()
        self.name = name
        self.too_early = []

    def judge_in_ring(self, plan, version, partition, topic_id, client, records):
        if shared_value(self.name) is None:
            self.too_early.append(records)
        return super().judge_in_ring(plan, version, partition, topic_id, client, records)


@contextmanager
def serving(theirs, batches, judge):
    """Run a worker until its socket is closed."""

    def serve():
        process._serve(process._messages(theirs, batches), judge, None, None, theirs, batches)

    worker = threading.Thread(target=serve)
    worker.start()
    yield
    worker.join(10)
    assert not worker.is_alive()


def test_a_batch_waits_for_a_value_that_comes_in_several_parts(memory, sockets):
    ours, theirs = sockets
    judge = Knowing("test/parts")
    batches = batches_of(memory, theirs, judge)
    (framed,) = messages.shared([("test/parts", bytes(300_000))])
    pieces = [framed[:2], framed[2:100], framed[100:-1], framed[-1:] + messages.mark(1)]
    with serving(theirs, batches, judge):
        memory.write(b"before")
        wait_until(lambda: judge.judged == [b"before"])
        for piece in pieces:
            ours.sendall(piece)
            memory.expect_mark(1)
            memory.write(b"after")
            time.sleep(0.02)
        wait_until(lambda: memory.outcome_count == 1 + len(pieces))
        ours.close()
    assert judge.too_early == [b"before"]


def test_batches_that_are_left_out_hide_no_mark(memory, sockets):
    judge = FakeJudge()
    batches = batches_of(memory, sockets[1], judge)
    for records in (b"first", b"second", b"third"):
        memory.write(records)
    memory.leave_out(2)
    memory.expect_mark(1)
    for _ in range(3):
        batches.judge_some()
        assert (judge.judged, memory.outcomes()) == ([], [LEFT_OUT] * 2)
    batches.note_handled(1)
    batches.judge_some()
    assert judge.judged == [b"third"]


def test_a_worker_waits_for_ever_for_no_mark_that_a_class_has_written(memory, sockets):
    judge = FakeJudge()
    batches = batches_of(memory, sockets[1], judge)
    memory.write_nonsense()
    memory.write(b"first")
    batches.judge_some()
    assert judge.judged == []
    memory.recall()  # by the schedule: no batch is begun
    batches.judge_some()
    memory.write(b"second")
    batches.judge_some()
    assert judge.judged[-1] == b"second"


def test_shared_values_are_sent_before_the_verdict_and_the_outcome(memory, sockets):
    ours, theirs = sockets

    class Sharing(FakeJudge):
        def judge_in_ring(self, plan, version, partition, topic_id, client, records):
            self.counts = b"shared values"
            return replace(ACCEPTED)

        def counted(self):
            assert memory.outcome_count == 0 or not self.counts
            counts, self.counts = self.counts, b""
            return counts

    memory.write(b"fine")
    judge_all(batches_of(memory, theirs, Sharing()))
    received = ours.recv(10_000)
    assert received.startswith(b"shared values")
    assert ring_verdicts(received.removeprefix(b"shared values")) == [(1, ACCEPTED)]
    assert memory.outcomes() == [BAD]  # Python has the verdict


class Preparing:
    """A chain whose policy shares a value while it prepares, or does not."""

    plan = TopicPlan(topic="t")

    def __init__(self, policies, name):
        self.policies, self.name = policies, name

    def judge(self, *_):
        self.policies.on_preparing(True)
        if self.name is not None:
            share_value(self.name, b"x")
            self.name = None
        self.policies.on_preparing(False)
        return ACCEPTED


def test_python_takes_a_value_that_was_shared_in_preparation_before_the_batch_passes(
    memory, sockets
):
    ours, theirs = sockets
    with shared_file() as shared:
        progress = SharedProgress(shared.fileno())
        policies = instances()
        judge = process.WorkerJudge(CONFIGURATION, policies, progress, theirs)
        chain = Preparing(policies, "test/prepared")
        judge._chain = lambda plan: chain
        for _ in range(2):
            memory.write(encode_batch(values(b"a")))
        judge_all(batches_of(memory, theirs, judge))
    received = ours.recv(10_000)
    (framed,) = messages.shared([("test/prepared", b"x")])
    assert received.startswith(framed)
    assert ring_verdicts(received.removeprefix(framed)) == [(1, ACCEPTED)]
    assert memory.outcomes() == [BAD, OK]


def test_a_worker_waits_for_batches_and_for_messages(memory, sockets):
    ours, theirs = sockets
    judging = threading.Thread(target=batches_of(memory, theirs).judge_until_message)
    judging.start()
    for _ in range(3):
        time.sleep(0.01)
        memory.write(b"fine")
        assert memory.is_called(5)
    ours.send(b"a message")
    judging.join(5)
    assert not judging.is_alive()
    assert memory.outcomes() == [OK] * 3


def test_no_call_of_either_end_is_lost(memory, sockets):
    ours, theirs = sockets
    judging = threading.Thread(target=batches_of(memory, theirs).judge_until_message)
    judging.start()
    count, end = 0, time.monotonic() + 2
    while time.monotonic() < end:
        for _ in range(100):
            time.sleep(count % 3 * 1e-6)  # the worker may be about to sleep, or asleep
            memory.write(b"fine")
            count += 1
            while memory.outcome_count < count:
                assert memory.is_called(5)
    ours.send(b"a message")
    judging.join(5)
    assert not judging.is_alive()
    assert memory.wake_count > 10


def test_batches_that_were_recalled_are_left_out(memory, sockets):
    judge = FakeJudge()
    for _ in range(3):
        memory.write(b"fine")
    memory.leave_out(2)
    judge_all(batches_of(memory, sockets[1], judge))
    assert memory.outcomes() == [LEFT_OUT, LEFT_OUT, OK]
    assert judge.judged == [b"fine"]


def test_counts_are_sent_from_time_to_time(memory, sockets):
    ours, theirs = sockets
    judge = FakeJudge()
    judge.counts = b"counts"
    judging = threading.Thread(target=batches_of(memory, theirs, judge).judge_until_message)
    judging.start()
    ours.settimeout(5)
    for _ in range(2):
        memory.write(b"fine")
        assert ours.recv(100) == b"counts"
    ours.settimeout(0.3)
    with pytest.raises(TimeoutError):
        ours.recv(100)  # nothing was judged
    ours.send(b"a message")
    judging.join(5)
    assert not judging.is_alive()


def test_a_worker_without_memory_judges_no_more(memory, sockets):
    class OutOfMemory(FakeJudge):
        def judge_in_ring(self, *_):
            raise MemoryError

    for _ in range(2):
        memory.write(b"fine")
    batches = batches_of(memory, sockets[1], OutOfMemory())
    batches.judge_until_message()
    assert batches.is_ending
    assert memory.outcomes() == [BAD]
    batches.judge_some()
    assert memory.outcomes() == [BAD]
