"""The state machine of a producer's batches: its table, its rules, and thousands of histories."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.producer_state import encoding
from penstock.gateway.producer_state.batch import TRANSITIONS, Batch, Event, State, Stored
from penstock.gateway.producer_state.encoding import ProducerKey
from penstock.gateway.producer_state.local import LocalStore, LocalStoreError
from penstock.gateway.producer_state.numbers import NUMBERS, add, distance
from penstock.gateway.producer_state.producer import History, Producer, Range
from penstock.gateway.producer_state.producers import HELD_S, Arrival, Producers
from tests.gateway.histories import World

KEY = ProducerKey("t", 0, 7)
ARRIVAL = Arrival("t", 0, 7)
HISTORIES, SEEDS = 1_000, 10


@pytest.mark.parametrize("seed", range(SEEDS))
def test_histories_by_chance(seed):
    for number in range(HISTORIES):
        World(seed * HISTORIES + number).walk()


def test_the_model_notices_success_that_is_told_too_early(monkeypatch):
    """As librdkafka takes it for one for all batches before."""

    def acknowledge(_, batch):
        if batch.state is State.DROPPED:
            batch.apply(Event.ACKNOWLEDGE)
        return 0

    monkeypatch.setattr(Producer, "acknowledge", acknowledge)
    failed = 0
    for number in range(2_000):
        try:
            World(number).walk()
        except AssertionError:
            failed += 1
    assert failed > 10


def test_every_state_has_its_transitions_and_no_other():
    assert set(TRANSITIONS) == set(State)
    for state, event in itertools.product(State, Event):
        batch = Batch(0, 2, 0, (), 0, state)
        if event in TRANSITIONS[state]:
            batch.apply(event)
            assert batch.state is TRANSITIONS[state][event]
        else:
            with pytest.raises(AssertionError):
                batch.apply(event)


@given(st.integers(0, NUMBERS - 1), st.integers(-(2**29), 2**29))
def test_numbers_go_round(number, count):
    assert 0 <= add(number, count) < NUMBERS
    assert distance(number, add(number, count)) == count


def producers(**options):
    """State that is kept in a list, as a restart or another gateway would find it."""
    kept: list[tuple[ProducerKey, bytes]] = []

    def keep(key, record, done):
        kept.append((key, record))
        done(None)

    return Producers(now=lambda: 5.0, keep=keep, **options), kept


def decide(state, first, count, dropped=(), data=b"x", *, epoch=0, connection=1):
    decided = state.decide(
        KEY, ARRIVAL, epoch, Range(first, count), dropped, data,
        connection=connection, done=lambda _: None,
    )  # fmt: skip
    return decided if isinstance(decided, int) else decided.batch


def stored(state, batch, *, epoch=0):
    assert state.send(KEY, epoch, batch) == 0
    assert state.answered(KEY, epoch, batch, 0, Stored(9)) == 0


def test_numbers_are_lowered_by_what_was_dropped_before():
    state, kept = producers()
    stored(state, decide(state, 0, 10))
    assert kept == [], "a batch that loses nothing is not written"
    stored(state, decide(state, 10, 10, [1, 2]))
    assert len(kept) == 1
    batch = decide(state, 20, 5)
    assert (batch.broker_first, len(kept)) == (18, 1)


def test_a_restart_goes_on_where_the_last_record_was_written():
    state, kept = producers()
    assert state.send(KEY, 0, decide(state, 0, 10, [1, 2])) == 0
    decide(state, 10, 4, [0, 1, 2, 3])
    after, _ = producers()
    for key, record in kept:
        after.restore(key, record, 5.0)
    again = after.find(KEY, 0, Range(0, 10))
    assert (again.broker_first, list(again.dropped), again.data) == (0, [1, 2], None)
    assert after.find(KEY, 0, Range(10, 4)).is_done
    assert decide(after, 14, 5).broker_first == 8
    assert after.has_topic("t")


def test_a_gateway_that_follows_another_for_long_goes_on_at_any_time():
    one, kept = producers(is_shared=True)
    other, _ = producers(is_shared=True)
    stored(other, decide(other, 0, 2))
    stored(one, decide(one, 0, 2))
    for first in range(2, 1_000, 2):
        stored(one, decide(one, first, 2, [0]))
        other.restore(*kept[-1], 5.0)
    batch = decide(other, 1_000, 2)
    assert batch.broker_first == 1_000 - 499
    stored(other, batch)


def test_behind_a_batch_that_comes_again_everything_does():
    state, _ = producers()
    stored(state, decide(state, 0, 1))
    missing = decide(state, 1, 1)
    assert state.send(KEY, 0, missing) == 0
    assert state.answered(KEY, 0, missing, 6, Stored()) == 6
    assert state.send(KEY, 0, decide(state, 2, 1)) == 7
    again = decide(state, 1, 1)
    assert again is missing
    stored(state, again)
    stored(state, decide(state, 2, 1))


def test_behind_a_refused_batch_everything_is_out_of_order_until_its_numbers_are_used_anew():
    state, _ = producers()
    stored(state, decide(state, 0, 1))
    state.refuse(KEY, ARRIVAL, 0, Range(1, 2))
    assert decide(state, 3, 1) == 45
    half = decide(state, 1, 1)
    stored(state, half)
    stored(state, decide(state, 2, 1))


def test_a_known_batch_that_is_refused_for_good_does_not_hold_up_others_for_ever():
    state, _ = producers()
    stored(state, decide(state, 0, 1))
    batch = decide(state, 1, 1)
    assert state.send(KEY, 0, batch) == 0
    assert state.answered(KEY, 0, batch, 7, Stored()) == 7
    state.refuse(KEY, ARRIVAL, 0, Range(1, 1))
    assert decide(state, 2, 1) == 45


def test_an_older_epoch_is_fenced_and_a_new_one_begins_at_its_numbers():
    state, _ = producers()
    stored(state, decide(state, 0, 4, [0]))
    assert decide(state, 0, 1, epoch=1).broker_first == 0
    assert decide(state, 4, 1) == 47


def test_memory_is_counted_as_it_is_held_and_given_back():
    clock = [0.0]
    state = Producers(now=lambda: clock[0], held_max_bytes=8 * 2**20)
    frame = bytes(5 * 2**20)
    small = decide(state, 0, 2, [1], memoryview(frame)[:100])
    assert state.held_bytes == 100 + 4, "a view of a large request is copied"
    stored(state, small)
    assert (state.held_bytes, small.dropped) == (0, ())
    large = decide(state, 2, 2, (), memoryview(frame)[: 3 * 2**20])
    assert state.held_bytes == len(frame)
    decide(state, 4, 2, (), bytes(4 * 2**20))
    assert (state.held_bytes, large.data) == (4 * 2**20, None), "the oldest gives way"
    clock[0] = HELD_S + 1
    state.expire()
    assert state.held_bytes == 0
    assert state.has_topic("t")
    clock[0] = 2 * 86_400.0
    state.expire()
    assert not state


def test_what_is_in_use_is_written_anew_before_it_would_be_forgotten():
    clock, kept = [1.0], []
    state = Producers(now=lambda: clock[0], keep=lambda *one: (kept.append(one), one[2](None)))
    stored(state, decide(state, 0, 4, [0]))
    for number in range(4, 30):
        clock[0] += 4_000.0
        stored(state, decide(state, number, 1))
        state.expire()
    assert len(kept) == 2


def test_a_batch_of_many_dropped_records_has_a_small_record():
    state, kept = producers()
    decide(state, 0, 64_000, range(0, 64_000, 2))
    assert len(kept[0][1]) < 100_000


@given(
    st.integers(0, NUMBERS - 1),
    st.lists(st.tuples(st.integers(1, 9), st.lists(st.integers(0, 8), unique=True)), max_size=6),
)
def test_a_record_says_what_was_known(first, batches):
    state, kept = producers()
    number, removed = first, 0
    for count, positions in batches:
        dropped = sorted(one for one in positions if one < count)
        assert decide(state, number, count, dropped).broker_first == add(number, -removed)
        number, removed = add(number, count), removed + len(dropped)
        if dropped:
            read = encoding.decode(kept[-1][1], History.RESTORED, 5.0, lambda _: None)
            assert (read.next, read.removed, read.epoch) == (number, removed, 0)
            last = read.batches[-1]
            assert (last.first, last.count, last.dropped_count) == (
                add(number, -count), count, len(dropped),
            )  # fmt: skip


@pytest.mark.parametrize("record", [b"", b"{}", b"[]", b"nonsense", b'{"version": 1}'])
def test_a_record_that_cannot_be_understood_is_an_error(record):
    state, _ = producers()
    with pytest.raises(ValueError):
        state.restore(KEY, record, 5.0)


def test_keys_are_read_as_they_were_written():
    for key in (KEY, ProducerKey("a/b.c", 12, 2**60)):
        assert ProducerKey.decode(key.encode()) == key
    with pytest.raises(ValueError):
        ProducerKey.decode(b"x")


def test_a_file_of_records_has_one_owner(tmp_path):
    file = tmp_path / "state" / "producers.sqlite"
    store = LocalStore(file, lambda: 5.0)
    store.put(KEY, b"record")
    with pytest.raises(LocalStoreError, match="another process uses it"):
        LocalStore(file, lambda: 5.0)
    store.close()
    store = LocalStore(file, lambda: 100.0)
    assert list(store.records()) == [(KEY, b"record", 5.0)]
    store.expire(10.0)
    assert list(store.records()) == []
    store.close()


def test_files_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(LocalStoreError, match=r"exists|Not a directory"):
        LocalStore(tmp_path / "file" / "producers.sqlite", lambda: 0.0)
    (tmp_path / "garbage.sqlite").write_text("no database, but text that is long enough" * 9)
    with pytest.raises(LocalStoreError, match="not a database"):
        LocalStore(tmp_path / "garbage.sqlite", lambda: 0.0)
