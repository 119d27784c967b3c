"""What outlives a restart."""

import pytest

from penstock.gateway.sequence_store import SequenceStore, SequenceStoreError
from penstock.gateway.sequences import Producer, Sequences

P = Producer("t", 3, 2**40)


def test_numbers_go_on_where_they_were(tmp_path):
    file = tmp_path / "state" / "producers.sqlite"
    store = SequenceStore(file)
    before = Sequences(now=lambda: 5.0, keep=store.put)
    before.decide(P, 2, 0, 10, (1, 2), b"x")
    before.decide(P, 2, 10, 4, (0, 1, 2, 3), b"")
    store.close()

    store = SequenceStore(file)
    after = Sequences(now=lambda: 6.0, keep=store.put, entries=store.entries())
    again = after.find(P, 2, 0, 10)
    assert (again.broker_first, list(again.dropped), again.data) == (0, [1, 2], None)
    assert after.find(P, 2, 10, 4).settled
    batch, _ = after.decide(P, 2, 14, 5, (), b"y")
    assert batch.broker_first == 8
    after.decide(P, 3, 0, 5, (), b"y")  # a new epoch without drops needs no disk
    assert list(store.entries()) == []
    store.close()


def test_one_process_at_a_time(tmp_path):
    store = SequenceStore(tmp_path / "producers.sqlite")
    with pytest.raises(SequenceStoreError, match="another process uses it"):
        SequenceStore(tmp_path / "producers.sqlite")
    store.close()


def test_what_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(SequenceStoreError, match=r"exists|Not a directory"):
        SequenceStore(tmp_path / "file" / "producers.sqlite")
    (tmp_path / "garbage.sqlite").write_text("no database, but text that is long enough" * 9)
    with pytest.raises(SequenceStoreError, match="not a database"):
        SequenceStore(tmp_path / "garbage.sqlite")
