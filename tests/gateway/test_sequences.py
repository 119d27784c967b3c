"""Sequence numbers where records are dropped: thousands of histories against a model."""

import copy
import json
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.gateway.sequences import (
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    UNKNOWN_PRODUCER_ID,
    Producer,
    Sequences,
    Stored,
)
from tests.gateway.producer_model import NUMBERS, BrokerModel, ClientBatch, ProducerModel

STARTS = [0, NUMBERS - 7, NUMBERS - 1, 12]
FATES = ["stored"] * 6 + ["unstored", "leaderless", "refused", "late"]


@dataclass(eq=False)
class Sent:
    """One batch on its way through the gateway."""

    batch: ClientBatch
    place: Producer
    epoch: int
    first: int
    tries: int
    drop: list[bool]
    fate: str
    judged: bool = True
    dropped: list[int] = field(default_factory=list)
    released: bool = False
    code: int | None = 0
    made: object = None


class Histories(RuleBasedStateMachine):
    """Producers, a gateway that drops records, a broker; anything may be lost between them."""

    make_broker = BrokerModel

    @initialize(
        steady=st.booleans(),
        starts=st.lists(st.sampled_from(STARTS), min_size=2, max_size=2),
    )
    def begin(self, steady, starts):
        self.broker = self.make_broker()
        self.steady = steady  # whether the interceptor drops the same records each time
        self.kept: dict[Producer, object] = {}
        self.forgetful = False
        self.sequences = self.gateway({})
        first_id = random.getrandbits(40)
        self.producers = [ProducerModel(first_id + i, next=n) for i, n in enumerate(starts)]
        for producer in self.producers:
            if producer.next:  # it has been there before this gateway, of which nobody dropped
                self.broker.has_stored(producer.producer_id, producer.next - 1)
        self.number = 0
        self.connections: list[list[list[Sent]]] = [[[]], [[]]]
        self.decided: dict[tuple, set] = {}
        self.refused: set[tuple] = set()

    def gateway(self, entries):
        def keep(producer, entry):
            if entry is None:
                self.kept.pop(producer, None)
            else:
                self.kept[producer] = copy.deepcopy(entry)

        return Sequences(now=lambda: 0.0, keep=keep, entries=entries.items())

    def intercept(self, batch, drop, before):
        chosen = set(before or ())
        for place, record in enumerate(batch.records):
            if record % 3 == 0 if self.steady else drop[place % len(drop)]:
                chosen.add(place)
        return sorted(chosen)

    @rule(who=st.integers(0, 1), count=st.integers(1, 4))
    def produce(self, who, count):
        self.producers[who].make(list(range(self.number, self.number + count)))
        self.number += count

    @rule(
        who=st.integers(0, 1),
        drop=st.lists(st.booleans(), min_size=1, max_size=4),
        fate=st.sampled_from(FATES),
        slow=st.booleans(),
    )
    def send(self, who, drop, fate, slow):
        """One batch comes to the gateway; unless it is slow, it goes on at once."""
        producer = self.producers[who]
        batch = producer.to_send()
        if batch is None:
            return
        place = Producer("t", 0, producer.producer_id)
        self.sequences.arrived(place, batch.epoch, batch.first)
        known = self.sequences.find(place, batch.epoch, batch.first, len(batch.records))
        sent = Sent(batch, place, batch.epoch, batch.first, batch.tries, drop, fate)
        sent.judged = known is None or (known.data is None and not known.settled)
        if sent.judged:
            sent.dropped = self.intercept(batch, drop, known.dropped if known else ())
        self.connections[who][-1].append(sent)
        if not slow:
            self.release(who)

    @rule(who=st.integers(0, 1))
    def release(self, who):
        """What has come on the newest connection goes to the broker, or is answered here."""
        self.release_from(who, self.connections[who][-1])

    def release_from(self, who, connection):
        for sent in connection:
            if not sent.released:
                sent.released = True
                cut = any(other.code is None for other in connection if other.released
                          and other is not sent)  # fmt: skip
                moved = connection is not self.connections[who][-1] or any(
                    other.code == 6 for other in connection if other.made is not None
                )
                self.sequences.departed(sent.place, sent.epoch, sent.first)
                self.decide(sent, lost=cut, moved=moved)

    def decide(self, sent, *, lost, moved):
        batch, place, fate = sent.batch, sent.place, sent.fate
        count = len(batch.records)
        if fate == "refused" and tuple(batch.records) in self.decided:
            fate = "stored"  # policies are taken to stay with what they said
        if tuple(batch.records) in self.refused:
            fate = "refused"
        if sent.judged and fate in {"refused", "late"}:
            if fate == "refused":
                self.refused.add(tuple(batch.records))
            self.sequences.refused(place, sent.epoch, sent.first, count, retried=fate == "late")
            sent.code = 87 if fate == "refused" else 7
            return
        if not sent.judged:
            known = self.sequences.find(place, sent.epoch, sent.first, count)
            if known is None or (known.data is None and not known.settled):
                self.sequences.refused(place, sent.epoch, sent.first, count, retried=True)
                sent.code = 7
                return
        data = json.dumps([r for i, r in enumerate(batch.records) if i not in sent.dropped])
        decision = self.sequences.decide(
            place, sent.epoch, sent.first, count, sent.dropped, data.encode()
        )
        if isinstance(decision, int):
            sent.code = decision
            return
        made, data = decision
        if made.settled:
            if not made.kept:
                self.decided[tuple(batch.records)] = set()
            sent.code = 0
            return
        if data is None:
            self.sequences.forget(place)
            sent.code = UNKNOWN_PRODUCER_ID
            return
        sent.made = made
        self.decided[tuple(batch.records)] = set(json.loads(data))
        if fate == "unstored" or lost:
            sent.code = None  # lost on the way to the broker, as all behind it is
        elif moved or (fate == "leaderless" and self.broker.knows(place.producer_id)):
            sent.code = 6
        else:
            sent.code = self.broker.append(place.producer_id, sent.epoch, made.broker_first, data)

    @rule(who=st.integers(0, 1))
    def answer(self, who):
        """The oldest answer arrives."""
        producer = self.producers[who]
        for connection in self.connections[who]:
            if connection and connection[0].released:
                break
        else:
            return
        if connection[0].code is None:
            self.disconnect(who)
            return
        sent = connection.pop(0)
        code = sent.code
        if sent.made is not None:
            code = self.sequences.answered(sent.place, sent.epoch, sent.made, code, Stored(1, 2, 3))
        producer.answered(sent.batch, code)
        if not connection and connection is not self.connections[who][-1]:
            self.connections[who].remove(connection)

    @rule(who=st.integers(0, 1))
    def move(self, who):
        """Another broker leads: what has come before stays behind at the old one."""
        producer = self.producers[who]
        if self.connections[who][-1] and self.broker.knows(producer.producer_id):
            self.connections[who].append([])

    @rule(who=st.integers(0, 1))
    def catch_up(self, who):
        """What has come on older connections goes on."""
        for connection in self.connections[who]:
            self.release_from(who, connection)

    @rule(who=st.integers(0, 1))
    def disconnect(self, who):
        """All connections break; what had come still goes on, and nobody hears of it."""
        self.catch_up(who)
        self.connections[who] = [[]]
        self.producers[who].disconnected()

    @precondition(lambda self: self.steady)
    @rule()
    def restart(self):
        """The gateway is killed, and starts with what it kept."""
        for who in (0, 1):
            self.disconnect(who)
        entries = copy.deepcopy(self.kept)
        for entry in entries.values():
            entry.doubtful, entry.held = True, None
            for batch in entry.batches:
                batch.data = None
        self.sequences = self.gateway(entries)

    @rule()
    def lose_everything(self):
        """The gateway is killed, and what it kept is lost."""
        for who in (0, 1):
            self.disconnect(who)
        self.kept.clear()
        self.sequences = self.gateway({})
        self.forgetful = True

    @invariant()
    def what_is_stored_is_right(self):
        if not hasattr(self, "producers"):
            return
        log = self.broker.log
        if not self.forgetful:
            assert len(log) == len(set(log)), "nothing is stored twice"
            assert not any(producer.fatal for producer in self.producers)
            for producer in self.producers:
                batches = producer.acknowledged + list(producer.waiting) + list(producer.in_flight)
                own = {record for batch in batches for record in batch.records}
                stored = [record for record in log if record in own]
                assert stored == sorted(stored), "in the producer's order"
        stored = set(log)
        for producer in self.producers:
            for batch in producer.refused:
                assert not stored & set(batch.records)
            for batch in producer.acknowledged:
                if self.steady:
                    assert {r for r in batch.records if r % 3} == stored & set(batch.records)
                elif not self.forgetful:
                    assert self.decided[tuple(batch.records)] == stored & set(batch.records)

    def teardown(self):
        """Left alone, every producer comes to its end."""
        if not hasattr(self, "producers"):
            return
        for who in (0, 1):
            producer = self.producers[who]
            for _ in range(200):
                self.catch_up(who)
                while any(self.connections[who]):
                    self.answer(who)
                self.send(who, [False], "stored", False)
                if not producer.waiting and not producer.in_flight:
                    break
            else:
                if not producer.fatal:
                    raise AssertionError(f"{producer} is stuck")
        self.what_is_stored_is_right()


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)


def walk(machine, chance: random.Random, steps: int) -> None:
    """One history by chance alone: a hundred times as fast as hypothesis finds one."""
    machine.begin(chance.random() < 0.5, [chance.choice(STARTS) for _ in range(2)])
    for _ in range(steps):
        who = chance.randrange(2)
        step = chance.random()
        if step < 0.3:
            machine.produce(who, chance.randint(1, 4))
        elif step < 0.65:
            drop = [chance.random() < 0.4 for _ in range(4)]
            machine.send(who, drop, chance.choice(FATES), chance.random() < 0.2)
        elif step < 0.88:
            machine.answer(who)
        elif step < 0.91:
            machine.release(who)
        elif step < 0.93:
            machine.catch_up(who)
        elif step < 0.95:
            machine.move(who)
        elif step < 0.98:
            machine.disconnect(who)
        elif step < 0.997 and machine.steady:
            machine.restart()
        elif step > 0.999:
            machine.lose_everything()
        machine.what_is_stored_is_right()
    machine.teardown()


@pytest.mark.parametrize("seed", range(10))
def test_histories_by_chance(seed):
    for number in range(500):
        walk(Histories(), random.Random(f"{seed}-{number}"), 60)


@pytest.fixture
def sequences():
    return Sequences(now=lambda: clock[0], expiration_s=10, entries_max=3, bytes_max=100)


clock = [0.0]
P = Producer("t", 0, 7)


def test_without_drops_nothing_changes(sequences):
    for first in (0, 5, 10):
        batch, data = sequences.decide(P, 0, first, 5, (), b"x")
        assert (batch.broker_first, data, batch.settled) == (first, b"x", False)
        assert sequences.answered(P, 0, batch, 0, Stored(first, -1, 0)) == 0
        assert batch.data is None
        assert sequences.find(P, 0, first, 5) is batch


def test_state_is_bounded(sequences):
    clock[0] = 0.0
    for number in range(5):
        sequences.decide(Producer(f"t{number}", 0, 7), 0, 0, 2, (1,), b"x" * 30)
    assert [sequences.has_topic(f"t{n}") for n in range(5)] == [False, False, True, True, True]
    batch, data = sequences.decide(P, 0, 0, 1, (), b"y" * 60)
    assert data == b"y" * 60
    assert batch.data is None, "100 bytes are kept at most"
    clock[0] = 20.0
    sequences.expire()
    assert not sequences
    assert not sequences.has_topic("t")


def test_a_producer_from_elsewhere_is_told_to_begin_anew(sequences):
    batch, _ = sequences.decide(P, 3, 40, 2, (), b"x")
    code = sequences.answered(P, 3, batch, OUT_OF_ORDER_SEQUENCE_NUMBER, Stored())
    assert code == UNKNOWN_PRODUCER_ID
    batch, _ = sequences.decide(P, 4, 0, 2, (0,), b"x")
    assert batch.broker_first == 0
    assert sequences.answered(P, 4, batch, 0, Stored()) == 0
    batch, _ = sequences.decide(P, 4, 2, 2, (), b"x")
    assert batch.broker_first == 1


def test_an_old_epoch_is_left_to_the_broker(sequences):
    sequences.decide(P, 4, 0, 2, (0,), b"x")
    batch, data = sequences.decide(P, 3, 17, 2, (), b"x")
    assert (batch.broker_first, data) == (17, b"x")
    assert sequences.answered(P, 3, batch, 47, Stored()) == 47


def test_what_a_broker_refuses_is_taken_back(sequences):
    first, _ = sequences.decide(P, 0, 0, 4, (), b"x")
    sequences.answered(P, 0, first, 0, Stored())
    second, _ = sequences.decide(P, 0, 4, 4, (1, 2), b"x")
    third, _ = sequences.decide(P, 0, 8, 4, (0,), b"x")
    assert third.broker_first == 6
    assert sequences.answered(P, 0, second, 87, Stored()) == 87
    assert sequences.answered(P, 0, third, 45, Stored()) == 45
    assert sequences.decide(P, 0, 12, 1, (), b"x") == 45, "too early while 4 is missing"
    again, _ = sequences.decide(P, 0, 4, 2, (), b"x")
    assert again.broker_first == 4
