"""State of producers: single rules."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.held_batches import HELD_S
from penstock.gateway.produce.producer_state.known_producers import EXPIRATION_S
from penstock.gateway.produce.producer_state.producer.batch import (
    TRANSITIONS,
    Batch,
    Event,
    State,
)
from penstock.gateway.produce.producer_state.producer.batches import RECENT_S
from penstock.gateway.produce.producer_state.producer.earlier_batches import RETRIED_WITHIN_S
from penstock.gateway.produce.producer_state.producer.history import History
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import (
    ProducerKey,
    decode,
)
from penstock.kafka.records.sequences import SEQUENCES, add, distance
from tests.gateway.produce.producer_state.numbering import (
    ARRIVAL,
    KEY,
    NOT_LEADER,
    OUT_OF_ORDER,
    TIMED_OUT,
    TOO_LARGE,
    UNKNOWN_PRODUCER,
    Gateway,
)

OTHER_KEY = ProducerKey("t", 1, 7)
OTHER_ARRIVAL = Arrival("t", 1, 7)


@pytest.fixture
def gateway():
    return Gateway()


def restored_record():
    """The record that an earlier process stored of a producer whose first batch lost records."""
    before = Gateway()
    before.store(0, 4, (0,))
    return before.records[-1]


def late_batch(gateway, *, has_begun=True, idle_s=0.0):
    """A batch at a former leader, retried after the new leader has stored five behind it.

    Returns:
        It, and the sequence number after the five.
    """
    first = 3 if has_begun else 0
    if has_begun:
        gateway.store(0, first)
    gateway.now += idle_s
    batch = gateway.decide(first, 3, (1,))
    assert gateway.send(batch) == 0
    numbers = range(first + 3, first + 18, 3)
    behind = [gateway.decide(number, 3) for number in numbers]
    assert {gateway.send(each) for each in behind} == {0}
    assert gateway.answered(batch, NOT_LEADER) == NOT_LEADER
    assert {gateway.answered(each, 0) for each in behind} == {0}
    assert gateway.send(gateway.decide(first, 3, (1,), connection=2)) == 0
    return batch, first + 18


class TestTransitions:
    """The table of states."""

    def test_every_state_has_its_row(self):
        assert set(TRANSITIONS) == set(State)

    @pytest.mark.parametrize("state", State)
    @pytest.mark.parametrize("event", Event)
    def test_a_transition_that_is_not_in_the_table_is_an_error(self, state, event):
        batch = Batch(0, 2, 0, (1,), 1, state)
        if event in TRANSITIONS[state]:
            batch.apply(event)
            assert batch.state is TRANSITIONS[state][event]
        else:
            with pytest.raises(AssertionError, match=event.name):
                batch.apply(event)
            assert batch.state is state

    def test_a_stored_batch_stays_stored(self):
        assert set(TRANSITIONS[State.STORED].values()) == {State.STORED}


class TestNumbers:
    """The sequence numbers that the broker gets."""

    def test_sequence_numbers_are_lowered_by_the_records_dropped_before(self, gateway):
        assert gateway.store(0, 4, (1, 2)).broker_first == 0
        assert gateway.store(4, 2).broker_first == 2
        assert gateway.decide(6, 1).broker_first == 4

    def test_sequence_numbers_begin_again_at_0(self, gateway):
        gateway.learn_last_sequence(SEQUENCES - 2, 3, SEQUENCES - 3, (0,))
        assert gateway.store(SEQUENCES - 2, 3, (0,)).broker_first == SEQUENCES - 2
        assert gateway.decide(1, 1).broker_first == 0

    def test_a_retried_batch_is_sent_as_before(self, gateway):
        batch = gateway.decide(0, 3, (1,))
        gateway.send(batch)
        gateway.answered(batch, NOT_LEADER)
        assert gateway.decide(0, 3, (0, 2), connection=2) is batch
        assert batch.dropped == (1,)
        assert batch.data == b"data"

    def test_parts_of_a_batch_that_was_too_large_are_decided_again(self, gateway):
        batch = gateway.decide(0, 4, (1, 2))
        gateway.send(batch)
        assert gateway.answered(batch, TOO_LARGE) == TOO_LARGE
        assert gateway.store(0, 2, (1,)).broker_first == 0
        assert gateway.store(2, 2, (0,)).broker_first == 1
        assert gateway.decide(4, 1).broker_first == 2

    def test_an_overtaken_batch_lowers_the_numbers_of_later_batches(self, gateway):
        behind = gateway.decide(3, 2)
        gateway.send(behind)
        assert gateway.answered(behind, OUT_OF_ORDER) == UNKNOWN_PRODUCER
        late = gateway.decide(0, 3, (0,))
        assert late.broker_first == 0
        assert gateway.decide(3, 2).broker_first == 2

    def test_a_late_response_to_an_old_epoch_does_not_change_the_new_epoch(self, gateway):
        gateway.producers.restore(*restored_record(), 0.0)
        old = gateway.decide(4, 2)
        gateway.send(old)
        assert gateway.decide(0, 2, (0,), epoch=1).broker_first == 0
        gateway.answered(old, OUT_OF_ORDER)
        assert gateway.decide(2, 2, epoch=1).broker_first == 1

    def test_a_new_epoch_begins_at_0(self, gateway):
        gateway.store(0, 4, (0,))
        assert gateway.decide(3, 2, epoch=1) == OUT_OF_ORDER
        assert gateway.decide(0, 3, (0,), epoch=1).broker_first == 0
        behind = gateway.decide(3, 2, epoch=1)
        assert behind.broker_first == 2
        # Its client may not be allowed to write: only the broker knows.
        assert gateway.decide(4, 1, epoch=0).broker_first == 3
        gateway.send(behind, epoch=1)
        assert gateway.answered(behind, 0, epoch=1) == 0
        assert gateway.decide(5, 1, epoch=0) == 47


class TestReceived:
    """Batches that are registered, and not decided yet."""

    def test_a_topic_has_undecided_batches_until_the_last_batch_departs(self, gateway):
        producers = gateway.producers
        for arrival, epoch, first in ((ARRIVAL, 0, 0), (ARRIVAL, 0, 1), (OTHER_ARRIVAL, 1, 0)):
            producers.arrivals.add(arrival, epoch, first)
        assert [producers.arrivals.count(found) for found in (ARRIVAL, OTHER_ARRIVAL)] == [2, 1]
        for arrival, epoch, first in ((ARRIVAL, 0, 1), (OTHER_ARRIVAL, 1, 0), (ARRIVAL, 0, 0)):
            assert producers.arrivals.have_topic("t")
            assert not producers.arrivals.have_topic("u")
            producers.arrivals.remove(arrival, epoch, first)
        assert not producers.arrivals.have_topic("t")
        assert producers.arrivals.count(ARRIVAL) == producers.arrivals.count(OTHER_ARRIVAL) == 0

    def test_the_last_sequence_is_requested_for_later_batches_of_a_newer_epoch_only(self, gateway):
        gateway.store(0, 4, (0,), epoch=1)
        assert not gateway.needs_last_sequence(4, 1, (0,), epoch=0), "an older epoch is refused"
        assert not gateway.needs_last_sequence(0, 1, epoch=2)
        assert gateway.needs_last_sequence(3, 1, epoch=2)


class TestAnswers:
    """The responses to the client."""

    def test_a_broker_does_not_recognize_a_batch_between_stored_batches(self, gateway):
        """Java has six on their way when a leader moves; a broker recognizes five."""
        batch, after = late_batch(gateway)
        assert gateway.answered(batch, OUT_OF_ORDER) == 0
        assert batch.is_done
        assert batch.stored.base_offset == -1
        dropped = gateway.decide(after, 1, (0,), connection=2)
        assert gateway.acknowledge(dropped) == 0

    def test_a_broker_may_have_forgotten_its_producer(self, gateway):
        batch, _ = late_batch(gateway, idle_s=RECENT_S)
        assert gateway.answered(batch, OUT_OF_ORDER) == OUT_OF_ORDER

    def test_a_broker_that_does_not_know_a_producer_takes_a_later_batch_first(self, gateway):
        batch, _ = late_batch(gateway, has_begun=False)
        assert gateway.answered(batch, OUT_OF_ORDER) == OUT_OF_ORDER

    def test_a_batch_after_the_last_stored_is_out_of_order(self, gateway):
        gateway.store(0, 3)
        batch = gateway.decide(3, 3)
        assert gateway.send(batch) == 0
        assert gateway.answered(batch, OUT_OF_ORDER) == OUT_OF_ORDER

    def test_a_dropped_batch_succeeds_if_all_earlier_batches_are_settled(self, gateway):
        gateway.store(0, 1)
        batch = gateway.decide(1, 2, (0, 1))
        assert batch.is_done
        assert gateway.acknowledge(batch) == 0
        assert batch.state is State.ACKNOWLEDGED

    def test_a_dropped_batch_does_not_succeed_after_a_batch_without_a_response(self, gateway):
        before = gateway.decide(0, 1)
        batch = gateway.decide(1, 2, (0, 1))
        gateway.send(before)
        assert gateway.acknowledge(batch) == TIMED_OUT
        gateway.answered(before, 0)
        assert gateway.acknowledge(batch) == 0

    @pytest.mark.parametrize("code", [NOT_LEADER, TIMED_OUT, 19, OUT_OF_ORDER])
    def test_batches_after_a_batch_that_has_to_be_retried_are_retried(self, gateway, code):
        gateway.store(0, 1)
        before = gateway.decide(1, 1)
        lost, behind = gateway.decide(2, 1, (0,)), gateway.decide(3, 1)
        gateway.send(before)
        assert gateway.answered(before, code) == code
        assert gateway.acknowledge(lost) == TIMED_OUT
        assert gateway.send(behind) == TIMED_OUT

    @pytest.mark.parametrize("code", [NOT_LEADER, TIMED_OUT, 19])
    def test_a_batch_that_the_broker_gets_before_a_retry_is_not_out_of_order(self, gateway, code):
        """After OUT_OF_ORDER_SEQUENCE_NUMBER librdkafka would send both in a new epoch."""
        gateway.store(0, 1)
        before, behind = gateway.decide(1, 2, (0,)), gateway.decide(3, 1)
        gateway.send(before)
        gateway.send(behind)
        assert gateway.answered(before, code) == code
        assert gateway.answered(behind, OUT_OF_ORDER) == TIMED_OUT
        assert gateway.send(gateway.decide(1, 2, (0,))) == 0
        assert gateway.send(gateway.decide(3, 1)) == 0
        assert gateway.answered(before, 0) == 0
        assert gateway.answered(behind, 0) == 0

    def test_a_batch_after_a_batch_that_its_client_gave_up_is_out_of_order(self, gateway):
        gateway.store(0, 1)
        before, behind = gateway.decide(1, 2, (0,)), gateway.decide(3, 1)
        gateway.send(before)
        gateway.answered(before, NOT_LEADER)
        gateway.now += RETRIED_WITHIN_S
        gateway.decide(3, 1)
        gateway.send(behind)
        assert gateway.answered(behind, OUT_OF_ORDER) == OUT_OF_ORDER

    @pytest.mark.parametrize("code", [TOO_LARGE, 87])
    def test_batches_after_a_batch_that_failed_permanently_are_out_of_order(self, gateway, code):
        gateway.store(0, 1)
        before = gateway.decide(1, 1)
        lost, behind = gateway.decide(2, 1, (0,)), gateway.decide(3, 1)
        gateway.send(before)
        assert gateway.answered(before, code) == code
        assert gateway.acknowledge(lost) == OUT_OF_ORDER
        assert gateway.send(behind) == OUT_OF_ORDER
        assert gateway.decide(4, 1) == OUT_OF_ORDER

    @pytest.mark.parametrize("code", [TOO_LARGE, 87])
    def test_a_batch_on_its_way_after_a_batch_that_failed_is_out_of_order(self, gateway, code):
        gateway.store(0, 1)
        before, behind = gateway.decide(1, 1), gateway.decide(2, 2, (0,))
        gateway.send(before)
        gateway.send(behind)
        assert gateway.answered(before, code) == code
        assert gateway.answered(behind, OUT_OF_ORDER) == OUT_OF_ORDER

    def test_a_dropped_batch_after_a_refused_first_batch_never_succeeds(self, gateway):
        before, lost = gateway.decide(0, 1), gateway.decide(1, 1, (0,))
        gateway.send(before)
        gateway.answered(before, TOO_LARGE)
        assert gateway.acknowledge(lost) == OUT_OF_ORDER

    def test_refused_by_a_policy_counts_as_refused(self, gateway):
        gateway.store(0, 1)
        gateway.producers.refuse(KEY, ARRIVAL, 0, Range(1, 1))
        assert gateway.decide(2, 1) == OUT_OF_ORDER

    def test_a_retriable_error_before_the_decision(self, gateway):
        gateway.store(0, 1)
        gateway.producers.defer(KEY, ARRIVAL, 0, Range(1, 1))
        assert gateway.decide(2, 1) == TIMED_OUT
        assert gateway.decide(1, 1).broker_first == 1
        assert gateway.decide(2, 1).broker_first == 2

    def test_a_gap_is_out_of_order_as_at_a_broker(self, gateway):
        gateway.store(0, 2)
        assert gateway.needs_last_sequence(4, 1)
        gateway.learn_last_sequence(4, 1, 1)
        assert gateway.decide(4, 1) == OUT_OF_ORDER

    def test_a_gap_that_the_broker_does_not_have_was_stored_through_another_gateway(self, gateway):
        gateway.store(0, 2, (0,))
        gateway.learn_last_sequence(4, 1, 2)
        assert gateway.decide(4, 1).broker_first == 3

    def test_a_decision_that_is_not_stored_delays_later_batches(self, gateway):
        gateway.is_kept = False
        lost = gateway.decide(0, 1, (0,))
        behind = gateway.decide(1, 1)
        assert gateway.acknowledge(lost) == TIMED_OUT
        assert gateway.send(behind) == TIMED_OUT
        gateway.is_kept = True
        assert gateway.decide(0, 1, (0,)) is lost
        assert gateway.acknowledge(lost) == 0
        assert gateway.send(gateway.decide(1, 1)) == 0

    def test_a_stored_batch_confirms_all_earlier_batches(self, gateway):
        first, second = gateway.decide(0, 1), gateway.decide(1, 1)
        gateway.send(first)
        gateway.send(second)
        gateway.answered(second, 0)
        assert first.state is State.PRESUMED

    def test_the_response_to_a_forgotten_batch_is_that_of_the_broker(self, gateway):
        batch = gateway.decide(0, 1)
        gateway.send(batch)
        gateway.producers.forget(KEY)
        assert gateway.answered(batch, NOT_LEADER) == NOT_LEADER
        assert not gateway.producers


class TestRestored:
    """State that an earlier process, or another gateway, has stored."""

    def restart(self, before, **options):
        after = Gateway(**options)
        after.reads(before)
        return after

    def test_sequence_numbers_continue_after_a_restart(self, gateway):
        gateway.store(0, 3, (0,))
        assert self.restart(gateway).decide(3, 1).broker_first == 2

    def test_a_batch_retried_after_a_restart_is_sent_as_before(self, gateway):
        gateway.store(0, 3, (0,))
        batch = self.restart(gateway).decide(0, 3, (0,))
        assert (batch.broker_first, batch.dropped_count) == (0, 1)

    def test_a_batch_with_another_verdict_after_a_restart_is_unknown(self, gateway):
        gateway.store(0, 3, (0,))
        assert self.restart(gateway).decide(0, 3, (1,)) == UNKNOWN_PRODUCER

    def test_state_that_is_older_than_the_broker_is_an_error(self, gateway):
        gateway.store(0, 3, (0,))
        gateway.is_kept = False
        after = self.restart(gateway)
        after.learn_last_sequence(5, 1, 2)
        assert after.decide(5, 1) == UNKNOWN_PRODUCER
        assert not after.producers

    def test_a_batch_is_never_unknown_with_shared_state(self):
        first = Gateway(is_shared=True)
        first.store(0, 3, (0,))
        second = self.restart(first, is_shared=True)
        second.learn_last_sequence(5, 1, 2)
        assert second.decide(5, 1) == OUT_OF_ORDER

    def test_a_producer_moves_to_another_gateway_and_back(self):
        first, second = Gateway(is_shared=True), Gateway(is_shared=True)
        first.store(0, 3, (0,))
        second.reads(first)
        second.store(3, 2, (1,))
        assert first.producers.needs_reading(KEY, 0, Range(5, 1))
        first.reads(second)
        assert first.decide(5, 1).broker_first == 3

    def test_a_batch_that_failed_here_was_retried_there(self):
        first, second = Gateway(is_shared=True), Gateway(is_shared=True)
        batch = first.decide(0, 2, (0,))
        first.send(batch)
        first.answered(batch, NOT_LEADER)
        second.reads(first)
        second.store(0, 2, (0,))
        behind = first.decide(2, 1)
        assert first.send(behind) == TIMED_OUT
        assert first.needs_last_sequence(2, 1)
        first.learn_last_sequence(2, 1, 0)
        assert first.send(behind) == 0

    def test_sequence_numbers_of_a_refused_batch_are_free_after_a_restart(self, gateway):
        gateway.learn_last_sequence(12, 3, 11, (2,))
        large, behind = gateway.decide(12, 3, (2,)), gateway.decide(15, 2)
        gateway.send(large)
        gateway.answered(large, TOO_LARGE)
        gateway.send(behind)
        gateway.answered(behind, OUT_OF_ORDER)
        gateway.decide(17, 1, (0,))
        after = self.restart(gateway)
        assert after.decide(12, 1).broker_first == 12
        assert after.decide(13, 2, (1,)).broker_first == 13
        assert after.decide(15, 2).broker_first == 14

    def test_sequence_numbers_of_a_refused_only_batch_are_free(self):
        first, second = Gateway(is_shared=True), Gateway(is_shared=True)
        first.learn_last_sequence(12, 3, 11, (0,))
        large = first.decide(12, 3, (0,))
        first.send(large)
        first.answered(large, TOO_LARGE)
        first.decide(12, 1, (0,))
        second.reads(first)
        assert second.decide(13, 2).broker_first == 12

    def test_state_is_forgotten_after_the_time_after_which_brokers_forget(self, gateway):
        gateway.store(0, 3, (0,))
        after = Gateway()
        after.now = EXPIRATION_S + 1
        for key, record in gateway.records:
            after.producers.restore(key, record, 0.0)
        assert after.decide(3, 1).broker_first == 3
        assert after.producers.has_topic("t")

    def test_a_batch_taken_for_stored_counts_as_missing_when_it_is_retried(self, gateway):
        gateway.store(0, 1)
        gateway.decide(1, 2, (0,))
        after = self.restart(gateway)
        after.producers.arrivals.add(ARRIVAL, 0, 1)
        assert after.decide(3, 1) == TIMED_OUT
        after.producers.arrivals.remove(ARRIVAL, 0, 1)
        assert after.send(after.decide(1, 2, (0,))) == 0
        assert after.decide(3, 1).broker_first == 2

    def test_a_last_sequence_of_the_broker_does_not_store_a_loss_that_failed_to_be_stored(self):
        gateway = Gateway(is_shared=True)
        gateway.store(0, 3, (0,))
        gateway.is_kept = False
        lost = gateway.decide(3, 1, (0,))
        gateway.learn_last_sequence(4, 1, 1)
        assert lost.state is State.AWAITED
        assert gateway.acknowledge(lost) == TIMED_OUT

    def test_unreadable_records_count_as_missing(self, gateway):
        with pytest.raises(ValueError, match="not the state"):
            gateway.producers.restore(KEY, b"[]", 0.0)
        with pytest.raises(ValueError, match="not the state"):
            decode(b'{"version":2,"epoch":0,"next":0,"writer":""}', History.RESTORED, 0.0, print)


class TestTwoGateways:
    """A decision that could not be written while the client went on through the other gateway."""

    def test_sequence_numbers_lowered_for_a_batch_that_the_client_gave_up_do_not_count(self):
        first, second = Gateway(is_shared=True), Gateway(is_shared=True)
        for number in (0, 4, 7):
            first.decide(number, 3 + (number == 0), (1, 2) if number == 0 else (2,))
        second.learn_last_sequence(4, 3, None, (2,))
        assert second.store(4, 3, (2,)).broker_first == 4
        second.reads(first)
        assert second.decide(7, 3, (2,)).broker_first == 6


class TestTrouble:
    """Decisions that are not stored, forgotten, or made by another gateway."""

    def test_a_batch_may_be_refused_after_its_loss_could_not_be_stored(self):
        gateway = Gateway(is_shared=True)
        gateway.is_kept = False
        gateway.decide(0, 1, (0,))
        gateway.is_kept = True
        gateway.producers.refuse(KEY, ARRIVAL, 0, Range(0, 1))  # with another of its request
        behind = gateway.decide(1, 1)
        assert gateway.send(behind) == 0
        assert gateway.answered(behind, 0) == 0

    def test_the_loss_of_a_batch_may_be_stored_after_a_refusal(self):
        gateway, late, failures = Gateway(is_shared=True), [], []
        gateway.producers._writer._keep = lambda key, record, done: late.append((key, record, done))
        gateway.producers.decide(
            KEY, ARRIVAL, 0, Range(0, 1), (0,), b"", connection=1, callback=failures.append
        )
        gateway.producers.defer(KEY, ARRIVAL, 0, Range(0, 1))  # its connection is gone
        gateway.producers.refuse(KEY, ARRIVAL, 0, Range(0, 1))
        key, record, done = late[0]
        gateway.producers.restore(key, record, 0.0)
        done(None)
        assert failures == [None]

    def test_a_batch_that_is_forgotten_before_its_response_is_retried(self):
        gateway = Gateway(producers_max=1)
        batch = gateway.decide(0, 1, (0,))
        other = ProducerKey("t", 1, 7)
        gateway.producers.decide(
            other, OTHER_ARRIVAL, 0, Range(0, 1), (), b"x", connection=2, callback=lambda _: None
        )
        assert gateway.acknowledge(batch) == TIMED_OUT

    def test_a_batch_that_is_forgotten_by_59_of_an_earlier_batch_is_retried(self, gateway):
        first, lost = gateway.decide(0, 1), gateway.decide(1, 1, (0,))
        gateway.send(first)
        assert gateway.answered(first, UNKNOWN_PRODUCER) == UNKNOWN_PRODUCER
        assert gateway.acknowledge(lost) == TIMED_OUT

    def test_a_newer_epoch_counts_when_the_broker_has_stored_something_of_it(self, gateway):
        gateway.store(0, 4, (0,))
        begun = gateway.decide(0, 1, epoch=30_000)
        assert gateway.send(begun, epoch=30_000) == 0
        assert gateway.answered(begun, 29, epoch=30_000) == 29  # it may not write
        assert gateway.store(4, 2).broker_first == 3

    def test_two_gateways_stop_writing_once_their_state_agrees(self):
        """A refused batch is in no record: it leaves neither gateway ahead of the other."""
        first, second = Gateway(is_shared=True), Gateway(is_shared=True)
        second.store(0, 4, (1,))
        first.reads(second)
        large = second.decide(4, 4, (0, 2))
        second.send(large)
        first.reads(second)
        assert second.answered(large, TOO_LARGE) == TOO_LARGE
        part = first.decide(4, 2, (0,))  # Java has divided it, and goes through the other gateway
        first.send(part)
        first.answered(part, 0)
        written = [[*first.records], [*second.records]]
        for _ in range(10):
            for reader, writer in ((first, second), (second, first)):
                reader.records.clear()
                for key, record in written[writer is second]:
                    reader.producers.restore(key, record, 0.0)
                written[reader is second] = [*reader.records]
        assert written == [[], []]

    def test_a_batch_decided_elsewhere_is_not_stored_if_the_broker_has_nothing(self):
        first, second = Gateway(is_shared=True), Gateway(is_shared=True)
        first.now = second.now = 1_000_000.0
        batch = second.decide(0, 4, (1,))
        second.send(batch)
        first.reads(second)
        assert first.needs_last_sequence(4, 1, (0,))
        first.learn_last_sequence(4, 1, None, (0,))
        lost = first.decide(4, 1, (0,))
        assert first.acknowledge(lost) == TIMED_OUT
        assert second.answered(batch, TOO_LARGE) == TOO_LARGE
        first.learn_last_sequence(0, 2, None, (1,))
        assert first.decide(0, 2, (1,)).broker_first == 0


class TestMemory:
    """The memory that is held, and for how long."""

    def test_a_view_of_a_large_request_is_copied(self, gateway):
        request = bytes(5_000_000)
        gateway.decide(0, 1, data=memoryview(request)[:100])
        assert gateway.producers.held.bytes == 100

    def test_a_view_of_most_of_a_request_counts_as_all_of_it(self, gateway):
        request = bytes(5_000_000)
        gateway.decide(0, 1, data=memoryview(request)[:4_000_000])
        assert gateway.producers.held.bytes == 5_000_000

    def test_a_stored_batch_is_not_held(self, gateway):
        gateway.store(0, 64_000, range(0, 64_000, 2))
        assert gateway.producers.held.bytes == 0

    def test_held_memory_is_bounded(self):
        gateway = Gateway(held_max_bytes=1_000)
        batches = [gateway.decide(first, 1, data=bytes(400)) for first in range(4)]
        assert gateway.producers.held.bytes == 800
        assert [batch.data is None for batch in batches] == [True, True, False, False]

    def test_bytes_are_forgotten_after_ten_minutes_and_producers_after_a_day(self, gateway):
        batch = gateway.decide(0, 2, (0,))
        gateway.now = HELD_S + 1
        gateway.producers.expire()
        assert batch.data is None
        assert gateway.producers.held.bytes == 0
        assert gateway.producers.has_topic("t")
        gateway.now = EXPIRATION_S + 1
        gateway.producers.expire()
        assert not gateway.producers.has_topic("t")

    def test_few_batches_are_remembered(self, gateway):
        for first in range(0, 400, 2):
            gateway.store(first, 2, (0,))
        (_, record) = gateway.records[-1]
        assert len(record) < 2_000
        assert gateway.producers.find(KEY, 0, Range(0, 2)) is None
        assert gateway.producers.find(KEY, 0, Range(398, 2)) is not None

    def test_a_record_of_many_dropped_positions_is_bounded(self, gateway):
        chance = random.Random(1)
        dropped = [place for place in range(64_000) if chance.random() < 0.5]
        batch = gateway.decide(0, 64_000, dropped)
        (_, record) = gateway.records[-1]
        assert len(record) < 100_000
        read = decode(record, History.RESTORED, 0.0, lambda _: None)
        assert list(read.batches[0].dropped) == dropped
        assert gateway.producers.held.bytes == len(b"data") + 4 * batch.dropped_count


@given(st.integers(0, SEQUENCES - 1), st.integers(1 - 2**30, 2**30 - 1))
def test_distance(number, count):
    assert distance(number, add(number, count)) == count
