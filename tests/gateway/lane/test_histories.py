"""Random histories of a connection that changes its owner at random, without a visible difference.

The same events happen to a session alone, and to one that is given to the native relay and taken
back at random moments. After each event both have sent the same bytes, and are closed or not; and
they have counted the same records. Of the topics, nobody judges `free`, workers judge `judged` and
`other`, and `checked` is judged by a JSON Schema, in any mode: inline in Python, or natively; where
it only observes, beside, or natively. Another gateway may have dropped records of a producer, so
that its sequence numbers change.
"""

import math
import random
import uuid
from collections import Counter

import pytest
from kio.static.primitive import i8

from penstock import _native
from penstock.configuration.topic_keys import ENFORCE, MARK, OBSERVE, QUARANTINE
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, refused
from penstock.gateway.lane.table import Action, compiled
from penstock.gateway.lane.table_topics import TableTopics
from penstock.gateway.observing.metrics.cells import BOUNDS
from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.gateway.sessions.between import Between
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.schemas import load_request_schema
from tests.gateway.lane.checked import CLASS, SCHEMAS, checked_records, inline_judge
from tests.gateway.loops import Loop, numbered
from tests.gateway.produce.quarantining import Letters
from tests.gateway.sessions.talk import NO, answer, other, produce, produce_response
from tests.kafka.wire.entities import coordinators
from tests.kafka.wire.topic_answers import response as metadata
from tests.kafka.wire.topic_answers import topic as metadata_topic
from tests.raw import produce_request, request_frame

native = _native
pytestmark = pytest.mark.skipif(not hasattr(native, "Lane"), reason="native threads need Linux")
HISTORIES = 1400
REQUEST_MAX_BYTES = 3_000_000
LARGE = 0.1
"""The share of large batches, among those that are judged by a schema."""
LATER = refused(7, "later", "v")
JUDGED = (
    frozenset(),
    frozenset({"judged"}),
    frozenset({"judged", "checked"}),
    frozenset({"judged", "other", "checked"}),
    frozenset({"checked"}),
)
MODES = (ENFORCE, MARK, OBSERVE, QUARANTINE)


@pytest.fixture(scope="module")
def inline(tmp_path_factory):
    return inline_judge(tmp_path_factory.mktemp("schemas"), inline_max_bytes=REQUEST_MAX_BYTES)


def find_coordinators(number):
    schema = load_request_schema(10, 4)
    return request_frame(schema(key_type=i8(0), coordinator_keys=("k",)), number)


class CountedRecords:
    """Replaces a gateway's counts: counts accepted records."""

    def __init__(self):
        self.client_bytes = self.broker_bytes = 0
        self.records = {}

    def answered(self, exchange):
        """Requests are not compared: their times differ."""

    def accepted(self, plan, data, verdict=ACCEPTED):
        count = int.from_bytes(data[57:61], "big", signed=True)
        self.add(plan.topic, plan.policy_names, count)

    def refused(self, topic, data, verdict):
        """Refused batches are never decided natively."""

    def add(self, topic, policies, records):
        self.records[topic, policies] = self.records.get((topic, policies), 0) + records


class Observed:
    """Observes batches at once."""

    open_pool = ring_pool = None

    def __init__(self, talk):
        self._talk = talk

    def submit(self, batch, data):
        talk = self._talk
        if talk.policies.inline.accepts(batch.plan, batch.version, data):
            talk.counts.accepted(batch.plan, data)
        else:
            talk.counts.add(batch.plan.topic, "would_refuse", 1)


class SharedProducers:
    """The records of all gateways about producers are always read to the end."""

    topic = "state"

    async def read_to_end(self):
        """Never waits."""


class Conversation(Loop):
    """A session with a topic that is judged by a schema, which may change."""

    request_max_bytes = REQUEST_MAX_BYTES
    schema = SCHEMAS[0]
    mode = ENFORCE
    may_quarantine = keeps_decisions = True
    dead_letters = Letters()
    shared_producers = SharedProducers()

    def run(self, coroutine):
        with pytest.raises(StopIteration):
            coroutine.send(None)

    def merged(self, topic, own):
        return own

    def intercepts(self, topic):
        return topic == "checked" and topic in self.judged and self.mode == QUARANTINE

    def for_topic(self, topic, own=None):
        if topic == "checked" and topic in self.judged:
            return TopicPlan(
                topic=topic,
                validation_policy=CLASS,
                validation_setting=self.schema,
                mode=self.mode,
            )
        return super().for_topic(topic, own)


class Alone:
    """A session that keeps its connection."""

    def __init__(self, judged, mode, inline):
        self.talk = talk = Conversation(judged=judged)
        talk.mode = mode
        talk.policies = talk.policies._replace(inline=inline, observed=Observed(talk))
        # The session does not query the broker's state of producers.
        self.talk.session._supports_describe_producers = False
        self.talk.counts = CountedRecords()
        self.now = 5.0
        self.talk.producers = Producers(now=lambda: self.now, is_shared=True)
        self.failed = False

    def receive(self, side, data):
        if self.failed:
            return
        session = self.talk.session
        # A session looks for acks again when there is twice as much; the relay each time.
        session._acks_read_from = 0
        try:
            (session.client_data if side == "client" else session.upstream_data)(data)
        except WireError:
            self.failed = True
            session.closed()

    def take_back(self):
        """Does nothing: it was never given away."""

    def configs_change(self):
        """The settings of a topic change: it is judged by the other schema."""
        talk = self.talk
        talk.schema = SCHEMAS[talk.schema == SCHEMAS[0]]

    def learn(self, key, record):
        """Read the record of another gateway, which has dropped records of a producer."""
        self.talk.producers.restore(key, record, self.now)

    def expire(self):
        """Forget the state of producers, as if it was not used for long."""
        self.now += 10**6
        self.talk.producers.expire()

    def reload(self, judged, mode):
        """Use other policies."""
        self.configs_change()
        self.talk.judged, self.talk.mode = judged, mode
        if not self.failed and self.talk.session.policies_changed():
            self.failed = True
            self.talk.session.closed()

    def counted(self):
        return self.talk.counts.records

    def turns(self):
        """Run callbacks that wait for a turn of the event loop, as connections do."""
        while self.talk.calls:
            self.talk.turn()
        self.receive("client", b"")
        self.receive("broker", b"")

    def seen(self):
        talk = self.talk
        return talk.broker.data, talk.client.data, talk.done, self.failed


class HandedOver(Alone):
    """A session whose connection is given to the native relay, and taken back, at random."""

    def __init__(self, judged, mode, inline, chance):
        super().__init__(judged, mode, inline)
        self._follow()
        self._chance = chance
        self._relay = None
        self.accepted = Counter()
        self._buffers = {"client": b"", "broker": b""}
        self.given = self.forwarded = self.stopped = self.slices = 0

    def _follow(self):
        self.talk.lane = TableTopics(native, self.talk, compiled(self.talk))
        self.talk.producers.topics.on_topic = self.talk.lane.forget_numbered
        self.talk.producers.topics.on_change = self.talk.lane.forget_affected

    def configs_change(self):
        super().configs_change()
        self.talk.lane.forget(None)

    def reload(self, judged, mode):
        self.take_back()
        super().reload(judged, mode)
        self._follow()

    def counted(self):
        if self._relay is not None:
            self._collect(self._relay)
        return super().counted()

    def _collect(self, relay):
        _, _, accepted, *_ = relay.collect()
        for topic, policies, records, buckets, _ in accepted:
            self.talk.counts.add(topic, policies, records)
            self.accepted[self.talk.mode] += sum(buckets)

    def receive(self, side, data):
        if self._relay is None and not self.failed and self._chance.random() < 0.6:
            self._give_away()
        if self._relay is None:
            super().receive(side, data)
            return
        self._forward(side, data)
        if self._relay is not None and self._chance.random() < 0.1:
            self.take_back()

    def _give_away(self):
        left = self.talk.session.leave()
        if left is None:
            return
        between, client_head, broker_head = left
        try:
            table = self.talk.lane.table
            self._relay = native.Relay(table, between, REQUEST_MAX_BYTES, BOUNDS)
        except ValueError:  # as `Lane.adopt`
            self.talk.session.enter(between)
            self.talk.session.put_back(client_head, broker_head)
            return
        self._buffers = {"client": client_head, "broker": broker_head}
        self.given += 1

    def _forward(self, side, data):
        relay = self._relay
        data = self._buffers[side] + data
        passes = relay.client_data if side == "client" else relay.broker_data
        count, stopped = passes(data)
        self._buffers[side] = data[count:]
        self.forwarded += count
        (self.talk.broker if side == "client" else self.talk.client).write(data[:count])
        if stopped:
            self.stopped += 1
            self.take_back()
        elif side == "client":
            self._judge_slices()

    def _judge_slices(self):
        """Judge the request that waits for it, or leave it to Python between two slices."""
        seconds = self._chance.choice((0.0, math.inf))  # a step, or all: the same each time
        while slice_ := self._relay.judge_slice(self._buffers["client"], seconds):
            goes_on, stopped = slice_
            self.slices += 1
            if stopped or self._chance.random() < 0.03:
                self.stopped += stopped
                self.take_back()
                return
            if not goes_on:
                self._forward("client", b"")
                return

    def take_back(self):
        if self._relay is None:
            return
        relay, self._relay = self._relay, None
        self._collect(relay)
        self.talk.session.enter(Between(*relay.state()))
        for side in ("broker", "client"):
            super().receive(side, self._buffers[side])


TOPICS = ("free", "judged", "other", "checked")


def responses(frames, chance):
    """Return a broker's responses to requests, and the remaining bytes of requests."""
    found = b""
    while len(frames) >= 4 and len(frames) >= 4 + (size := int.from_bytes(frames[:4], "big")):
        frame, frames = frames[: 4 + size], frames[4 + size :]
        found += response(frame, chance)
    return found, frames


def response(frame, chance):
    api_key = int.from_bytes(frame[4:6], "big")
    number = int.from_bytes(frame[8:12], "big")
    if api_key == 0:
        topics = [name for name in TOPICS if name.encode() in frame]
        whole = produce_response(number, *topics)
        # acks is where the client id of these requests ends
        return b"" if b"\0\0\0\0" in frame[18:28] and _acks(frame) == 0 else whole
    if api_key == 3:  # the gateway's own request for the id of a topic
        found = metadata(metadata_topic("checked", uuid.UUID(int=7), 1))
        return (len(found) - 4).to_bytes(4, "big") + numbered(found, number)[4:]
    if api_key == 10:
        return numbered(coordinators(chance.randrange(1, 4)), number)
    return answer(number, chance.randbytes(chance.randrange(60)))


def _acks(frame):
    size = int.from_bytes(frame[12:14], "big", signed=True)
    position = 14 + max(0, size) + 1  # no tagged fields
    return int.from_bytes(frame[position + 1 : position + 3], "big", signed=True)


def produce_of(number, chance, *topics, acks=1):
    frame = bytearray(produce(number, *topics, acks=acks))
    frame[7] = chance.choice((9, 10, 12))  # these have one form
    return bytes(frame)


def checked_of(number, chance, numbered, acks=1):
    """Return a request with a batch that is judged by a schema, perhaps with others."""
    topics = [("checked", [(0, checked_records(chance, numbered=numbered, large=LARGE))])]
    data = b"records of %d" % number
    topics += [(name, [(0, data)]) for name in TOPICS[:3] if chance.random() < 0.15]
    chance.shuffle(topics)
    frame = bytearray(request_frame(produce_request(topics, acks=acks), number))
    frame[7] = chance.choice((9, 10, 12))
    return bytes(frame)


def record_of(topic, chance):
    """Return the record of a gateway that has dropped some of a producer's records."""
    kept = []
    there = Producers(
        now=lambda: 5.0, is_shared=True, keep=lambda key, record, done: kept.append((key, record))
    )
    key = ProducerKey(topic, chance.randrange(10) // 9, chance.choice((7, 8)))
    count = chance.randrange(1, 19)
    there.decide(
        key, Arrival(*key), 0, Range(0, count), range(chance.randrange(1, count + 1)), b"x",
        connection=1, callback=lambda _: None,
    )  # fmt: skip
    return kept[-1]


def some_request(number, chance, numbered):
    kind = chance.randrange(24)
    if kind > 11:
        return checked_of(number, chance, numbered, acks=chance.choice((0, 1, 1, -1)))
    if kind < 4:
        return other(number)
    if kind < 6:
        return produce_of(number, chance, "free", acks=chance.choice((0, 1, -1)))
    if kind < 8:
        topics = chance.sample(["free", "judged", "other"], chance.randrange(1, 4))
        return produce_of(number, chance, *topics, acks=chance.choice((0, 1, -1, -1, 2)))
    if kind == 8:
        return find_coordinators(number)
    if kind == 9:
        size = chance.randrange(8, 3000)
        head = size.to_bytes(4, "big") + (16).to_bytes(2, "big") + (4).to_bytes(2, "big")
        return head + number.to_bytes(4, "big") + chance.randbytes(size - 8)
    return produce_of(number, chance, "free")


def broken(frame, chance):
    """Change a frame so that it may violate the protocol."""
    changed = bytearray(frame)
    changed[chance.randrange(min(20, len(changed)))] = chance.randrange(256)
    return bytes(changed)


class History:
    """A random history of events, which happen to both sessions."""

    def __init__(self, seed, inline):
        self.chance = random.Random(seed)
        judged, mode = self.chance.choice(JUDGED), self.chance.choice(MODES)
        self.alone = Alone(judged, mode, inline)
        self.handed = HandedOver(judged, mode, inline, random.Random(f"{seed} owner"))
        self.both = (self.alone, self.handed)
        self.numbered = self.chance.choice((0.0, 0.4))
        self.to_send = self.to_answer = self.read = b""

    def run(self):
        chance, number = self.chance, 0
        for _ in range(chance.randrange(5, 60)):
            event = chance.randrange(20)
            if event < 6:
                number += 1
                frame = some_request(number, chance, self.numbered)
                self.to_send += broken(frame, chance) if chance.random() < 0.01 else frame
            elif event < 11:
                size = chance.choice((1, 5, 12, 40, 400, len(self.to_send)))
                data, self.to_send = self.to_send[:size], self.to_send[size:]
                self.happens("receive", "client", data)
            elif event < 16:
                size = chance.choice((1, 7, 8, 60, len(self.to_answer)))
                data, self.to_answer = self.to_answer[:size], self.to_answer[size:]
                self.happens("receive", "broker", data)
            elif event < 19:
                self.decide()
            elif chance.random() < 0.5:
                self.swap()
            elif chance.random() < 0.15:
                self.happens(chance.choice(("end", "client_disconnected")))
        for turn in range(40):
            if turn < 20:  # one after the other, as clients without others in flight send them
                number += 1
                self.to_send += some_request(number, chance, self.numbered)
            self.happens("receive", "client", self.to_send)
            self.to_send = b""
            if chance.random() < 0.03:
                self.swap()
            self.decide()
            data, self.to_answer = self.to_answer, b""
            self.happens("receive", "broker", data)
        self.happens("end")
        data, self.to_answer = self.to_answer, b""
        self.happens("receive", "broker", data)

    def swap(self):
        chance = self.chance
        judged, mode = chance.choice(JUDGED), chance.choice(MODES)
        record = record_of("checked" if chance.random() < 0.6 else chance.choice(TOPICS), chance)
        change = chance.choice(
            [
                lambda histories: histories.reload(judged, mode),
                lambda histories: histories.configs_change(),
                lambda histories: histories.learn(*record),
                lambda histories: histories.expire(),
            ]
        )
        for judge in self.both:
            change(judge)
            judge.turns()
        self.compare()

    def decide(self):
        if self.alone.talk.verdicts:
            verdict = self.chance.choice((ACCEPTED, ACCEPTED, ACCEPTED, NO, NO, LATER))
            which = self.chance.randrange(len(self.alone.talk.verdicts))
            for judge in self.both:
                judge.take_back()
                judge.talk.decide(verdict, which)
            self.compare()

    def happens(self, what, *arguments):
        for judge in self.both:
            if what == "receive":
                judge.receive(*arguments)
            elif not judge.failed:
                judge.take_back()
                getattr(judge.talk.session, what)()
            judge.turns()
        self.compare()

    def compare(self):
        assert self.handed.seen() == self.alone.seen()
        assert len(self.handed.talk.verdicts) == len(self.alone.talk.verdicts)
        assert self.handed.counted() == self.alone.counted()
        data = self.alone.talk.broker.data
        found, rest = responses(data[len(self.read) :], self.chance)
        self.read = data[: len(data) - len(rest)]
        self.to_answer += found


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.thorough) for part in range(1, 7))]
)
def test_native_and_python_forwarding_of_a_connection_are_indistinguishable(part, inline):
    count = HISTORIES // 7
    given = forwarded = stopped = translated = slices = 0
    accepted = Counter()
    for seed in range(part * count, (part + 1) * count):
        history = History(seed, inline)
        try:
            history.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        given += history.handed.given
        forwarded += history.handed.forwarded
        stopped += history.handed.stopped
        slices += history.handed.slices
        accepted += history.handed.accepted
        translated += history.handed.talk.producers.translated
    assert translated > 0
    assert given > count
    assert forwarded > 100 * count
    assert stopped > count // 4
    assert slices > count // 5
    assert all(accepted[mode] > count // 20 for mode in MODES), accepted


def test_batches_of_topics_without_policies_are_forwarded_natively_once_the_topics_are_known():
    handed = HandedOver(frozenset({"judged"}), ENFORCE, None, random.Random(1))
    rows = {key: (first, actions) for key, first, actions in compiled(handed.talk)}
    first, actions = rows[0]
    assert actions[9 - first] == Action.KNOWN
    session = handed.talk.session
    session.client_data(produce(1, "free"))
    session.upstream_data(produce_response(1, "free"))
    between, *_ = session.leave()
    relay = native.Relay(handed.talk.lane.table, between, REQUEST_MAX_BYTES, ())
    free, judged = produce(2, "free"), produce(3, "judged")
    assert relay.client_data(free + judged) == (len(free), True)
