"""Records that fence: what counts where gateways with other interceptors write at the same time."""

import pytest

from penstock.gateway.produce.producer_state.batch import State, Stored
from penstock.gateway.produce.producer_state.fences import Fence, Fences, Head
from penstock.gateway.produce.producer_state.numbers import Range
from penstock.gateway.produce.producer_state.producer import (
    REPLICATED_AFTER_S,
    UNSETTLED_MAX,
    Producer,
)
from penstock.gateway.produce.producer_state.producers import Decided, Quarantined
from penstock.wire.errors import NOT_LEADER_OR_FOLLOWER
from tests.gateway.produce.producer_state.test_kept import ARRIVAL, KEY, TIMED_OUT, Topic


def head(writer, seen, *, fences=False, fence=None):
    return Head(0, writer, 1, seen, fence, fences)


class TestFences:
    """The order of records, without what is in them."""

    def test_without_a_fence_all_records_count(self):
        fences = Fences()
        fences.take(head("a", 0), 1)
        assert not fences.is_void(head("b", 0))

    def test_what_another_gateway_wrote_without_having_read_a_fence_is_void(self):
        fences = Fences()
        fences.take(head("a", 0, fences=True), 5)
        assert fences.is_void(head("b", 4))
        assert not fences.is_void(head("b", 5))
        assert not fences.is_void(head("a", 4))

    def test_a_fence_is_void_behind_what_its_writer_had_not_read(self):
        fences = Fences()
        fences.take(head("a", 0), 5)
        assert fences.is_void(head("b", 4, fences=True))
        assert not fences.is_void(head("b", 5, fences=True))
        assert not fences.is_void(head("a", 4, fences=True))

    def test_a_later_record_says_where_the_fence_was(self):
        """The one that fenced may have been compacted."""
        fences = Fences()
        fences.take(head("c", 6, fence=Fence(5, "a")), 7)
        assert fences.last == Fence(5, "a")
        assert fences.is_void(head("b", 4))

    def test_an_older_fence_does_not_take_the_place_of_a_newer_one(self):
        fences = Fences()
        fences.take(head("a", 5, fences=True), 6)
        fences.take(head("c", 7, fence=Fence(5, "b")), 8)
        assert fences.last == Fence(6, "a")

    def test_what_was_written_on_top_of_a_void_record_is_void(self):
        fences = Fences()
        fences.take(head("a", 0), 5)
        fences.leave_out(head("b", 0, fences=True), 6)
        assert fences.is_void(head("b", 5))
        assert not fences.is_void(head("b", 6))
        assert not fences.is_void(head("c", 5))

    def test_records_that_do_not_say_what_their_writer_had_read_count(self):
        fences = Fences()
        fences.take(head("a", 0, fences=True), 5)
        assert not fences.is_void(head("b", None))


def gateways(count):
    topic = Topic()
    made = [topic.gateway() for _ in range(count)]
    made[0].store(0, 10, (0,))
    for one in made:
        one.read()
        one.producers.interceptors_changed(lambda _: True)
    return topic, *made


def test_a_late_decision_does_not_count_behind_one_without_dropped_records():
    """The interceptors of one gateway drop two records, and those of the other one none."""
    _, one, other, third = gateways(3)
    one.writes_late = True
    one.decide(10, 10, (0, 1))
    other.store(10, 10)
    one.write_late()
    for each in (one, other, third):
        assert each.read().decide(20, 1).broker_first == 20 - 1
        each.defer(20, 1)


def test_after_compaction_it_does_not_count_either():
    topic, one, other, third = gateways(3)
    one.writes_late = True
    one.decide(10, 10, (0, 1))
    other.store(10, 10)
    one.write_late()
    third.read().producers.expire()
    topic.compact()
    assert topic.gateway().read().decide(20, 1).broker_first == 20 - 1


def test_what_another_gateway_has_decided_meanwhile_counts_for_a_gateway_in_doubt():
    _, one, other = gateways(2)
    one.store(10, 10, (0, 1))
    assert other.producers.find(KEY, 0, Range(10, 10)) is None, "it has not been read yet"
    other.decide(10, 10)  # it is read back behind what the other one has written
    known = other.producers.find(KEY, 0, Range(10, 10))
    assert (known.dropped_count, known.state) == (2, State.AWAITED)


def test_a_batch_that_another_gateway_may_be_deciding_waits_for_its_record():
    _, _, other = gateways(2)
    other.writes_late = True
    told = []
    decided = other.producers.decide(
        KEY, ARRIVAL, 0, Range(10, 10), (), b"x", connection=1, done=told.append
    )
    assert decided.batch.state is State.DECIDED
    assert told == ["not in time"]


@pytest.mark.parametrize("reads_first", [True, False])
def test_a_decision_that_does_not_count_does_not_either_when_a_newer_epoch_has_begun(reads_first):
    """Its dead letters would be stored, though another gateway has stored the whole batch."""
    topic, one, other = gateways(2)
    held, told, letters = [], [], []
    one.producers._keep = lambda *write: held.append(write)
    quarantined = Quarantined((0,), b"letters", lambda data, _: letters.append(data))
    one.producers.decide(
        KEY, ARRIVAL, 0, Range(10, 10), (0,), b"x", connection=1, quarantined=quarantined,
        done=told.append,
    )  # fmt: skip
    other.store(10, 10)
    if reads_first:
        one.read()
    one.producers.decide(KEY, ARRIVAL, 1, Range(0, 1), (), b"x", connection=1, done=lambda _: None)
    key, record, done = held[0]
    topic.records.append((key, record, one.now))
    one.read()
    done(None)
    assert letters == []
    assert told == ["another gateway has decided about this producer at the same time"]


def test_a_fence_that_could_not_be_written_is_written_with_the_retry():
    topic, one, _ = gateways(2)
    one.writes_late = True
    one.decide(10, 10)
    one.writes_late = False
    written = len(topic.records)
    one.decide(10, 10)
    assert len(topic.records) == written + 1
    assert b'"fence":true' in topic.records[-1][1]


def test_while_interceptors_may_differ_every_batch_is_written():
    """A leader cannot tell whether it is stored: a former one that has it may lead again."""
    topic, one, other = gateways(2)
    written = len(topic.records)
    for first in range(10, 100, 10):
        one.store(first, 10)
    assert len(topic.records) == written + 9
    assert b'"fence":true' in topic.records[written][1]
    assert not any(b'"fence":true' in record[1] for record in topic.records[written + 1 :])
    assert other.read().producers.find(KEY, 0, Range(80, 10)).dropped_count == 0


@pytest.mark.parametrize("again", ["here", "at another gateway"])
def test_a_batch_that_was_sent_whole_stays_whole(again):
    """It got NOT_LEADER_OR_FOLLOWER; the new leader does not have it; the former one does."""
    _, one, other = gateways(2)
    batch = one.decide(10, 10)
    assert one.producers.send(KEY, 0, batch) == 0
    code = one.producers.on_response(KEY, 0, batch, NOT_LEADER_OR_FOLLOWER, Stored())
    assert code == NOT_LEADER_OR_FOLLOWER
    gateway = one if again == "here" else other.read()
    batch.data = None
    gateway.producers.on_last_sequence(
        KEY, ARRIVAL, 0, Range(10, 10), 8, tuple(range(10)), connection=2
    )
    repeated = gateway.decide(10, 10, tuple(range(10)))
    assert (repeated.broker_first, repeated.dropped_count, repeated.is_whole) == (9, 0, True)


@pytest.mark.parametrize("again", ["here", "at another gateway"])
def test_a_batch_that_interceptors_changed_is_not_sent_as_it_came(again):
    _, one, other = gateways(2)
    told = []
    decided = one.producers.decide(
        KEY, ARRIVAL, 0, Range(10, 10), (), b"changed", connection=1, is_changed=True,
        done=told.append,
    )  # fmt: skip
    assert told == [None] and isinstance(decided, Decided)
    one.producers.send(KEY, 0, decided.batch)
    one.producers.on_response(KEY, 0, decided.batch, NOT_LEADER_OR_FOLLOWER, Stored())
    decided.batch.data = None
    gateway = one if again == "here" else other.read()
    gateway.producers.on_last_sequence(KEY, ARRIVAL, 0, Range(10, 10), 8, (0,), connection=2)
    repeated = gateway.decide(10, 10, (0,))
    assert (repeated.broker_first, repeated.dropped_count, repeated.is_whole) == (9, 1, False)


def test_what_others_decided_behind_a_batch_does_not_fit_where_it_stays_whole_here(monkeypatch):
    """A record that was written late is read while one of this gateway's is under way."""
    topic = Topic()
    one, other = topic.gateway(), topic.gateway()
    one.store(0, 10, (0,))
    other.read()
    one.writes_late = other.writes_late = True
    one.decide(10, 4, (0,))
    one.decide(14, 3, (0,))
    for gateway in (one, other):
        gateway.producers.interceptors_changed(lambda _: True)
    other.decide(10, 4)
    other.writes_late = False
    producer = other.producers._producers[KEY]
    with monkeypatch.context() as held_up:
        held_up.setattr(other.producers, "_keep", lambda *_: None)
        other.producers._write(KEY, producer, lambda _: None)
    one.write_late()
    other.read()
    whole = other.decide(10, 4)
    assert (whole.broker_first, whole.dropped_count) == (9, 0)
    assert other.producers.send(KEY, 0, whole) == 0
    assert other.decide(14, 3).broker_first == 13


def test_without_a_change_of_interceptors_nothing_is_written_of_what_drops_nothing():
    topic = Topic()
    one = topic.gateway()
    for first in range(0, 100, 10):
        one.store(first, 10)
    assert topic.records == []


def test_a_producer_that_begins_late_is_written():
    """The client has given up its first batch, which another gateway is still deciding.

    The broker knows nothing of the epoch, and takes any first number.
    """
    topic = Topic()
    one, other = topic.gateway(), topic.gateway()
    one.writes_late = True
    one.decide(0, 4, (0, 3))
    other.producers.on_last_sequence(KEY, ARRIVAL, 0, Range(4, 2), None, connection=1)
    assert other.store(4, 2).broker_first == 4
    one.write_late()
    assert topic.gateway().read().decide(6, 1).broker_first == 6


def test_what_is_stored_before_a_fence_stays_known():
    _, one, other = gateways(2)
    one.store(10, 10)
    one.store(20, 10)
    other.read().producers.on_last_sequence(KEY, ARRIVAL, 0, Range(30, 10), 28, connection=1)
    other.store(30, 10)
    one.read()
    known = one.producers.find(KEY, 0, Range(20, 10))
    assert (known.state, known.broker_first) == (State.STORED, 19)


def test_what_was_decided_on_top_of_a_void_decision_does_not_count_either():
    topic, one, other = gateways(2)
    for each in (one, other):
        each.read()
    one.writes_late = True
    one.decide(10, 1)
    one.decide(11, 4, (0, 3))
    other.decide(10, 1, (0,))
    one.write_late()
    third = topic.gateway().read()
    third.producers.expire()
    for each in (one, other, third):
        assert each.read().decide(11, 1).broker_first == 11 - 2
        each.defer(11, 1)


def test_a_batch_of_which_nothing_is_left_fences_too():
    topic, one, _ = gateways(2)
    one.decide(10, 1, (0,))
    assert b'"fence":true' in topic.records[-1][1]


def test_void_records_of_a_producer_that_is_set_aside_are_not_forgotten():
    topic = Topic()
    one, other = topic.gateway(producers_max=1), topic.gateway()
    for each in (one, other):
        each.producers.interceptors_changed(lambda _: True)
    other.writes_late = True
    other.decide(0, 1)
    late = [*other.late]
    other.decide(1, 4, (0, 3))
    other.late[:] = late
    one.decide(0, 1, (0,))
    other.write_late()
    one.read().decide(0, 1, producer=8)
    assert KEY in one.producers._kept
    assert one.producers._kept.fences(KEY, 0).have_void


def test_the_broker_is_asked_behind_a_batch_that_was_postponed_here_and_stored_elsewhere():
    """The other gateway has written about it, which does not say that it is stored."""
    _, one, other = gateways(2)
    one.defer(10, 10)  # a policy cannot decide now
    assert one.needs_last_sequence(20, 1), "it has to come again, or was stored elsewhere"
    other.read().store(10, 10)
    one.read()
    assert one.needs_last_sequence(20, 1)
    one.find_last_sequence(20, 1, last=18)
    batch = one.decide(20, 1)
    assert one.producers.send(KEY, 0, batch) == 0


def test_the_word_of_a_leader_about_a_postponed_batch_is_no_success_for_what_is_behind_it():
    """Clients take a success as one for all before it; the next leader may not have the batch."""
    *_, other = gateways(2)
    other.defer(10, 1)
    other.find_last_sequence(11, 1, last=9)
    batch = other.decide(11, 1, (0,))
    assert other.producers.acknowledge(KEY, 0, batch) == TIMED_OUT
    other.now += REPLICATED_AFTER_S
    assert other.producers.acknowledge(KEY, 0, batch) == 0


def test_on_another_connection_nothing_waits_for_the_replicas_of_a_postponed_batch():
    """There, clients first send again what has no response: the batch was acknowledged elsewhere."""
    *_, other = gateways(2)
    other.producers.defer(KEY, ARRIVAL, 0, Range(10, 1), connection=3)
    other.find_last_sequence(11, 1, last=10)
    batch = other.decide(11, 1, (0,))
    assert other.producers.acknowledge(KEY, 0, batch) == 0


def test_on_another_connection_nothing_waits_for_the_replicas_of_a_batch_that_failed():
    *_, other = gateways(2)
    sent = other.decide(10, 1)
    other.producers.send(KEY, 0, sent)
    other.producers.on_response(KEY, 0, sent, NOT_LEADER_OR_FOLLOWER, Stored())
    other.now = 300.0
    other.producers.on_last_sequence(KEY, ARRIVAL, 0, Range(11, 1), 10, connection=9)
    batch = other.decide(11, 1, (0,))
    assert other.producers.acknowledge(KEY, 0, batch) == 0


def test_what_a_leader_has_said_about_many_batches_is_kept_as_one_wait():
    producer = Producer(0, 10, release=lambda _: None)
    for first in range(10, 300, 2):
        producer.defer(Range(first, 1), 1)
        producer.on_last_sequence(
            Range(first + 1, 1), first, dropped=(0,), is_shared=True, is_begun=False,
            is_recent=True, overtakes=False, connection=1, now=float(first),
        )  # fmt: skip
    assert 0 < len(producer.on_word) <= UNSETTLED_MAX
    assert max(producer.on_word.values()) == 298.0


def test_a_batch_behind_one_that_is_not_stored_waits_for_it():
    _, one, other = gateways(2)
    one.defer(10, 10)
    other.read().decide(10, 10)
    one.read()
    one.find_last_sequence(20, 1, last=8)
    batch = one.decide(20, 1)
    assert one.producers.send(KEY, 0, batch) == 7


@pytest.mark.parametrize("ends_before_it_is_decided", ["refuse", "defer"])
def test_the_broker_is_asked_where_nothing_here_says_what_came_before(ends_before_it_is_decided):
    """Another gateway may be writing about a batch before it, which its client has given up."""
    topic = Topic()
    one, other = topic.gateway(), topic.gateway()
    one.writes_late = True
    one.decide(0, 3, (2,))
    if ends_before_it_is_decided == "refuse":
        other.producers.refuse(KEY, ARRIVAL, 0, Range(3, 3))
    else:
        other.defer(6, 1)
    assert other.needs_last_sequence(6, 1)
    other.find_last_sequence(6, 1, last=None)
    other.store(6, 1)
    one.write_late()
    for each in (other, one):
        each.read()
    other.find_last_sequence(7, 1, last=6)
    assert other.decide(7, 1).broker_first == 7, "the broker has a batch with the number 6"
