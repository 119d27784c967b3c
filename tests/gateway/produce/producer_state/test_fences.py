"""Records that fence: which records count if gateways with different interceptors write."""

import pytest

from penstock.gateway.produce.producer_state.all_producers import Decided
from penstock.gateway.produce.producer_state.letters import Quarantined
from penstock.gateway.produce.producer_state.producer.batch import State, Stored
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.producer.state_machine import Producer
from penstock.gateway.produce.producer_state.producer.stored_at_leader import (
    REPLICATED_AFTER_S,
    UNSETTLED_MAX,
)
from penstock.gateway.produce.producer_state.records.fences import Fence, Fences, Head
from penstock.kafka.wire.errors import NOT_LEADER_OR_FOLLOWER
from penstock.kafka.wire.requests.leaders import Leader
from tests.gateway.produce.producer_state.shared_topic import (
    ARRIVAL,
    KEY,
    OUT_OF_ORDER,
    TIMED_OUT,
    Topic,
)


def head(writer, seen, *, fences=False, fence=None):
    return Head(0, writer, 1, seen, fence, fences)


class TestFences:
    """The order of records, without their content."""

    def test_without_a_fence_all_records_count(self):
        fences = Fences()
        fences.take(head("a", 0), 1)
        assert not fences.is_void(head("b", 0))

    def test_records_of_a_gateway_that_had_not_read_a_fence_are_void(self):
        fences = Fences()
        fences.take(head("a", 0, fences=True), 5)
        assert fences.is_void(head("b", 4))
        assert not fences.is_void(head("b", 5))
        assert not fences.is_void(head("a", 4))

    def test_a_fence_is_void_after_records_that_its_writer_had_not_read(self):
        fences = Fences()
        fences.take(head("a", 0), 5)
        assert fences.is_void(head("b", 4, fences=True))
        assert not fences.is_void(head("b", 5, fences=True))
        assert not fences.is_void(head("a", 4, fences=True))

    def test_a_later_record_has_the_position_of_the_fence(self):
        """The record that fenced may have been compacted."""
        fences = Fences()
        fences.take(head("c", 6, fence=Fence(5, "a")), 7)
        assert fences.last == Fence(5, "a")
        assert fences.is_void(head("b", 4))

    def test_an_older_fence_does_not_replace_a_newer_fence(self):
        fences = Fences()
        fences.take(head("a", 5, fences=True), 6)
        fences.take(head("c", 7, fence=Fence(5, "b")), 8)
        assert fences.last == Fence(6, "a")

    def test_a_record_on_top_of_a_void_record_is_void(self):
        fences = Fences()
        fences.take(head("a", 0), 5)
        fences.leave_out(head("b", 0, fences=True), 6)
        assert fences.is_void(head("b", 5))
        assert not fences.is_void(head("b", 6))
        assert not fences.is_void(head("c", 5))

    def test_records_without_the_position_that_their_writer_had_read_count(self):
        fences = Fences()
        fences.take(head("a", 0, fences=True), 5)
        assert not fences.is_void(head("b", None))


def gateways(count):
    topic = Topic()
    made = [topic.gateway() for _ in range(count)]
    made[0].store(0, 10, (0,))
    for gateway_1 in made:
        gateway_1.read()
        gateway_1.producers.interceptors_changed(lambda _: True)
    return topic, *made


def test_a_late_decision_does_not_count_after_a_decision_without_dropped_records():
    """The interceptors of one gateway drop two records, and those of the other none."""
    _, gateway_1, gateway_2, gateway_3 = gateways(3)
    gateway_1.writes_late = True
    gateway_1.decide(10, 10, (0, 1))
    gateway_2.store(10, 10)
    gateway_1.write_late()
    for each in (gateway_1, gateway_2, gateway_3):
        assert each.read().decide(20, 1).broker_first == 20 - 1
        each.defer(20, 1)


def test_a_late_decision_does_not_count_after_compaction_either():
    topic, gateway_1, gateway_2, gateway_3 = gateways(3)
    gateway_1.writes_late = True
    gateway_1.decide(10, 10, (0, 1))
    gateway_2.store(10, 10)
    gateway_1.write_late()
    gateway_3.read().producers.expire()
    topic.compact()
    assert topic.gateway().read().decide(20, 1).broker_first == 20 - 1


def test_a_decision_of_another_gateway_counts_for_a_gateway_in_doubt():
    _, gateway_1, gateway_2 = gateways(2)
    gateway_1.store(10, 10, (0, 1))
    assert gateway_2.producers.find(KEY, 0, Range(10, 10)) is None, "it has not been read yet"
    gateway_2.decide(10, 10)  # it is read back behind what the other has written
    known = gateway_2.producers.find(KEY, 0, Range(10, 10))
    assert (known.dropped_count, known.state) == (2, State.AWAITED)


def test_a_batch_that_another_gateway_may_be_deciding_waits_for_its_record():
    _, _, gateway_2 = gateways(2)
    gateway_2.writes_late = True
    failures = []
    decided = gateway_2.producers.decide(
        KEY, ARRIVAL, 0, Range(10, 10), (), b"x", connection=1, callback=failures.append
    )
    assert decided.batch.state is State.DECIDED
    assert failures == ["not in time"]


@pytest.mark.parametrize("reads_first", [True, False])
def test_a_decision_that_does_not_count_stays_void_in_a_newer_epoch(reads_first):
    """Its dead letters would be stored, though another gateway has stored the whole batch."""
    topic, gateway_1, gateway_2 = gateways(2)
    held, failures, letters = [], [], []
    gateway_1.producers._writer._keep = lambda *write: held.append(write)
    quarantined = Quarantined((0,), b"letters", lambda data, *_: letters.append(data))
    gateway_1.producers.decide(
        KEY, ARRIVAL, 0, Range(10, 10), (0,), b"x", connection=1, quarantined=quarantined,
        callback=failures.append,
    )  # fmt: skip
    gateway_2.store(10, 10)
    if reads_first:
        gateway_1.read()
    gateway_1.producers.decide(
        KEY, ARRIVAL, 1, Range(0, 1), (), b"x", connection=1, callback=lambda _: None
    )
    key, record, done = held[0]
    topic.records.append((key, record, gateway_1.now))
    gateway_1.read()
    done(None)
    assert letters == []
    assert failures == ["another gateway has decided about this producer at the same time"]


def test_a_fence_that_could_not_be_written_is_written_with_the_retry():
    topic, gateway_1, _ = gateways(2)
    gateway_1.writes_late = True
    gateway_1.decide(10, 10)
    gateway_1.writes_late = False
    written = len(topic.records)
    gateway_1.decide(10, 10)
    assert len(topic.records) == written + 1
    assert b'"fence":true' in topic.records[-1][1]


def test_a_record_after_a_fence_whose_write_failed_fences_too(monkeypatch):
    """Otherwise another gateway's decision about the first batch would count, too."""
    topic, gateway, other = gateways(2)
    waiting = []
    with monkeypatch.context() as held_up:
        held_up.setattr(gateway.producers._writer, "_keep", lambda *record: waiting.append(record))
        for first in (10, 20):
            gateway.producers.decide(
                KEY, ARRIVAL, 0, Range(first, 10), (), b"x", connection=1, callback=lambda _: None
            )
    (*_, failed), (key, record, done) = waiting
    failed("not written")
    topic.records.append((key, record, gateway.now))
    gateway.read()
    done(None)
    other.producers.interceptors_changed(lambda _: True)
    assert b'"fence":true' in record
    other.decide(10, 10, (0,))
    counted = other.producers.find(KEY, 0, Range(10, 10))
    assert (counted.state, counted.dropped_count) == (State.AWAITED, 0)


def test_while_interceptors_may_differ_every_batch_is_written():
    """A leader cannot know whether it is stored: a former leader that has it may lead again."""
    topic, gateway_1, gateway_2 = gateways(2)
    written = len(topic.records)
    for first in range(10, 100, 10):
        gateway_1.store(first, 10)
    assert len(topic.records) == written + 9
    assert b'"fence":true' in topic.records[written][1]
    assert not any(b'"fence":true' in record[1] for record in topic.records[written + 1 :])
    assert gateway_2.read().producers.find(KEY, 0, Range(80, 10)).dropped_count == 0


@pytest.fixture(params=["here", "at another gateway"])
def sent_unchanged(request):
    """A gateway that knows a batch, not its bytes.

    It got NOT_LEADER_OR_FOLLOWER; the new leader does not have it; the former leader does.
    """
    _, gateway_1, gateway_2 = gateways(2)
    batch = gateway_1.decide(10, 10)
    assert gateway_1.producers.send(KEY, 0, batch) == 0
    code = gateway_1.producers.on_response(KEY, 0, batch, NOT_LEADER_OR_FOLLOWER, Stored())
    assert code == NOT_LEADER_OR_FOLLOWER
    batch.data = None
    return gateway_1 if request.param == "here" else gateway_2.read()


def test_a_batch_that_was_sent_unchanged_stays_unchanged(sent_unchanged):
    gateway, all_records = sent_unchanged, tuple(range(10))
    for leader in (None, Leader(5, has_committed=False)):
        assert not learn_last_sequence(gateway, 8, all_records, leader)
        gateway.defer(10, 10)
    assert learn_last_sequence(gateway, 18, all_records, Leader(6, has_committed=False)), (
        "the former leader leads again"
    )
    decided = gateway.producers.decide(
        KEY, ARRIVAL, 0, Range(10, 10), all_records, b"", connection=2, callback=lambda _: None
    )
    assert (decided.batch.broker_first, decided.batch.dropped_count) == (9, 0)
    assert decided.is_whole
    assert gateway.producers.send(KEY, 0, decided.batch, is_whole=True) == 0


def test_a_batch_that_was_sent_unchanged_is_decided_again_if_no_leader_can_have_it(sent_unchanged):
    gateway = sent_unchanged
    assert not learn_last_sequence(gateway, 8, (0,), Leader(5, has_committed=False))
    gateway.defer(10, 10)
    assert learn_last_sequence(gateway, 8, (0,), Leader(5, has_committed=True))
    again = gateway.decide(10, 10, (0,))
    assert (again.broker_first, again.dropped_count) == (9, 1)


def test_a_batch_that_was_sent_unchanged_waits_if_it_is_not_stored_any_more(sent_unchanged):
    """The leader had it when it was decided, and is not the leader when it is sent."""
    gateway = sent_unchanged
    assert learn_last_sequence(gateway, 18, (0,))
    decided = gateway.producers.decide(
        KEY, ARRIVAL, 0, Range(10, 10), (0,), b"x", connection=2, callback=lambda _: None
    )
    assert decided.is_whole
    gateway.defer(10, 10)
    assert gateway.producers.send(KEY, 0, decided.batch, is_whole=True) == TIMED_OUT
    assert gateway.producers.queries.is_needed(KEY, 0, Range(10, 10), (0,), connection=2)


def test_the_response_of_a_leader_holds_for_one_attempt(sent_unchanged):
    gateway = sent_unchanged
    assert learn_last_sequence(gateway, 18, (0,))
    assert gateway.producers.queries.without_last_sequence(KEY, ARRIVAL, 0, Range(10, 10), (0,))
    assert isinstance(gateway.decide(10, 10, (0,)), int)


@pytest.mark.parametrize("again", ["here", "at another gateway"])
def test_a_batch_that_interceptors_changed_is_not_sent_unchanged(again):
    _, gateway_1, gateway_2 = gateways(2)
    failures = []
    decided = gateway_1.producers.decide(
        KEY, ARRIVAL, 0, Range(10, 10), (), b"changed", connection=1, is_changed=True,
        callback=failures.append,
    )  # fmt: skip
    assert failures == [None] and isinstance(decided, Decided)
    gateway_1.producers.send(KEY, 0, decided.batch)
    gateway_1.producers.on_response(KEY, 0, decided.batch, NOT_LEADER_OR_FOLLOWER, Stored())
    decided.batch.data = None
    gateway = gateway_1 if again == "here" else gateway_2.read()
    gateway.producers.queries.on_last_sequence(
        KEY, ARRIVAL, 0, Range(10, 10), 8, (0,), connection=2
    )
    repeated = gateway.decide(10, 10, (0,))
    assert (repeated.broker_first, repeated.dropped_count) == (9, 1)
    assert repeated.data == b"x", "what interceptors have left of it now"


def changed_and_lost(*, dropped=()):
    """A gateway that has forgotten the bytes of a changed batch, which was not stored."""
    _, gateway, _ = gateways(2)
    for first, lost in ((10, dropped), (20, (0,))):
        batch = gateway.decide(first, 10, lost)
        batch.is_changed = True
        gateway.producers.send(KEY, 0, batch)
    for batch in list(gateway.producers._in_use.get(KEY).batches)[1:]:
        gateway.producers.on_response(KEY, 0, batch, NOT_LEADER_OR_FOLLOWER, Stored())
        batch.data = None
    return gateway


def learn_last_sequence(gateway, last, dropped=(0, 1), leader=None):
    return gateway.producers.queries.on_last_sequence(
        KEY, ARRIVAL, 0, Range(10, 10), last, dropped, connection=1, leader=leader
    )


def test_a_batch_that_is_decided_again_keeps_its_sequence_number_before_later_batches():
    """Nothing before it is remembered; later batches count the records that it had lost."""
    gateway = changed_and_lost(dropped=(0,))
    producer = gateway.producers._in_use.get(KEY)
    producer.batches.popleft()
    producer.batches[-1].quarantined = producer.batches[-1].dropped
    learn_last_sequence(gateway, 8)
    again = gateway.decide(10, 10, (0, 1))
    assert (again.broker_first, again.dropped_count) == (9, 2)
    assert producer.batches[-1].broker_first == 17


def test_a_batch_that_cannot_be_sent_again_is_no_success_because_a_leader_has_it():
    """The next leader may not have it."""
    gateway = changed_and_lost()
    learn_last_sequence(gateway, 18)
    assert gateway.decide(10, 10, (0, 1)) == TIMED_OUT
    gateway.now += REPLICATED_AFTER_S
    learn_last_sequence(gateway, 18)
    stored = gateway.decide(10, 10, (0, 1))
    assert (stored.dropped_count, stored.is_done) == (0, True)
    assert gateway.producers.acknowledge(KEY, 0, stored) == 0


def test_a_batch_that_cannot_be_sent_again_succeeds_once_a_later_batch_is_stored():
    gateway = changed_and_lost()
    learn_last_sequence(gateway, 18)
    behind = gateway.producers._in_use.get(KEY).batches[-1]
    gateway.producers.on_response(KEY, 0, behind, 0, Stored(1))
    learn_last_sequence(gateway, 27)
    assert gateway.decide(10, 10, (0, 1)).is_done


def test_a_batch_that_cannot_be_sent_again_is_decided_again_if_the_leader_has_lost_it():
    gateway = changed_and_lost()
    learn_last_sequence(gateway, 18)
    learn_last_sequence(gateway, 8)
    again = gateway.decide(10, 10, (0, 1))
    assert (again.broker_first, again.dropped_count, again.is_done) == (9, 2, False)


def test_a_batch_that_cannot_be_sent_again_is_not_decided_again_if_a_former_leader_may_have_it():
    gateway = changed_and_lost()
    assert not learn_last_sequence(gateway, 8, leader=Leader(5, has_committed=False))
    gateway.defer(10, 10)
    assert learn_last_sequence(gateway, 18, leader=Leader(6, has_committed=False)), (
        "the leader may have the batch again"
    )
    assert gateway.decide(10, 10, (0, 1)) == TIMED_OUT
    assert learn_last_sequence(gateway, 8, leader=Leader(7, has_committed=True)), (
        "the batch is lost"
    )
    assert gateway.decide(10, 10, (0, 1)).dropped_count == 2


def test_later_decisions_of_others_do_not_fit_if_a_batch_stays_whole_here(monkeypatch):
    """A record that was written late is read while a record of this gateway is under way."""
    topic = Topic()
    gateway_1, gateway_2 = topic.gateway(), topic.gateway()
    gateway_1.store(0, 10, (0,))
    gateway_2.read()
    gateway_1.writes_late = gateway_2.writes_late = True
    gateway_1.decide(10, 4, (0,))
    gateway_1.decide(14, 3, (0,))
    for gateway in (gateway_1, gateway_2):
        gateway.producers.interceptors_changed(lambda _: True)
    gateway_2.decide(10, 4)
    gateway_2.writes_late = False
    producer = gateway_2.producers._in_use.get(KEY)
    with monkeypatch.context() as held_up:
        held_up.setattr(gateway_2.producers._writer, "_keep", lambda *_: None)
        gateway_2.producers._writer.write(KEY, producer, lambda _: None)
    gateway_1.write_late()
    gateway_2.read()
    whole = gateway_2.decide(10, 4)
    assert (whole.broker_first, whole.dropped_count) == (9, 0)
    assert gateway_2.producers.send(KEY, 0, whole) == 0
    assert gateway_2.decide(14, 3).broker_first == 13


def test_later_decisions_of_others_do_not_fit_if_a_batch_was_split_here():
    """It was too large, and its parts lose nothing: later decisions count what it had lost."""
    topic = Topic()
    first, other = topic.gateway(), topic.gateway()
    first.store(0, 10, (0,))
    other.read()
    first.decide(10, 4, (0, 3))
    first.decide(14, 2)
    other.decide(10, 2)
    theirs, known = (gateway.producers._in_use.get(KEY) for gateway in (first, other))
    assert not known.learn(theirs.decisions)
    assert (known.numbering.next, known.numbering.removed) == (12, 1)
    assert other.decide(12, 2).broker_first == 11
    assert other.decide(14, 2).broker_first == 13


def test_later_decisions_of_others_fit_if_the_parts_of_a_batch_lose_as_many_records():
    """Otherwise numbers would be too high, which a broker takes for new records."""
    topic = Topic()
    first, other = topic.gateway(), topic.gateway()
    first.store(0, 4, (0, 3))
    first.decide(4, 2)
    first.decide(6, 2, (0,))  # behind what is too large
    other.read()
    first.store(4, 1)
    first.store(5, 1)
    other.store(6, 2, (0,))
    other.decide(8, 2, (0,))
    first.read()
    known = first.producers._in_use.get(KEY)
    assert (known.numbering.next, known.numbering.removed) == (10, 4)
    assert first.decide(10, 1).broker_first == 6


def test_without_a_change_batches_without_dropped_records_are_not_written():
    topic = Topic()
    gateway_1 = topic.gateway()
    for first in range(0, 100, 10):
        gateway_1.store(first, 10)
    assert topic.records == []


def test_a_producer_whose_first_sequence_number_is_not_0_is_written():
    """The client has given up its first batch, which another gateway is still deciding.

    The broker does not know the epoch, and accepts any first sequence number.
    """
    topic = Topic()
    gateway_1, gateway_2 = topic.gateway(), topic.gateway()
    gateway_1.writes_late = True
    gateway_1.decide(0, 4, (0, 3))
    gateway_2.producers.queries.on_last_sequence(KEY, ARRIVAL, 0, Range(4, 2), None, connection=1)
    assert gateway_2.store(4, 2).broker_first == 4
    gateway_1.write_late()
    assert topic.gateway().read().decide(6, 1).broker_first == 6


def test_batches_stored_before_a_fence_stay_known():
    _, gateway_1, gateway_2 = gateways(2)
    gateway_1.store(10, 10)
    gateway_1.store(20, 10)
    gateway_2.read().producers.queries.on_last_sequence(
        KEY, ARRIVAL, 0, Range(30, 10), 28, connection=1
    )
    gateway_2.store(30, 10)
    gateway_1.read()
    known = gateway_1.producers.find(KEY, 0, Range(20, 10))
    assert (known.state, known.broker_first) == (State.STORED, 19)


def test_a_decision_on_top_of_a_void_decision_does_not_count():
    topic, gateway_1, gateway_2 = gateways(2)
    for each in (gateway_1, gateway_2):
        each.read()
    gateway_1.writes_late = True
    gateway_1.decide(10, 1)
    gateway_1.decide(11, 4, (0, 3))
    gateway_2.decide(10, 1, (0,))
    gateway_1.write_late()
    gateway_3 = topic.gateway().read()
    gateway_3.producers.expire()
    for each in (gateway_1, gateway_2, gateway_3):
        assert each.read().decide(11, 1).broker_first == 11 - 2
        each.defer(11, 1)


def test_a_batch_without_remaining_records_fences_too():
    topic, gateway_1, _ = gateways(2)
    gateway_1.decide(10, 1, (0,))
    assert b'"fence":true' in topic.records[-1][1]


def test_void_records_of_a_producer_that_is_set_aside_are_not_forgotten():
    topic = Topic()
    gateway_1, gateway_2 = topic.gateway(producers_max=1), topic.gateway()
    for each in (gateway_1, gateway_2):
        each.producers.interceptors_changed(lambda _: True)
    gateway_2.writes_late = True
    gateway_2.decide(0, 1)
    late = [*gateway_2.late]
    gateway_2.decide(1, 4, (0, 3))
    gateway_2.late[:] = late
    gateway_1.decide(0, 1, (0,))
    gateway_2.write_late()
    gateway_1.read().decide(0, 1, producer=8)
    assert KEY in gateway_1.producers.kept
    assert gateway_1.producers.kept.fences(KEY, 0).have_void


def test_the_last_sequence_is_requested_after_a_batch_postponed_here_and_stored_elsewhere():
    """The other gateway's record does not show whether the batch is stored."""
    _, gateway_1, gateway_2 = gateways(2)
    gateway_1.defer(10, 10)  # a policy cannot decide now
    assert gateway_1.needs_last_sequence(20, 1), (
        "the batch must be retried, or was stored through another gateway"
    )
    gateway_2.read().store(10, 10)
    gateway_1.read()
    assert gateway_1.needs_last_sequence(20, 1)
    gateway_1.find_last_sequence(20, 1, last=18)
    batch = gateway_1.decide(20, 1)
    assert gateway_1.producers.send(KEY, 0, batch) == 0


def test_the_last_sequence_of_a_leader_is_no_success_for_batches_after_a_postponed_batch():
    """A success confirms all earlier batches; the next leader may not have the postponed batch."""
    *_, gateway_2 = gateways(2)
    gateway_2.defer(10, 1)
    gateway_2.find_last_sequence(11, 1, last=9)
    batch = gateway_2.decide(11, 1, (0,))
    assert gateway_2.producers.acknowledge(KEY, 0, batch) == TIMED_OUT
    gateway_2.now += REPLICATED_AFTER_S
    assert gateway_2.producers.acknowledge(KEY, 0, batch) == 0


def test_a_later_batch_that_the_leader_lacks_does_not_prolong_the_wait():
    """Clients have five batches in flight; of those behind it, some are not sent yet."""
    *_, gateway_2 = gateways(2)
    gateway_2.defer(10, 1)
    gateway_2.find_last_sequence(11, 1, last=9)
    batch = gateway_2.decide(11, 1, (0,))
    gateway_2.now += REPLICATED_AFTER_S - 1
    gateway_2.find_last_sequence(15, 1, last=9)
    assert gateway_2.producers.acknowledge(KEY, 0, batch) == TIMED_OUT
    gateway_2.now += 1
    assert gateway_2.producers.acknowledge(KEY, 0, batch) == 0


@pytest.mark.parametrize("last", [8, None])
def test_a_leader_that_lost_the_postponed_batch_prolongs_the_wait(last):
    *_, gateway_2 = gateways(2)
    gateway_2.defer(10, 1)
    gateway_2.find_last_sequence(11, 1, last=9)
    batch = gateway_2.decide(11, 1, (0,))
    gateway_2.now += REPLICATED_AFTER_S
    gateway_2.find_last_sequence(15, 1, last=last)
    assert gateway_2.producers.acknowledge(KEY, 0, batch) == TIMED_OUT


def test_on_another_connection_no_batch_waits_for_replicas_of_a_postponed_batch():
    """There, clients first send again what has no response: the batch was acknowledged elsewhere."""
    *_, gateway_2 = gateways(2)
    gateway_2.producers.defer(KEY, ARRIVAL, 0, Range(10, 1), connection=3)
    gateway_2.find_last_sequence(11, 1, last=10)
    batch = gateway_2.decide(11, 1, (0,))
    assert gateway_2.producers.acknowledge(KEY, 0, batch) == 0


def test_on_another_connection_no_batch_waits_for_replicas_of_a_failed_batch():
    *_, gateway_2 = gateways(2)
    sent = gateway_2.decide(10, 1)
    gateway_2.producers.send(KEY, 0, sent)
    gateway_2.producers.on_response(KEY, 0, sent, NOT_LEADER_OR_FOLLOWER, Stored())
    gateway_2.now = 300.0
    gateway_2.producers.queries.on_last_sequence(KEY, ARRIVAL, 0, Range(11, 1), 10, connection=9)
    batch = gateway_2.decide(11, 1, (0,))
    assert gateway_2.producers.acknowledge(KEY, 0, batch) == 0


def test_the_last_sequence_of_a_leader_for_many_batches_is_a_single_wait():
    producer = Producer(0, 10, release=lambda _: None)
    for first in range(10, 300, 2):
        producer.defer(Range(first, 1), 1)
        producer.at_broker.on_last_sequence(
            Range(first + 1, 1), first, dropped=(0,), is_shared=True,
            recent_from=-1.0, overtakes=False, connection=1, now=float(first),
        )  # fmt: skip
    only_at_leader = producer.at_broker.only_at_leader
    assert 0 < len(only_at_leader) <= UNSETTLED_MAX
    until = 298.0 + REPLICATED_AFTER_S
    assert not only_at_leader.are_replicated_before(300, until - 1)
    assert only_at_leader.are_replicated_before(300, until)


def test_a_batch_waits_for_an_earlier_batch_that_is_not_stored():
    _, gateway_1, gateway_2 = gateways(2)
    gateway_1.defer(10, 10)
    gateway_2.read().decide(10, 10)
    gateway_1.read()
    gateway_1.find_last_sequence(20, 1, last=8)
    batch = gateway_1.decide(20, 1)
    assert gateway_1.producers.send(KEY, 0, batch) == 7


@pytest.mark.parametrize("ends_before_it_is_decided", ["refuse", "defer"])
def test_the_last_sequence_is_requested_if_earlier_batches_are_not_known(
    ends_before_it_is_decided,
):
    """Another gateway may be writing about a batch before it, which its client has given up."""
    topic = Topic()
    gateway_1, gateway_2 = topic.gateway(), topic.gateway()
    gateway_1.writes_late = True
    gateway_1.decide(0, 3, (2,))
    if ends_before_it_is_decided == "refuse":
        gateway_2.producers.refuse(KEY, ARRIVAL, 0, Range(3, 3))
    else:
        gateway_2.defer(6, 1)
    assert gateway_2.needs_last_sequence(6, 1)
    gateway_2.find_last_sequence(6, 1, last=None)
    gateway_2.store(6, 1)
    gateway_1.write_late()
    for each in (gateway_2, gateway_1):
        each.read()
    gateway_2.find_last_sequence(7, 1, last=6)
    assert gateway_2.decide(7, 1).broker_first == 7, "the broker has a batch with the number 6"


@pytest.mark.parametrize(("idle_s", "answer"), [(60, OUT_OF_ORDER), (90_000, None)])
def test_an_idle_producer_continues_in_an_epoch_without_a_record(idle_s, answer):
    """A broker forgets it after a day, too, and takes any sequence number."""
    topic = Topic()
    topic.gateway().store(0, 10, (0,))
    restarted = topic.gateway().read()  # the batches of epoch 1 lost no records
    restarted.now += idle_s
    numbers = Range(7, 1)
    assert restarted.producers.queries.is_needed(KEY, 1, numbers, (), connection=1)
    restarted.producers.queries.on_last_sequence(KEY, ARRIVAL, 1, numbers, None, connection=1)
    batch = restarted.decide(7, 1, epoch=1)
    assert (batch if isinstance(batch, int) else None) == answer


def test_a_failed_batch_is_still_expected_when_another_gateways_decision_replaces_it():
    """Neither gateway sent it; a broker that knows no producer stores the batches behind it."""
    topic = Topic()
    gateway_1, gateway_2 = topic.gateway(), topic.gateway()
    gateway_1.writes_late = gateway_2.writes_late = True
    gateway_1.decide(0, 4, (2,))
    gateway_2.producers.interceptors_changed(lambda _: True)
    gateway_2.decide(0, 4)
    gateway_1.write_late()
    gateway_2.writes_late = False
    behind = gateway_2.read().decide(4, 3)
    assert gateway_2.producers.send(KEY, 0, behind) == TIMED_OUT
    first = gateway_2.decide(0, 4, (2,))
    assert (first.dropped_count, gateway_2.producers.send(KEY, 0, first)) == (1, 0)
