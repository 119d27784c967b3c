"""Requests that come back to Python with the outcomes of some of their batches.

A native thread has the connection, and real rings; the test judges as a worker does.
"""

import math
import select
import socket
import time
from zlib import crc32

import pytest

from penstock import _native
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED
from penstock.engine.workers.batch_to_judge import NOT_BEGUN, EarlyOutcome
from penstock.gateway.lane.table import compiled
from penstock.gateway.observing.metrics.cells import BOUNDS
from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.observing.metrics.exposition import render
from penstock.gateway.sessions.between import Between, GivenBack
from penstock.kafka.records.native import new_header
from penstock.policy import ClientContext
from tests.gateway.sessions.talk import NO, Talk
from tests.kafka.records.encoding import encode_batch, values
from tests.metrics import Metrics
from tests.raw import produce_request, request_frame

pytestmark = pytest.mark.skipif(not hasattr(_native, "Lane"), reason="native threads need Linux")
NOTHING = (0, False, None, 0, [], False)
TOPIC = "judged"
PLAN = TopicPlan(topic=TOPIC, validators=("v",))
WAIT_S = 60.0


def partition_of(slot):
    """Return a partition of the topic that a worker of two judges."""
    return next(number for number in range(99) if crc32(b"judged/%d" % number) % 2 == slot)


FIRST, SECOND = partition_of(0), partition_of(1)


class Waiting:
    """A client whose requests wait for two workers.

    Attributes:
        rings: The rings of the two workers.
    """

    def __init__(self):
        self.talk = SubmittingTalk(judged=frozenset({TOPIC}))
        self.rings = [_native.Ring(1, 1), _native.Ring(2, 1)]
        self._readers = []
        for ring in self.rings:
            memory, work, *outcomes = ring.descriptors()
            reader = _native.RingReader(memory, work, outcomes)
            reader.begin(lambda plan, *_: plan, ACCEPTED, new_header, ClientContext, 2**20, 1000)
            self._readers.append(reader)
        pool = _native.RingPool()
        pool.set(self.rings)
        table = _native.Table(list(compiled(self.talk)))
        encoded = PLAN.encoded
        judging = [], (PLAN.policy_names, encoded, False, pool), None
        table.know_worked_name(TOPIC, bytes(16), judging, False, math.inf)
        self.lane = _native.Lane(1, BOUNDS, 2**20, time.monotonic())
        (self._client, ours), (self._broker, upstream) = socket.socketpair(), socket.socketpair()
        for end in (ours, upstream):
            end.setblocking(False)
        self._broker.settimeout(WAIT_S)
        self._ends = ours, upstream
        self.number = self.lane.adopt(
            table, ours.fileno(), upstream.fileno(), NOTHING, b"", b"", 100_000, math.inf
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lane.close()
        for end in (self._client, self._broker, *self._ends):
            end.close()

    def send(self, *partitions):
        batches = [(number, encode_batch(values(b"of %d" % number))) for number in partitions]
        self.frame = request_frame(produce_request([(TOPIC, batches)]), 1)
        self._client.sendall(self.frame)

    def wait_in_rings(self, seconds=0.0):
        """Wait until the batches of the request are in rings, and then for some time."""
        end_time = time.monotonic() + WAIT_S
        while not all(ring.figures()[1] for ring in self.rings):
            assert time.monotonic() < end_time
            time.sleep(0.001)
        time.sleep(seconds)

    def judge(self, slot, *, is_accepted=True, took_us=250_000):
        """Judge the next batch of a worker."""
        end_time = time.monotonic() + WAIT_S
        while (batch := self.begin_next(slot)) is None:
            assert time.monotonic() < end_time
            time.sleep(0.001)
        assert batch == PLAN.encoded
        self._readers[slot].answer(
            is_accepted, took_us
        )  # the thread learns of a slow batch at once

    def begin_next(self, slot):
        """Begin the next batch of a worker; return its plan, or None if there is no batch."""
        _, batch = self._readers[slot].judge(self._client.fileno(), 0.0)
        return None if batch is None else batch[1]

    def received(self):
        """Return what the broker gets."""
        data = b""
        while len(data) < len(self.frame):
            data += self._broker.recv(100_000)
        return data

    def taken_back(self):
        """Have Python continue with the request; return its early outcomes."""
        end_time = time.monotonic() + WAIT_S
        while self.number not in self.lane.ready():
            assert time.monotonic() < end_time
            select.select([self.lane.fileno()], [], [], 0.1)
        between, *others = self.lane.take(self.number)
        given_back = GivenBack(Between(*between), *others)
        outcomes = given_back.early_outcomes()
        self.talk.session.put_early_outcomes(outcomes)
        self.talk.session.client_data(given_back.from_client)
        return outcomes


class SubmittingTalk(Talk):
    """A session that keeps the batches that it submits."""

    def _submit(self, batch, done):
        self.batches[batch.partition] = batch
        super()._submit(batch, done)

    @property
    def batches(self):
        return self.__dict__.setdefault("_batches", {})


async def figures_of(waiting):
    counts = GatewayCounts(records_max=1000)
    for counted in waiting.lane.collect():
        counts.forwarded(*counted)
    return Metrics((await render(counts.families())).decode())


async def test_batches_that_are_accepted_have_a_time_of_waiting_and_of_judging():
    with Waiting() as waiting:
        waiting.send(FIRST, SECOND)
        waiting.wait_in_rings(0.3)
        waiting.judge(0, took_us=100_000)
        waiting.judge(1, took_us=200_000)
        assert waiting.received() == waiting.frame
        figures = await figures_of(waiting)
        assert figures("penstock_records_total", topic=TOPIC, policy="v", outcome="accepted") == 2
        for name, least_s in (("waiting", 0.2 + 0.1), ("judging", 0.1 + 0.2)):
            assert figures(f"penstock_{name}_seconds_count", policy="v") == 2
            assert figures(f"penstock_{name}_seconds_sum", policy="v") >= least_s - 0.001
        assert (await figures_of(waiting))("penstock_waiting_seconds_count", policy="v") is None


def test_python_continues_with_the_outcomes_that_there_are():
    with Waiting() as waiting:
        waiting.send(FIRST, SECOND)
        waiting.wait_in_rings(0.3)
        waiting.judge(0)
        waiting.judge(1, is_accepted=False)
        outcomes = waiting.taken_back()
        waited = {number: outcome.waited_s for (_, number), outcome in outcomes.items()}
        assert outcomes == {
            (TOPIC.encode(), FIRST): EarlyOutcome(PLAN.encoded, 1, 1, True, 0.25, waited[FIRST]),
            (TOPIC.encode(), SECOND): EarlyOutcome(PLAN.encoded, 2, 1, False, 0.25, waited[SECOND]),
        }
        assert all(0.04 < waited_s < WAIT_S for waited_s in waited.values())
        submitted = waiting.talk.batches
        assert {number: batch.early for number, batch in submitted.items()} == {
            number: outcomes[TOPIC.encode(), number] for number in (FIRST, SECOND)
        }


def test_python_knows_how_long_batches_waited_that_no_worker_has_begun():
    """It counts for their client."""
    with Waiting() as waiting:
        waiting.send(FIRST, SECOND)
        waiting.wait_in_rings(0.3)
        for ring in waiting.rings:
            ring.recall()
        waiting.taken_back()
        for batch in waiting.talk.batches.values():
            assert (batch.early.number, batch.early.is_accepted) == (NOT_BEGUN, False)
            assert 0.2 < batch.early.waited_s < WAIT_S


@pytest.mark.parametrize("ends", [_native.Ring.close, _native.Ring.recall])
def test_a_batch_that_finds_no_place_in_a_ring_is_judged_without_it(ends):
    """The worker has blocked, or ended, and threads do not know of it yet."""
    with Waiting() as waiting:
        ends(waiting.rings[1])
        waiting.send(FIRST, SECOND)
        waiting.judge(0)
        outcomes = waiting.taken_back()
        assert list(outcomes) == [(TOPIC.encode(), FIRST)]
        submitted = waiting.talk.batches
        assert submitted[FIRST].early == outcomes[TOPIC.encode(), FIRST]
        assert submitted[SECOND].early is None
        waiting.talk.decide(ACCEPTED)
        waiting.talk.decide(ACCEPTED)
        assert waiting.talk.broker.take() == waiting.frame


@pytest.mark.parametrize("ends", [_native.Ring.close, _native.Ring.recall])
def test_no_batch_is_submitted_behind_a_batch_that_finds_no_place(ends):
    with Waiting() as waiting:
        ends(waiting.rings[0])
        waiting.send(FIRST, SECOND)
        assert waiting.taken_back() == {}
        assert waiting.rings[1].figures() == (0, 0, 0, 0, False)
        assert [batch.early for batch in waiting.talk.batches.values()] == [None, None]


def test_a_batch_that_was_refused_before_others_found_no_place_is_refused():
    with Waiting() as waiting:
        waiting.rings[1].close()
        waiting.send(FIRST, SECOND)
        waiting.judge(0, is_accepted=False)
        waiting.taken_back()
        assert not waiting.talk.batches[FIRST].early.is_accepted
        waiting.talk.decide(NO)
        waiting.talk.decide(ACCEPTED)
        sent = waiting.talk.broker.take()
        assert b"of %d" % SECOND in sent
        assert b"of %d" % FIRST not in sent


def test_early_outcomes_are_of_the_next_request_only():
    with Waiting() as waiting:
        waiting.send(FIRST)
        waiting.judge(0, is_accepted=False)
        assert waiting.taken_back()
        waiting.talk.session.client_data(waiting.frame)
        assert waiting.talk.batches[FIRST].early is None


def test_early_outcomes_go_with_a_request_that_needs_no_judging_any_more():
    """Policies were replaced by none, and then by others."""
    talk = SubmittingTalk(judged=frozenset())
    outcome = EarlyOutcome(PLAN.encoded, 1, 1, True, 0.25, 0.5)
    talk.session.put_early_outcomes({(TOPIC.encode(), FIRST): outcome})
    frame = request_frame(produce_request([(TOPIC, [(FIRST, encode_batch(values(b"a")))])]), 1)
    talk.session.client_data(frame)
    assert talk.broker.take() == frame
    talk.judged = frozenset({TOPIC})
    talk.session.client_data(frame)
    assert talk.batches[FIRST].early is None


def test_a_request_that_is_taken_back_while_it_is_judged_has_no_early_outcome():
    """Policies were replaced: others judge it now."""
    with Waiting() as waiting:
        waiting.send(FIRST, SECOND)
        waiting.wait_in_rings()
        between, *others = waiting.lane.take(waiting.number)
        given_back = GivenBack(Between(*between), *others)
        assert given_back.early_outcomes() == {}
        assert given_back.from_client == waiting.frame
        assert waiting.begin_next(0) is None  # nobody waits for that
        assert waiting.rings[0].take_late() == ([], [])
