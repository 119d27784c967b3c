"""Sequence numbers where records are dropped: thousands of histories against a model."""

import copy
import json
import random

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
from tests.gateway.producer_model import NUMBERS, BrokerModel, ProducerModel

STARTS = [0, NUMBERS - 7, NUMBERS - 1, 12]
FATES = ["stored"] * 6 + ["unstored", "leaderless", "refused", "late"]


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
        self.answers: dict[int, list] = {p.producer_id: [] for p in self.producers}
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
    )
    def send(self, who, drop, fate):
        """One batch goes through the gateway to the broker; its answer waits in the line."""
        producer = self.producers[who]
        batch = producer.to_send()
        if batch is None:
            return
        place = Producer("t", 0, producer.producer_id)
        answers = self.answers[producer.producer_id]
        known = self.sequences.find(place, batch.epoch, batch.first, len(batch.records))
        judged = known is None or (known.data is None and not known.settled)
        if fate == "refused" and tuple(batch.records) in self.decided:
            fate = "stored"  # policies are taken to stay with what they said
        if tuple(batch.records) in self.refused:
            fate = "refused"
        if judged and fate in {"refused", "late"}:
            if fate == "refused":
                self.refused.add(tuple(batch.records))
            self.sequences.refused(
                place, batch.epoch, batch.first, len(batch.records), retried=fate == "late"
            )
            answers.append((87 if fate == "refused" else 7, None))
            return
        dropped = self.intercept(batch, drop, known.dropped if known else ()) if judged else ()
        data = json.dumps([r for i, r in enumerate(batch.records) if i not in dropped]).encode()
        decision = self.sequences.decide(
            place, batch.epoch, batch.first, len(batch.records), dropped, data
        )
        if isinstance(decision, int):
            answers.append((decision, None))
            return
        made, data = decision
        if made.settled:
            if not made.kept:
                self.decided[tuple(batch.records)] = set()
            answers.append((0, None))
            return
        if data is None:
            self.sequences.forget(place)
            answers.append((UNKNOWN_PRODUCER_ID, None))
            return
        self.decided[tuple(batch.records)] = set(json.loads(data))
        if fate == "unstored" or any(code is None for code, _ in answers):
            answers.append((None, made))  # lost on the way to the broker, as all behind it is
        elif fate == "leaderless" and self.broker.knows(place.producer_id):
            answers.append((6, made))
        else:
            code = self.broker.append(place.producer_id, batch.epoch, made.broker_first, data)
            answers.append((code, made))

    @rule(who=st.integers(0, 1))
    def answer(self, who):
        """The oldest answer arrives."""
        producer = self.producers[who]
        answers = self.answers[producer.producer_id]
        if not answers:
            return
        code, made = answers.pop(0)
        if code is None:
            answers.clear()
            producer.disconnected()
            return
        if made is not None:
            epoch = producer.in_flight[0].epoch
            code = self.sequences.answered(
                Producer("t", 0, producer.producer_id), epoch, made, code, Stored(1, 2, 3)
            )
        producer.answered(code)

    @rule(who=st.integers(0, 1))
    def disconnect(self, who):
        self.answers[self.producers[who].producer_id].clear()
        self.producers[who].disconnected()

    @precondition(lambda self: self.steady)
    @rule()
    def restart(self):
        """The gateway is killed, and starts with what it kept."""
        for who in (0, 1):
            self.disconnect(who)
        entries = copy.deepcopy(self.kept)
        for entry in entries.values():
            entry.doubtful = True
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
                self.send(who, [False], "stored")
                self.answer(who)
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
            machine.send(who, drop, chance.choice(FATES))
        elif step < 0.95:
            machine.answer(who)
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
