"""A producer's state as a record: the decoded state is the encoded state."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.produce.producer_state.producer.batch import Batch, State
from penstock.gateway.produce.producer_state.producer.history import History
from penstock.gateway.produce.producer_state.producer.state_machine import Producer
from penstock.gateway.produce.producer_state.records import encoding
from penstock.gateway.produce.producer_state.records.fences import Head
from penstock.kafka.records.sequences import SEQUENCES, add
from tests.gateway.produce.producer_state.numbering import KEY, TOO_LARGE, Gateway


def producer(*batches):
    return Producer(0, 30, release=lambda _: None, history=History.COMPLETE, batches=list(batches))


def batch(first=0, dropped=(1, 2), quarantined=(2,)):
    return Batch(first, 10, first, dropped, len(dropped), State.STORED, quarantined=quarantined)


def read(state):
    record = encoding.encode(state, "w")
    found = encoding.decode(record, History.COMPLETE, 0.0, lambda _: None)
    return [(list(batch.dropped), list(batch.quarantined)) for batch in found.batches]


def test_positions_of_earlier_batches_are_encoded_once(monkeypatch):
    first, second = batch(), batch(10, (3,), ())
    record = encoding.encode(producer(first), "w")
    monkeypatch.setattr(encoding, "_encode_positions", lambda of: f"new {list(of)}" if of else None)
    rows = json.loads(encoding.encode(producer(first, second), "w"))["batches"]
    assert rows[0] == json.loads(record)["batches"][0]
    assert rows[1][4] == "new [3]"


def test_positions_that_change_are_encoded_again():
    decided = batch()
    assert read(producer(decided)) == [([1, 2], [2])]
    decided.quarantined = (1,)
    assert read(producer(decided)) == [([1, 2], [1])]
    decided.dropped, decided.quarantined = (), ()
    assert read(producer(decided)) == [([], [])]


def test_a_record_marks_the_batches_that_interceptors_changed():
    changed = batch(10, (), ())
    changed.is_changed = True
    state = producer(batch(0, (), ()), changed)
    record = encoding.encode(state, "w")
    found = encoding.decode(record, History.COMPLETE, 0.0, lambda _: None)
    assert [batch.is_changed for batch in found.batches] == [False, True]
    assert b"changed" not in encoding.encode(producer(batch()), "w")


def test_a_record_says_how_old_its_batches_are():
    old, late = batch(), batch(10)
    state = producer(old, late)
    old.received, state.record.written, late.received = 1_000.0, 9_000.0, 9_900.0
    found = encoding.decode(encoding.encode(state, "w"), History.COMPLETE, 9_001.0, print)
    assert [batch.received for batch in found.batches] == [1_001.0, 9_901.0]
    old.received = late.received = 9_000.0
    assert b"ages" not in encoding.encode(state, "w")


def test_all_dropped_records_may_be_dead_letters():
    assert read(producer(batch(dropped=(4, 5), quarantined=(4, 5)))) == [([4, 5], [4, 5])]


@st.composite
def producers(draw):
    first = draw(st.integers(0, SEQUENCES - 1))
    removed = draw(st.integers(0, 1000))
    after, lost, batches = first, removed, []
    for _ in range(draw(st.integers(0, 6))):
        count = draw(st.integers(1, 300))
        dropped = sorted(draw(st.sets(st.integers(0, count - 1))))
        whole = len(dropped) == count
        batches.append(
            Batch(
                after,
                count,
                add(after, -lost),
                () if whole else dropped,
                len(dropped),
                State.DROPPED if whole else State.PRESUMED,
            )
        )
        after, lost = add(after, count), add(lost, len(dropped))
    return Producer(
        draw(st.integers(0, 2**15 - 1)),
        after,
        release=lambda _: None,
        removed=lost,
        batches=batches,
        topic_id=draw(st.none() | st.uuids()),
    )


class TestEncoding:
    @pytest.mark.thorough
    @given(producers(), st.text(max_size=5))
    def test_encoded_state_is_decoded_to_the_same_state(self, producer, writer):
        record = encoding.encode(producer, writer, revision=3, last_position=70)
        assert encoding.read_head(record) == Head(producer.epoch, writer, 3, 70)
        read = encoding.decode(record, History.COMPLETE, 5.0, lambda _: None)
        assert (read.epoch, read.topic_id) == (producer.epoch, producer.topic_id)
        assert read.decisions[1:] == producer.decisions[1:]
        assert (read.used, read.at_broker.history) == (5.0, History.COMPLETE)
        for found, batch in zip(read.batches, producer.batches, strict=True):
            for name in ("first", "count", "broker_first", "dropped_count", "state"):
                assert getattr(found, name) == getattr(batch, name)
            assert list(found.dropped) == list(batch.dropped)

    @pytest.mark.thorough
    @given(
        st.builds(
            encoding.ProducerKey,
            st.text(st.characters(codec="utf-8"), max_size=20),
            st.integers(0, 10_000),
            st.integers(0, 2**63),
        )
    )
    def test_keys_are_decoded_to_the_same_producers(self, key):
        assert encoding.ProducerKey.decode(key.encode()) == key

    @pytest.mark.parametrize("key", [None, b"", b"1/2", b"a/b/c"])
    def test_invalid_keys_are_ignored(self, key):
        with pytest.raises(ValueError, match=r"."):
            encoding.ProducerKey.decode(key)

    def test_a_refused_batch_is_not_encoded(self):
        gateway = Gateway()
        gateway.store(0, 2, (0,))
        refused = gateway.decide(2, 2, (0,))
        gateway.send(refused)
        gateway.answered(refused, TOO_LARGE)
        producer = gateway.producers._in_use.get(KEY)
        read = encoding.decode(encoding.encode(producer, ""), History.RESTORED, 0.0, lambda _: None)
        assert (read.numbering.next, read.numbering.removed) == (2, 1)
