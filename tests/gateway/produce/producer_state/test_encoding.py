"""A producer's state as a record: positions that are written again with later batches."""

import json

from penstock.gateway.produce.producer_state.producer.batch import Batch, State
from penstock.gateway.produce.producer_state.producer.history import History
from penstock.gateway.produce.producer_state.producer.producer import Producer
from penstock.gateway.produce.producer_state.records import encoding


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
