"""The waiting dead letters that are sent in a request to a broker."""

import pytest

from penstock.gateway.produce.dead_letters import letter_queue
from penstock.gateway.produce.dead_letters.letter_queue import CHANNELS, LetterQueue, WaitingLetters
from penstock.policy import Record
from tests.records.encoding import encode_batch

BATCH = encode_batch([Record(1, None, b"a", ())])
A, B, C = ("t.dead", 0), ("t.dead", 1), ("u.dead", 0)


def letters(batches=1):
    return WaitingLetters(None, BATCH * batches, lambda _: None, 10.0)


def queue_of(*places):
    queue = LetterQueue()
    waiting = [(place, letters()) for place in places]
    for place, entry in waiting:
        queue.append(place, entry)
    return queue, [letters for _, letters in waiting]


def test_a_request_has_the_letters_of_each_partition():
    queue, (first, second, third, other) = queue_of(A, A, B, C)
    taken = queue.take()
    assert taken == {A: [first, second], B: [third], C: [other]}
    assert queue.take() == {}
    queue.release(taken)
    assert queue.take() == {}


def test_letters_of_a_partition_wait_for_the_response_to_earlier_letters():
    queue, (first,) = queue_of(A)
    taken = queue.take()
    more = [letters(), letters()]
    for added in more:
        queue.append(A, added)
    assert queue.take() == {}
    queue.release(taken)
    assert queue.take() == {A: more}
    assert first not in more


def test_a_request_is_bounded_and_partitions_take_turns(monkeypatch):
    monkeypatch.setattr(letter_queue, "REQUEST_BYTES", 3 * len(BATCH))
    queue, (a, a2, b, b2, c) = queue_of(A, A, B, B, C)
    taken = queue.take()
    assert taken == {A: [a, a2], B: [b]}
    queue.release(taken)
    assert queue.take() == {C: [c], B: [b2]}


def test_a_joined_batch_is_bounded(monkeypatch):
    monkeypatch.setattr(letter_queue, "JOINED_BYTES", 2 * len(BATCH))
    queue, (a, a2, a3) = queue_of(A, A, A)
    taken = queue.take()
    assert taken == {A: [a, a2]}
    queue.release(taken)
    assert queue.take() == {A: [a3]}


def test_letters_of_several_batches_are_not_joined():
    queue, (a, a2) = queue_of(A, A)
    queue.append(A, several := letters(batches=2))
    queue.append(A, last := letters())
    for expected in ([a, a2], [several], [last]):
        taken = queue.take()
        assert taken == {A: expected}
        queue.release(taken)


def test_letters_that_are_over_are_not_joined():
    queue, (a, over, a2) = queue_of(A, A, A)
    over.is_over = True
    taken = queue.take()
    assert taken == {A: [a, a2]}
    queue.release(taken)
    assert queue.take() == {}


def test_separated_letters_go_one_by_one_before_later_letters():
    queue, group = queue_of(A, A)
    taken = queue.take()
    queue.append(A, later := letters())
    queue.release(taken)
    queue.separate(A, taken[A])
    for expected in (*group, later):
        taken = queue.take()
        assert taken == {A: [expected]}
        queue.release(taken)


def test_letters_that_are_larger_than_a_request_go_alone(monkeypatch):
    monkeypatch.setattr(letter_queue, "REQUEST_BYTES", 1)
    queue, (a, b) = queue_of(A, B)
    assert queue.take() == {A: [a]}
    assert queue.take() == {B: [b]}


def test_a_single_request_is_in_flight_unless_it_is_slow():
    queue, _ = queue_of(A)
    assert LetterQueue().begin() is None, "nothing waits"
    first = queue.begin()
    queue.take()
    queue.append(B, letters())
    assert queue.begin() is None
    queue.be_slow(first)
    second = queue.begin()
    assert second not in {None, first}
    queue.take()
    queue.append(C, letters())
    assert not queue.goes_on(first), "the second channel is prompt, and takes the waiting letters"
    queue.end(first)
    assert queue.goes_on(second)


def test_the_number_of_slow_requests_is_bounded():
    queue, _ = queue_of(A)
    channels = []
    while (channel := queue.begin()) is not None:
        channels.append(channel)
        queue.be_slow(channel)
    assert len(set(channels)) == CHANNELS
    queue.end(channels[1])
    assert queue.begin() == channels[1]


def test_a_slow_channel_continues_if_no_other_channel_is_prompt():
    queue, _ = queue_of(A)
    channel = queue.begin()
    queue.be_slow(channel)
    assert queue.goes_on(channel)
    assert queue.begin() is None


def test_letters_know_their_remaining_batches():
    waiting = letters(batches=2)
    assert [bytes(batch) for batch in waiting.batches] == [BATCH, BATCH]
    assert not waiting.is_stored()
    assert waiting.is_stored()


def test_pauses_grow_until_a_batch_is_stored():
    waiting = letters(batches=2)
    pauses = [waiting.pause_s() for _ in range(8)]
    assert pauses[1] == pytest.approx(2 * pauses[0])
    assert pauses[-1] == pauses[-2] == 1.0
    waiting.is_stored()
    assert waiting.pause_s() == pauses[0]
